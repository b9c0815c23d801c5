package tenant_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// A key is found among other headers, including those with similar names.
func TestCredentialAmongOthers(t *testing.T) {
	for _, c := range []struct {
		want  string
		lines []string
	}{
		{"k1", []string{"Host: h", "Accept: a", "Authorization: Bearer k1", "X-A: b"}},
		{"k1", []string{"x-api-key: k1", "Authorization: Basic dTpw"}},
		{"k1", []string{"Authorization: Basic dTpw", "X-A: b", "api-key: k1"}},
		{"k1", []string{"AUTHORIZATION: BEARER k1"}},
		{"Z", []string{"aPi-KeY: Z"}},
		{"k1 k2", []string{"Authorization: Bearer k1 k2"}},
		{"", []string{"Authorization: Bearerk1"}},
		{"", []string{"Authorization: Beareg k1"}},
		{"", []string{"Authorization: k1"}},
		{"", []string{"Api: k1", "Key: k1", "Api-Kez: k1", "Api-Key2: k1", "XApi-Key: k1", "Api+Key: k1", "Authorizatio: k1", "X-Api-Keys: k1"}},
		{"", []string{"Api\rKey: k1"}},
	} {
		if got, err := tenant.Credential(head(t, c.lines...)); err != nil || got != c.want {
			t.Errorf("%q: %q, %v, want %q", c.lines, got, err, c.want)
		}
	}
	for _, c := range []struct {
		param string
		lines []string
	}{
		{"X-Api_Key", []string{"Host: h", "X-Api_Key: k1"}},
		{"api_key", []string{"api_key: k1"}},
		{"Api-Key", []string{"api-key: k1", "X-A: b", "Api-Key: k1"}},
		{"authorization", []string{"Authorization: Basic dTpw", "authorization: Bearer k1"}},
		{"X-Api-Key", []string{"Authorization: Bearer k1", "X-A: b", "X-Api-Key: k12"}},
	} {
		got, err := tenant.Credential(head(t, c.lines...))
		var e *tenant.APIError
		if got != "" || !errors.As(err, &e) || e.Param != c.param || !strings.Contains(e.Message, c.param) {
			t.Errorf("%q: %q, %v, want an error of %s", c.lines, got, err, c.param)
		}
	}
}

// Options are read wherever they stand among a request's headers, up to the bounds of
// their values.
func TestHeaderOptionsAtTheirBounds(t *testing.T) {
	ids := func(n int) string { return strings.Repeat("a,", n-1) + "a" }
	for _, c := range []struct {
		line string
		want func(rewrite.Options) bool
	}{
		{"Sidenote-Query: x", func(o rewrite.Options) bool { return o.Query == "x" }},
		{"Sidenote-Knowledge: a", func(o rewrite.Options) bool { return slices.Equal(o.Knowledge, []string{"a"}) }},
		{"Sidenote-Knowledge: " + ids(64), func(o rewrite.Options) bool { return len(o.Knowledge) == 64 && o.Knowledge[63] == "a" }},
		{"Sidenote-Context-Tokens: 0", func(o rewrite.Options) bool { return *o.ContextTokens == 0 }},
		{"Sidenote-Context-Tokens: 10000000", func(o rewrite.Options) bool { return *o.ContextTokens == 10_000_000 }},
		{"SIDENOTE-MODE: OFF", nil},
		{"Sidenote-Mode: off", func(o rewrite.Options) bool { return *o.Mode == rewrite.Off }},
	} {
		o, err := tenant.ReadHeaderOptions(head(t, "Host: h", "Side: a", "Sidenot: a", "X-Sidenote-Mode: x", c.line, "Zone: z"), false)
		if c.want == nil {
			if err == nil {
				t.Errorf("%s: no error", c.line)
			}
		} else if err != nil || !c.want(o) {
			t.Errorf("%s: %+v, %v", c.line, o, err)
		}
	}
	for line, reason := range map[string]string{
		"Sidenote-: x":                      "is no option; use Sidenote-Mode, Sidenote-Knowledge, Sidenote-Context-Tokens or Sidenote-Query",
		"Sidenote-Modes: off":               "is no option; use Sidenote-Mode, Sidenote-Knowledge, Sidenote-Context-Tokens or Sidenote-Query",
		"sidenote_query: x":                 "is no option; use Sidenote-Mode, Sidenote-Knowledge, Sidenote-Context-Tokens or Sidenote-Query",
		"Sidenote-Query:":                   "is empty",
		"Sidenote-Knowledge: " + ids(65):    "65 knowledge bases; at most 64",
		"Sidenote-Knowledge: a, b c":        `"b c" is not the id of a knowledge base`,
		"Sidenote-Context-Tokens: 10000001": `"10000001" is not a number of tokens from 0 to 10000000`,
		"Sidenote-Context-Tokens: x":        `"x" is not a number of tokens from 0 to 10000000`,
	} {
		_, err := tenant.ReadHeaderOptions(head(t, "Host: h", line), false)
		var e *rewrite.OptionError
		name, _, _ := strings.Cut(line, ":")
		if !errors.As(err, &e) || e.Param != name || e.Reason != reason {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range []string{"Sidenote-Mode: off", "Sidenote-Knowledge: a", "Sidenote-Context-Tokens: 1", "Sidenote-Query: x"} {
		for _, other := range []string{"Sidenote-Mode: off", "Sidenote-Knowledge: a", "Sidenote-Context-Tokens: 1", "Sidenote-Query: x"} {
			_, err := tenant.ReadHeaderOptions(head(t, line, "Host: h", other), false)
			var e *rewrite.OptionError
			if twice := errors.As(err, &e) && e.Reason == "is repeated"; twice != (line == other) || !twice && err != nil {
				t.Errorf("%s and %s: %v", line, other, err)
			}
		}
	}
}

// Of two limits the lower counts, whether it is the header's or the body's.
func TestLowerOfTwoLimits(t *testing.T) {
	limits := []*int{nil, new(int), new(int), new(int)}
	*limits[2], *limits[3] = 1, 2
	text := func(n *int) string {
		if n == nil {
			return "none"
		}
		return fmt.Sprint(*n)
	}
	mode := func(n *int) *rewrite.Mode {
		if n == nil {
			return nil
		}
		m := rewrite.Off + rewrite.Mode(*n)
		return &m
	}
	for _, a := range limits {
		for _, b := range limits {
			want := text(b)
			if a != nil && (b == nil || *a < *b) {
				want = text(a)
			}
			got := rewrite.MergeOptions(rewrite.Options{ContextTokens: a, Mode: mode(a)}, rewrite.Options{ContextTokens: b, Mode: mode(b)})
			if text(got.ContextTokens) != want || text((*int)(got.Mode)) != want {
				t.Errorf("header %s, body %s: %s tokens, mode %s", text(a), text(b), text(got.ContextTokens), text((*int)(got.Mode)))
			}
		}
	}
}
