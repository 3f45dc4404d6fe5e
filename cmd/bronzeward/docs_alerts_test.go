package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// The alerts are a rules file as Prometheus reads it, and ask each metric for labels it has.
func TestTheAlertsAreRules(t *testing.T) {
	text := page(t, "watching.md")
	block := between(t, between(t, text, "## What to alert on", "## Log lines"), "```yaml", "```")
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For string
				Annotations      map[string]string
			}
		}
	}
	if err := yaml.Load([]byte(block), &file); err != nil || len(file.Groups) != 1 {
		t.Fatalf("%d groups, %v", len(file.Groups), err)
	}
	labels := map[string][]string{"up": {"job"}}
	for _, m := range regexp.MustCompile("(?m)^\\| `(bronzeward_\\w+)` \\|([^|]*)\\|").FindAllStringSubmatch(text, -1) {
		labels[m[1]] = append(found("`([a-z]+)`", m[2]), "le")
	}
	var names []string
	for _, rule := range file.Groups[0].Rules {
		if rule.Annotations["summary"] == "" || !regexp.MustCompile(`^Bronzeward[A-Za-z]+$`).MatchString(rule.Alert) || slices.Contains(names, rule.Alert) {
			t.Errorf("alert %q is not whole, or is there twice", rule.Alert)
		}
		names = append(names, rule.Alert)
		metric := regexp.MustCompile(`(bronzeward_[a-z_]+|up)\b(?:\{(\w+)=)?`).FindStringSubmatch(rule.Expr)
		if metric == nil {
			t.Errorf("%s asks for no metric: %s", rule.Alert, rule.Expr)
			continue
		}
		asked := found(`(?:by \(|\{)(\w+)`, rule.Expr)
		has := labels[strings.TrimSuffix(metric[1], "_bucket")]
		for _, label := range asked {
			if !slices.Contains(has, label) {
				t.Errorf("%s asks %s for %s, and it has %v", rule.Alert, metric[1], label, has)
			}
		}
	}
	if !slices.Contains(names, "BronzewardTalosCredentialEnds") {
		t.Errorf("no alert tells that a Talos credential ends: %v", names)
	}
}
