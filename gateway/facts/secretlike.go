package facts

import (
	"math"
	"regexp"
	"strings"
)

var (
	// talosToken is the form of join and bootstrap tokens.
	talosToken = regexp.MustCompile(`(^|[^a-z0-9])[a-z0-9]{6}\.[a-z0-9]{16}($|[^a-z0-9])`)
	// dense are the runs a key or token is written in.
	dense = regexp.MustCompile(`[A-Za-z0-9+/=_-]{20,}`)
	// digest64 is an image digest or schematic id.
	digest64 = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// denseEntropy is the Shannon entropy in bits per character above which a run is taken
// for key material: English names stay below 3.6, base64 of 16 random bytes is above 3.8.
const denseEntropy = 3.7

// looksSecret is true for a text that would be shown but has the look of key material:
// somebody pasted it into the wrong field. It errs towards hiding.
func looksSecret(field, text string) bool {
	if len(text) < 20 {
		return false
	}
	if strings.Contains(text, "-----BEGIN") || talosToken.MatchString(text) {
		return true
	}
	image := field == "image" || strings.HasSuffix(field, ".image")
	for _, run := range dense.FindAllString(text, -1) {
		if image {
			// Runs of image references span path segments.
			for segment := range strings.SplitSeq(run, "/") {
				if len(segment) >= 20 && !digest64.MatchString(segment) && randomLooking(segment) {
					return true
				}
			}
			continue
		}
		if randomLooking(run) {
			return true
		}
	}
	return false
}

func randomLooking(run string) bool {
	if !strings.ContainsAny(run, "0123456789") {
		return false
	}
	var counts [256]int
	for i := range len(run) {
		counts[run[i]]++
	}
	entropy := 0.0
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(run))
			entropy -= p * math.Log2(p)
		}
	}
	return entropy > denseEntropy
}
