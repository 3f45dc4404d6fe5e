package facts

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/siderolabs/talos/pkg/machinery/config/config"
)

// leaves are the texts of a document by path.
func leaves(document config.Document) map[string]string {
	out := map[string]string{}
	eachLeaf(document, func(at place, v reflect.Value) { out[at.path] = string(encode(v)) })
	return out
}

// U31: what machinery's own redactor changes in a full document of any kind is hidden in the
// text that is shown, by its field and not by its look: the values look like no key.
func TestTheMaskerHidesAllThatMachinerysRedactorDoes(t *testing.T) {
	filled := func(t *testing.T, kind string) config.Document {
		document := emptyDocument(t, kind)
		n := 0
		fillAs(reflect.ValueOf(document), func() string { n++; return fmt.Sprintf("plain.%04d.word", n) }, "", 0)
		return document
	}
	total := 0
	for _, kind := range DocumentKinds() {
		t.Run(kind, func(t *testing.T) {
			before, redacted := leaves(filled(t, kind)), filled(t, kind)
			secret, ok := redacted.(config.SecretDocument)
			if !ok {
				return
			}
			secret.Redact("***")
			clear := encode1(t, filled(t, kind))
			hidden, err := encodeHidden(viewer{digester: testKeys(t)}, &parsed{documents: []config.Document{filled(t, kind)}}, &secrets{})
			if err != nil {
				t.Fatal(err)
			}
			changed := 0
			for path, now := range leaves(redacted) {
				for _, value := range valuesIn(before[path]) {
					if strings.Contains(now, value) {
						continue
					}
					changed++
					forms := []string{value, base64.StdEncoding.EncodeToString([]byte(value))}
					if !strings.Contains(clear, forms[0]) && !strings.Contains(clear, forms[1]) {
						t.Errorf("%s: the document's own text does not hold it: nothing is proven", path)
					}
					for _, form := range forms {
						if strings.Contains(hidden, form) {
							t.Errorf("%s is redacted by machinery and shown here", path)
						}
					}
				}
			}
			if changed == 0 {
				t.Error("machinery's redactor changes nothing of it: the test does not reach its secrets")
			}
			total += changed
		})
	}
	if total < 30 {
		t.Errorf("machinery redacts %d fields in all kinds", total)
	}
}

// valuesIn are the values that fill put into a text.
func valuesIn(text string) []string {
	var out []string
	for rest := text; ; {
		_, after, ok := strings.Cut(rest, "plain.")
		if !ok || len(after) < 9 {
			return out
		}
		out = append(out, "plain."+after[:9])
		rest = after[9:]
	}
}
