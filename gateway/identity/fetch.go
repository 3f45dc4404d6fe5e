package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxDocument bounds a discovery document or key set: a hundred of the largest keys with their chains fit.
const maxDocument = 1 << 20

// fetch gets the issuer's key set, by discovery when no JWKSURL is configured.
func (s *issuer) fetch(ctx context.Context) (*keySet, error) {
	at := s.cfg.JWKSURL
	if at == "" {
		discovered, err := s.discover(ctx)
		if err != nil {
			return nil, err
		}
		at = discovered
	}
	document, err := get(ctx, s.client, at)
	if err != nil {
		return nil, fmt.Errorf("fetching key set: %w", err)
	}
	return parseKeySet(document)
}

// discover asks the issuer where its keys are. The document must speak for exactly the configured issuer.
func (s *issuer) discover(ctx context.Context) (string, error) {
	document, err := get(ctx, s.client, strings.TrimSuffix(s.cfg.Issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return "", fmt.Errorf("fetching discovery document: %w", err)
	}
	var discovery struct {
		Issuer  string `json:"issuer"`
		JWKSURI string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(document, &discovery); err != nil {
		return "", errors.New("reading discovery document: not the JSON it should be")
	}
	if discovery.Issuer != s.cfg.Issuer {
		return "", fmt.Errorf("reading discovery document: it is for issuer %.200q", discovery.Issuer)
	}
	if err := checkURL(discovery.JWKSURI); err != nil {
		return "", fmt.Errorf("reading discovery document: jwks_uri: %w", err)
	}
	return discovery.JWKSURI, nil
}

// get fetches one small document; anything but 200 is an error.
func get(ctx context.Context, client *http.Client, at string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %d", at, response.StatusCode)
	}
	document, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", at, err)
	}
	if len(document) > maxDocument {
		return nil, fmt.Errorf("reading %s: longer than 1 MiB", at)
	}
	return document, nil
}

// newClient returns the client for one issuer. It follows no redirect: where keys come from is configuration.
func newClient(base *http.Client, roots []*x509.Certificate) *http.Client {
	client := &http.Client{}
	switch {
	case len(roots) > 0:
		pool := x509.NewCertPool()
		for _, root := range roots {
			pool.AddCert(root)
		}
		client.Transport = &http.Transport{
			Proxy:             http.ProxyFromEnvironment,
			TLSClientConfig:   &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true,
			DisableKeepAlives: true, // one fetch per quarter of an hour
		}
	case base != nil:
		*client = *base
	default:
		client.Transport = &http.Transport{
			Proxy:             http.ProxyFromEnvironment,
			TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true,
			DisableKeepAlives: true,
		}
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}
