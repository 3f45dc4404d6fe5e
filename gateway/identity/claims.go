package identity

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"
)

// claims are what is read of a token's payload. They are only believed after the signature verified.
type claims map[string]json.RawMessage

// text returns a string claim; ok is false when it is absent.
func (c claims) text(name string) (value string, ok bool, refusal *Refusal) {
	raw, present := c[name]
	if !present {
		return "", false, nil
	}
	// null into a string is no error for encoding/json, hence a pointer.
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", false, malformed("a claim of the token that must be a string is not: " + claimLabel(name))
	}
	return *s, true, nil
}

// mustText returns a required string claim that follows the rule for texts that decide.
func (c claims) mustText(name string) (string, *Refusal) {
	value, ok, refusal := c.text(name)
	if refusal != nil {
		return "", refusal
	}
	if !ok {
		return "", malformed("the token has no " + name)
	}
	if err := checkText(value); err != nil {
		return "", malformed("the token's " + name + " " + err.Error())
	}
	return value, nil
}

// texts returns a claim that is a string or a list of strings; ok is false when it is absent.
func (c claims) texts(name string) (values []string, ok bool, refusal *Refusal) {
	raw, present := c[name]
	if !present {
		return nil, false, nil
	}
	var one *string
	if err := json.Unmarshal(raw, &one); err == nil && one != nil {
		return []string{*one}, true, nil
	}
	var many []*string
	if err := json.Unmarshal(raw, &many); err != nil || many == nil {
		return nil, false, malformed("a claim of the token that must be a list of strings is not: " + claimLabel(name))
	}
	values = make([]string, 0, len(many))
	for _, value := range many {
		if value == nil {
			return nil, false, malformed("a claim of the token that must be a list of strings is not: " + claimLabel(name))
		}
		values = append(values, *value)
	}
	return values, true, nil
}

// latestDate is the last second of the year 9999, the end of what dates can be written.
const latestDate = 253402300799

// date returns a required NumericDate claim, to the microsecond. With required false an absent one is the zero time.
func (c claims) date(name string, required bool) (time.Time, *Refusal) {
	raw, present := c[name]
	if !present {
		if required {
			return time.Time{}, malformed("the token has no " + name)
		}
		return time.Time{}, nil
	}
	if seconds, err := strconv.ParseInt(string(raw), 10, 64); err == nil && seconds >= 0 && seconds <= latestDate {
		return time.Unix(seconds, 0).UTC(), nil
	}
	// A JSON string begins with a quote, which ParseFloat refuses; its Inf and NaN are no JSON.
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsNaN(seconds) || seconds < 0 || seconds > latestDate {
		return time.Time{}, malformed("the token's " + name + " is not a date in seconds")
	}
	return time.UnixMicro(int64(seconds * 1e6)).UTC(), nil
}

// claimLabel names a claim to the caller. Configured names are the operator's and short, never from the token.
func claimLabel(name string) string { return strconv.Quote(name) }

// groups returns the token's groups, prefixed, sorted and unique; ok is false when the claim is absent.
func (c claims) groups(cfg IssuerConfig) (groups []string, ok bool, refusal *Refusal) {
	values, ok, refusal := c.texts(cfg.GroupsClaim)
	if refusal != nil || !ok {
		return nil, false, refusal
	}
	if len(values) > maxGroups {
		return nil, false, malformed("the token has more than 1000 groups")
	}
	for i, value := range values {
		if err := checkText(value); err != nil {
			return nil, false, malformed("a group of the token " + err.Error())
		}
		values[i] = cfg.GroupPrefix + value
	}
	slices.Sort(values)
	return slices.Compact(values), true, nil
}

// kind decides human or automation: automation as soon as the issuer's configuration or one claim says so.
func (c claims) kind(cfg IssuerConfig) (Kind, *Refusal) {
	kind := cfg.Kind
	said, ok, refusal := c.text(cfg.KindClaim)
	if refusal != nil {
		return "", refusal
	}
	if ok {
		switch Kind(said) {
		case KindAutomation:
			kind = KindAutomation
		case KindHuman:
		default:
			return "", malformed("the token's kind is neither human nor automation")
		}
	}
	for _, match := range cfg.AutomationWhen {
		value, ok, refusal := c.text(match.Claim)
		if refusal != nil {
			return "", refusal
		}
		if ok && value == match.Value {
			kind = KindAutomation
		}
	}
	return kind, nil
}

// name returns the display name. It decides nothing, so a wrong type only means no name.
func (c claims) name(cfg IssuerConfig) string {
	names := []string{"preferred_username", "email", "name"}
	if cfg.NameClaim != "" {
		names = []string{cfg.NameClaim}
	}
	for _, name := range names {
		if value, ok, refusal := c.text(name); refusal == nil && ok {
			if shown := displayName(value); shown != "" {
				return shown
			}
		}
	}
	return ""
}
