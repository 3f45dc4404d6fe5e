package people

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/oauth2"

	"bronzeward/cmd/bronzeward/cli"
	"bronzeward/cmd/bronzeward/clitest"
)

func TestALostAnswerIsAskedForAgain(t *testing.T) {
	w := newLoginWorld(t)
	f := newFalseIssuer(t, w)
	var asked atomic.Int32
	f.token = func(rw http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			http.Error(rw, "away", http.StatusBadGateway)
			return
		}
		clitest.Gives(http.StatusOK, map[string]any{"token_type": "Bearer", "access_token": "opaque", "id_token": f.mint()})(rw, r)
	}
	got := runAt(t.Context(), cli.Console{}, "login", "--device", "--issuer-ca", f.ca)
	if got.Code != cli.ExitOK || asked.Load() != 2 || !strings.Contains(got.ErrOut, "ABCD-EFGH") {
		t.Errorf("code %d after %d questions\n%s", got.Code, asked.Load(), got.ErrOut)
	}
}

func TestADeviceAnswerIsBroughtWithinBounds(t *testing.T) {
	good := oauth2.DeviceAuthResponse{DeviceCode: "d", UserCode: "u", VerificationURI: "https://i.example/device", Interval: 7}
	is := &issuer{loginIssuer: loginIssuer{Issuer: "https://i.example"}}
	for name, row := range map[string]struct {
		edit     func(*oauth2.DeviceAuthResponse)
		want     string
		interval int64
	}{
		"good":               {func(*oauth2.DeviceAuthResponse) {}, "", 7},
		"no interval":        {func(a *oauth2.DeviceAuthResponse) { a.Interval = 0 }, "", 5},
		"below nothing":      {func(a *oauth2.DeviceAuthResponse) { a.Interval = -1 }, "", 5},
		"without end":        {func(a *oauth2.DeviceAuthResponse) { a.Interval = 1 << 62 }, "", 60},
		"no code":            {func(a *oauth2.DeviceAuthResponse) { a.UserCode = "" }, "gave no code", 0},
		"a long code":        {func(a *oauth2.DeviceAuthResponse) { a.UserCode = strings.Repeat("a", 65) }, "gave no code", 0},
		"no device code":     {func(a *oauth2.DeviceAuthResponse) { a.DeviceCode = "" }, "gave no code", 0},
		"a page over http":   {func(a *oauth2.DeviceAuthResponse) { a.VerificationURI = "http://i.example" }, "verification_uri", 0},
		"a page of a person": {func(a *oauth2.DeviceAuthResponse) { a.VerificationURI = "https://good.example@evil.example/" }, "verification_uri", 0},
	} {
		t.Run(name, func(t *testing.T) {
			asked := good
			row.edit(&asked)
			err := is.goodDevice(&asked)
			if row.want == "" && (err != nil || asked.Interval != row.interval) || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("%v, every %d s; want %q, %d", err, asked.Interval, row.want, row.interval)
			}
		})
	}
}
