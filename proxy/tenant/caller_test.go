package tenant_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/valyala/fasthttp"

	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// head parses lines as the server does: names keep their letter case, duplicates are kept.
func head(t testing.TB, lines ...string) *fasthttp.RequestHeader {
	t.Helper()
	h := &fasthttp.RequestHeader{}
	h.DisableNormalizing()
	for _, l := range lines {
		name, value, ok := strings.Cut(l, ":")
		if !ok {
			t.Fatalf("no header line: %q", l)
		}
		h.Add(name, strings.TrimSpace(value))
	}
	return h
}

// P14, T09: the key is found in any of its headers; two different keys are refused.
func TestCredential(t *testing.T) {
	ok := func(want string, lines ...string) {
		t.Helper()
		got, err := tenant.Credential(head(t, lines...))
		if err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", lines, got, err, want)
		}
	}
	ok("")
	ok("", "Authorization: Basic dTpw")
	ok("", "Authorization: Bearer")
	ok("k1", "Authorization: Bearer k1")
	ok("k1", "authorization: bearer  k1")
	ok("k1", "Api-Key: k1")
	ok("k1", "X-API-KEY: k1")
	ok("k1", "Authorization: Bearer k1", "api-key: k1", "x-api-key: k1")
	ok("k1", "Authorization: Basic dTpw", "x-api-key: k1")

	refused := func(lines ...string) {
		t.Helper()
		got, err := tenant.Credential(head(t, lines...))
		var e *tenant.APIError
		if !errors.As(err, &e) || e.Reason != report.ReasonCredentials || e.Status() != 400 {
			t.Errorf("%q: got %q, %v", lines, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "k1") {
			t.Errorf("the error tells the key: %v", err)
		}
	}
	refused("Authorization: Bearer k1", "Authorization: Bearer k1")
	refused("Authorization: Bearer k1", "x-api-key: k2")
	refused("api-key: k1", "x-api-key: k2")
	refused("X_Api_Key: k1")
	refused("Authorization: Bearer k1", "api_key: k1")
}

func TestHeaderOptions(t *testing.T) {
	shadow, tokens := rewrite.Shadow, 500
	ok := func(want rewrite.Options, lines ...string) {
		t.Helper()
		got, err := tenant.ReadHeaderOptions(head(t, lines...), false)
		if err != nil {
			t.Errorf("%q: %v", lines, err)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(got, "Named")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", lines, diff)
		}
	}
	ok(rewrite.Options{})
	ok(rewrite.Options{}, "Content-Type: application/json", "X-Sidenote-Mode: off")
	ok(rewrite.Options{Mode: &shadow, Knowledge: []string{"a", "b_2"}, ContextTokens: &tokens, Query: "wie lange, für wen?"},
		"sidenote-mode: shadow", "SIDENOTE-KNOWLEDGE: a , b_2", "Sidenote-Context-Tokens: 500", "Sidenote-Query: wie lange, für wen?")

	refused := func(param string, line ...string) {
		t.Helper()
		_, err := tenant.ReadHeaderOptions(head(t, line...), false)
		var e *rewrite.OptionError
		if !errors.As(err, &e) || e.Param != param || tenant.AsError(err).Status() != 400 {
			t.Errorf("%q: got %v", line, err)
		}
	}
	refused("Sidenote-Mode", "Sidenote-Mode: on")
	refused("Sidenote-Mode", "Sidenote-Mode:")
	refused("Sidenote-Mode", "Sidenote-Mode: off", "Sidenote-Mode: off")
	refused("sidenote-mode", "Sidenote-Mode: off", "sidenote-mode: inject")
	refused("Sidenote_Mode", "Sidenote_Mode: off")
	refused("Sidenote-Budget", "Sidenote-Budget: 5")
	refused("Sidenote-Id", "Sidenote-Id: x")
	refused("Sidenote-Context-Tokens", "Sidenote-Context-Tokens: -1")
	refused("Sidenote-Context-Tokens", "Sidenote-Context-Tokens: 1e3")
	refused("Sidenote-Context-Tokens", "Sidenote-Context-Tokens: 99999999999")
	refused("Sidenote-Knowledge", "Sidenote-Knowledge: a,,b")
	refused("Sidenote-Knowledge", "Sidenote-Knowledge: ../etc")
	refused("Sidenote-Query", "Sidenote-Query: \xff")
}

func TestMergeTakesTheNarrower(t *testing.T) {
	off, inject, few, many := rewrite.Off, rewrite.Inject, 10, 20
	a := rewrite.Options{Mode: &off, ContextTokens: &many, Knowledge: []string{"x", "y"}, Query: "header"}
	b := rewrite.Options{Mode: &inject, ContextTokens: &few, Knowledge: []string{"y", "z"}, Query: "body"}
	want := rewrite.Options{Mode: &off, ContextTokens: &few, Knowledge: []string{"y"}, Query: "body"}
	if diff := cmp.Diff(want, rewrite.MergeOptions(a, b), cmpopts.IgnoreFields(a, "Named")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(a, rewrite.MergeOptions(a, rewrite.Options{}), cmpopts.IgnoreFields(a, "Named")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(b, rewrite.MergeOptions(rewrite.Options{}, b), cmpopts.IgnoreFields(b, "Named")); diff != "" {
		t.Error(diff)
	}
	none := rewrite.MergeOptions(rewrite.Options{Knowledge: []string{"x"}}, rewrite.Options{Knowledge: []string{"y"}})
	if none.Knowledge == nil || len(none.Knowledge) > 0 {
		t.Errorf("disjoint bases ask for %v, not for none", none.Knowledge)
	}
}

func TestDirectory(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	policy := func(name string) *tenant.Policy { return &tenant.Policy{Tenant: name} }
	key := func(k, name string, expires time.Time) tenant.Key {
		return tenant.Key{SHA256: sha256.Sum256([]byte(k)), Expires: expires, Policy: policy(name)}
	}
	d := tenant.NewDirectory(tenant.Tenants{
		Keys: []tenant.Key{
			key("ka", "a", time.Time{}), key("ka2", "a", now.Add(time.Hour)),
			key("kb", "b", now.Add(-time.Second)),
		},
		Unknown: policy("strangers"),
	})
	f := func(k, want string) {
		t.Helper()
		got := "refused"
		if p := d.ByKey(k, now); p != nil {
			got = p.Tenant
		}
		if got != want {
			t.Errorf("key %q: got %s, want %s", k, got, want)
		}
	}
	f("ka", "a")
	f("ka2", "a")
	f("kb", "refused") // expired: not treated as an unknown caller
	f("kc", "strangers")
	f("", "strangers")
	if p := d.ByName("b"); p == nil || p.Tenant != "b" || d.ByName("nobody") != nil || d.ByName("").Tenant != "strangers" {
		t.Error("names do not lead to policies")
	}
	if closed := tenant.NewDirectory(tenant.Tenants{Keys: []tenant.Key{key("k", "a", time.Time{})}}); closed.ByKey("x", now) != nil || closed.ByKey("", now) != nil {
		t.Error("a stranger was let in")
	}
}

// The cost of a look-up does not grow with the number of keys.
func BenchmarkByKey(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		keys := make([]tenant.Key, n)
		for i := range keys {
			keys[i] = tenant.Key{SHA256: sha256.Sum256(fmt.Append(nil, i)), Policy: &tenant.Policy{Tenant: "t"}}
		}
		d := tenant.NewDirectory(tenant.Tenants{Keys: keys})
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d.ByKey("0", time.Time{}) == nil {
					b.Fatal("not found")
				}
			}
		})
	}
}
