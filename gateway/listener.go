package gateway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// MaxMessage is the largest message either way, in bytes: what Talos itself allows
// (constants.GRPCMaxMessageSize).
const MaxMessage = 32 << 20

const (
	// window is talosctl's own flow-control window; a smaller one would make us the
	// slow part of a stream.
	window = 2 << 20
	// maxStreams is per connection; a dashboard opens about twenty streams.
	maxStreams = 256
	// minPing lets talosctl's action tracker ping every 10 s on a stream that is idle.
	minPing = 5 * time.Second
	// ownPing finds dead clients behind a load balancer.
	ownPing = 30 * time.Second
)

// CertificateSource gives the listener's current certificate; it is asked at every
// handshake, so a renewed file is served without a restart.
type CertificateSource interface {
	ServerCertificate() (*tls.Certificate, error)
}

// serverTLS requests client certificates and verifies none: who the caller is gets
// judged per call in gateway/identity, so that a wrong certificate is answered with a
// reason rather than a broken handshake.
func serverTLS(source CertificateSource, minVersion uint16) (*tls.Config, error) {
	if source == nil {
		return nil, errors.New("a server certificate is required")
	}
	if _, err := source.ServerCertificate(); err != nil {
		return nil, fmt.Errorf("reading the server certificate: %w", err)
	}
	if minVersion == 0 {
		minVersion = tls.VersionTLS13
	}
	return &tls.Config{
		MinVersion: minVersion,
		NextProtos: []string{"h2"},
		ClientAuth: tls.RequestClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return source.ServerCertificate()
		},
		// A session ticket would carry a client certificate past its own life.
		SessionTicketsDisabled: true,
	}, nil
}

// WebTLS is the HTTP door's TLS: the same certificate and rules, for HTTP/2 and HTTP/1.1.
func WebTLS(source CertificateSource, minVersion uint16) (*tls.Config, error) {
	cfg, err := serverTLS(source, minVersion)
	if err != nil {
		return nil, err
	}
	cfg.NextProtos = []string{"h2", "http/1.1"}
	return cfg, nil
}

// newServer builds the gRPC server: no registered service, one handler for every
// method, raw messages.
func newServer(cfg *tls.Config, handler grpc.StreamHandler) *grpc.Server {
	return grpc.NewServer(
		grpc.Creds(credentials.NewTLS(cfg)),
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.UnknownServiceHandler(handler),
		grpc.MaxRecvMsgSize(MaxMessage),
		grpc.MaxSendMsgSize(MaxMessage),
		grpc.InitialWindowSize(window),
		grpc.InitialConnWindowSize(window),
		grpc.MaxHeaderListSize(64<<10),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: ownPing, Timeout: 10 * time.Second}),
	)
}
