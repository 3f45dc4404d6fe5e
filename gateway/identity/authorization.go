package identity

import (
	"encoding/base64"
	"strings"
)

// maxAuthorization bounds an authorization value: a token of full size in base64 with a user name before it.
const maxAuthorization = 24 << 10

// tokenOf takes the token out of the authorization values: the password of Basic, whose user name is ignored because the
// token alone says who it is for, or the Bearer value. No value at all gives an empty token.
func tokenOf(values []string) (string, *Refusal) {
	switch len(values) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", refuse(ClassSeveralCredentials, "more than one authorization value was sent; send one", nil)
	}
	value := values[0]
	if len(value) > maxAuthorization {
		return "", malformed("the authorization value is too long (a token may have 16 KiB)")
	}
	scheme, rest, ok := strings.Cut(value, " ")
	if !ok {
		return "", malformed("the authorization value is not Basic or Bearer with a token")
	}
	var token string
	switch strings.ToLower(scheme) {
	case "bearer":
		token = rest
	case "basic":
		pair, err := base64.StdEncoding.Strict().DecodeString(rest)
		if err != nil || strings.ContainsAny(rest, "\r\n") {
			return "", malformed("the Basic authorization is not base64")
		}
		_, password, ok := strings.Cut(string(pair), ":")
		if !ok {
			return "", malformed("the Basic authorization has no password; the token goes there")
		}
		token = password
	default:
		return "", malformed("the authorization scheme is neither Basic nor Bearer")
	}
	if token == "" {
		return "", malformed("the authorization has no token in it")
	}
	if len(token) > maxToken {
		return "", malformed("the token is longer than 16 KiB")
	}
	for i := range len(token) {
		if !isTokenByte(token[i]) {
			return "", malformed("the credential is not a token (a character that tokens do not have)")
		}
	}
	return token, nil
}

func isTokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}
