package notify

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"bronzeward/gateway/control"
)

// captured is one request as the receiver got it.
type captured struct {
	header http.Header
	body   []byte
}

// capturing is a receiver that gives away what it got.
type capturing chan captured

func (c capturing) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c <- captured{r.Header.Clone(), body}
}

func verifies(t testing.TB, secret string, got captured) error {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return hook.Verify(got.body, got.header)
}

func TestTheReceiverCanVerifyWhatItGets(t *testing.T) {
	receiver := make(capturing, 1)
	r := newRoom(t, receiver, nil)
	n := r.outbox.only(t)
	if r.sendDue(t) != 1 {
		t.Fatal("nothing was due")
	}
	got := <-receiver
	r.wantState(t, control.NoticeSent, "")
	if err := verifies(t, r.secret, got); err != nil {
		t.Error(err)
	}
	if err := verifies(t, newSecret(t), got); err == nil {
		t.Error("it verifies with another secret")
	}
	if id := got.header.Get("Webhook-Id"); id != n.ID.String() {
		t.Errorf("webhook-id is %q, the notice's %s", id, n.ID)
	}
	if kind := got.header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("the content type is %s", kind)
	}
	var body struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(got.body, &body); err != nil {
		t.Fatal(err)
	}
	if body.Type != "change.waiting" || body.Data.ID != n.ChangeID.String() || !body.Timestamp.Equal(n.CreatedAt) {
		t.Errorf("got %s", got.body)
	}
	// What is signed is what is sent, to the byte, and the id and time with it.
	for name, change := range map[string]func(*captured){
		"the body": func(c *captured) { c.body = append(c.body, ' ') },
		"the id":   func(c *captured) { c.header.Set("Webhook-Id", "another") },
		"the time": func(c *captured) { c.header.Set("Webhook-Timestamp", strconv.FormatInt(time.Now().Unix()-1, 10)) },
	} {
		other := captured{header: got.header.Clone(), body: append([]byte(nil), got.body...)}
		if change(&other); verifies(t, r.secret, other) == nil {
			t.Errorf("it verifies with %s changed", name)
		}
	}
}

// The example of the specification's documentation, so that more than one side of one library agrees.
func TestTheSignatureIsTheSpecifications(t *testing.T) {
	s, err := readSecrets(secretFile(t, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", 0o600))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; err != nil || got != want {
		t.Errorf("got %s, %v", got, err)
	}
}

// While a secret is changed, the receiver may have either; the file is read again at each try.
func TestTwoSecretsSignTwice(t *testing.T) {
	receiver := make(capturing, 1)
	r := newRoom(t, receiver, nil)
	r.sendDue(t)
	<-receiver
	old, next := r.secret, newSecret(t)
	for _, step := range []struct {
		name, file string
		with       map[string]bool
	}{
		{"before", old, map[string]bool{old: true, next: false}},
		{"during", next + "\n\n" + old + "\n", map[string]bool{old: true, next: true}},
		{"after", next, map[string]bool{old: false, next: true}},
	} {
		if err := os.WriteFile(r.file, []byte(step.file), 0o600); err != nil {
			t.Fatal(err)
		}
		r.outbox.add()
		r.sendDue(t)
		got := <-receiver
		if signatures := strings.Split(got.header.Get("Webhook-Signature"), " "); len(signatures) != len(strings.Fields(step.file)) {
			t.Errorf("%s: %d signatures", step.name, len(signatures))
		}
		for secret, want := range step.with {
			if err := verifies(t, secret, got); (err == nil) != want {
				t.Errorf("%s: got %v, want %t", step.name, err, want)
			}
		}
	}
}

func TestSecretFilesThatAreRefused(t *testing.T) {
	good := newSecret(t)
	for name, test := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"readable by others": {good, 0o644, "chmod 600"},
		"empty":              {"\n \n", 0o600, "holds 0 secrets"},
		"no prefix":          {strings.TrimPrefix(good, secretPrefix), 0o600, "line 1"},
		"a public key":       {good + "\nwhpk_canary", 0o600, "line 2"},
		"not base64":         {"whsec_canary!", 0o600, "line 1"},
		"23 bytes":           {"whsec_Y2FuYXJ5LWNhbmFyeS1jYW5hcnktLQ=", 0o600, "line 1"},
		"too short":          {"whsec_Y2FuYXJ5", 0o600, "24 to 64 bytes"},
		"too long":           {"whsec_" + strings.Repeat("Y2FuYXJ5", 11), 0o600, "24 to 64 bytes"},
		"five":               {strings.Repeat(good+"\n", 5), 0o600, "holds 5 secrets"},
		"too large":          {strings.Repeat("\n", maxSecretFile) + good, 0o600, "larger"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{SecretFile: secretFile(t, test.text, test.mode)}
			err := c.CheckSecrets()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), good[8:]) || strings.Contains(err.Error(), "Y2FuYXJ5") || strings.Contains(err.Error(), "canary") {
				t.Fatalf("the error shows the secret: %v", err)
			}
		})
	}
	if err := (Config{SecretFile: t.TempDir()}).CheckSecrets(); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("a folder: %v", err)
	}
	if err := (Config{SecretFile: secretFile(t, good+"\r\n", 0o400)}).CheckSecrets(); err != nil {
		t.Errorf("a good one: %v", err)
	}
}

func TestPrintingASignerShowsNoSecret(t *testing.T) {
	s, err := readSecrets(secretFile(t, newSecret(t), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, s); got != "1 webhook secrets" {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}

func FuzzSecretLines(f *testing.F) {
	f.Add("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
	f.Add("whsec_\nwhsec_=\x00")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSecrets("file", []byte(text))
		if err == nil && (len(s.hooks) == 0 || len(s.hooks) > maxSecrets) {
			t.Fatalf("%d secrets", len(s.hooks))
		}
	})
}
