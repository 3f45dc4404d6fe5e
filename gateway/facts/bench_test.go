package facts

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"bronzeward/fixtures/oracle"
)

// workerConfig is a configuration of about size bytes: the recorded worker's with what
// production adds, and comments as talosctl's own generator leaves them.
func workerConfig(size int) []byte {
	base := string(oracle.Base())
	var extra strings.Builder
	extra.WriteString("    sysctls:\n")
	for i := range 40 {
		fmt.Fprintf(&extra, "        net.example.setting%d: \"%d\"\n", i, i)
	}
	extra.WriteString("    nodeLabels:\n")
	for i := 0; len(base)+extra.Len() < size && i < 100; i++ {
		fmt.Fprintf(&extra, "        example.com/label-%d: value-%d\n        # a comment about label %d, as people write them\n", i, i, i)
	}
	for i := 0; len(base)+extra.Len() < size; i++ {
		fmt.Fprintf(&extra, "        # line %d of the comments that explain every field of a generated file\n", i)
	}
	return []byte(strings.Replace(base, "    install:\n", extra.String()+"    install:\n", 1))
}

// labelConfig is a configuration of about size bytes, nearly all of it labels.
func labelConfig(size int) []byte {
	base := string(oracle.Base())
	var extra strings.Builder
	extra.Grow(size)
	extra.WriteString("    nodeLabels:\n")
	for i := 0; len(base)+extra.Len() < size; i++ {
		fmt.Fprintf(&extra, "        example.com/label-%07d: a-value-that-is-as-long-as-labels-like-to-be-%07d\n", i, i)
	}
	return []byte(strings.Replace(base, "    install:\n", extra.String()+"    install:\n", 1))
}

func BenchmarkReadConfig15KiB(b *testing.B) {
	active := workerConfig(15 << 10)
	asked := bytes.Replace(active, []byte("value-1\n"), []byte("value-x\n"), 1)
	for _, cache := range []int{0, 8} {
		b.Run(fmt.Sprintf("cache=%d", cache), func(b *testing.B) {
			reader, err := NewReader(ReaderConfig{Digester: testKeys(b), Cache: cache})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(asked)))
			for b.Loop() {
				if got := reader.Read(context.Background(), asked, active, active); len(got.Problems) > 0 || len(got.Changes) != 1 {
					b.Fatalf("problems %v, %d changes", got.Problems, len(got.Changes))
				}
			}
		})
	}
}

func BenchmarkReadConfigLabels(b *testing.B) {
	active := oracle.Base()
	for _, size := range []int{1 << 20, 10_700 << 10} {
		asked := labelConfig(size)
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(asked)))
			for b.Loop() {
				if got := ReadConfig(context.Background(), asked, active, active, testKeys(b)); len(got.Collections) != 1 {
					b.Fatalf("collections %v, problems %v", got.Collections, got.Problems)
				}
			}
		})
	}
}

func BenchmarkRedact15KiB(b *testing.B) {
	active := workerConfig(15 << 10)
	asked := bytes.Replace(active, []byte("value-1\n"), []byte("value-x\n"), 1)
	d := testKeys(b)
	for b.Loop() {
		r := NewRedactor(d, asked, active)
		if r.Err() != nil || r.Text("Config diff:\n\n"+r.clear) == hiddenText {
			b.Fatal("nothing shown")
		}
	}
}

// BenchmarkDigest10MiB is the digest of the largest configuration that is measured.
func BenchmarkDigest10MiB(b *testing.B) {
	text, d := labelConfig(10_700<<10), testKeys(b)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if d.Digest(text) == "" {
			b.Fatal("no digest")
		}
	}
}

// BenchmarkFingerprints500 are the fingerprints of a configuration with 500 secret values, all
// of which change: the values alone, and the whole of what a policy sees of it.
func BenchmarkFingerprints500(b *testing.B) {
	var environment strings.Builder
	values := make([][]byte, 500)
	environment.WriteString("    env:\n")
	for i := range values {
		values[i] = fmt.Appendf(nil, "a secret value that is as long as a password %04d", i)
		fmt.Fprintf(&environment, "        SECRET_%04d: %s\n", i, values[i])
	}
	d := testKeys(b)
	b.Run("values", func(b *testing.B) {
		for b.Loop() {
			for _, v := range values {
				d.Fingerprint(v)
			}
		}
	})
	asked := []byte(strings.Replace(string(oracle.Base()), "    install:\n", environment.String()+"    install:\n", 1))
	b.Run("reading", func(b *testing.B) {
		for b.Loop() {
			if got := ReadConfig(context.Background(), asked, oracle.Base(), oracle.Base(), d); len(got.Changes) != len(values) {
				b.Fatalf("%d changes, problems %v", len(got.Changes), got.Problems)
			}
		}
	})
}
