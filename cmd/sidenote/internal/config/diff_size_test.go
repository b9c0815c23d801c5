package config_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// many returns a configuration of n tenants, each with its own key and filter; policy and own are
// added to their policy and their own lines.
func many(tb testing.TB, n int, policy, own string) *config.Config {
	tb.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "upstream: https://u.test\nknowledge: {docs: ./docs}\npolicies: {base: {knowledge: [docs]%s}}\ntenants:\n", policy)
	for i := range n {
		fmt.Fprintf(&b, "  t%d:\n    keys: [{sha256: %064x}]\n    policy: base\n    filters: [{type: eq, key: owner, value: t%d}]\n%s", i, i+1, i, own)
	}
	c, err := config.Load(config.Source{Path: "c.yaml", Read: func(string) ([]byte, error) { return []byte(b.String()), nil }})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// The work of a comparison grows with the changes: a tenant with one changed key costs a few times
// as much as an unchanged one, not as much as all its keys. (P3)
func TestP3WorkOfComparing(t *testing.T) {
	const n = 50
	same, changed := many(t, n, "", ""), many(t, n, ", context_tokens: 999", "")
	allocations := func(next *config.Config) float64 {
		return testing.AllocsPerRun(3, func() { config.CompareConfigs(same, next) })
	}
	if stays, changes := allocations(many(t, n, "", "")), allocations(changed); changes > stays+100*n {
		t.Errorf("%d tenants take %.0f allocations where they stay, %.0f where they change", n, stays, changes)
	}
}

// BenchmarkCompare measures the comparison of 10,000 tenants: unchanged, with one changed key in
// their policy, and with one changed key in each.
func BenchmarkCompare(b *testing.B) {
	const n = 10_000
	old := many(b, n, "", "")
	for _, c := range []struct {
		name string
		next *config.Config
	}{
		{"none", many(b, n, "", "")},
		{"policy", many(b, n, ", context_tokens: 999", "")},
		{"own", many(b, n, "", "    models: [m]\n")},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if changed := len(config.CompareConfigs(old, c.next).Tenants); (changed == n) != (c.name != "none") {
					b.Fatalf("%d tenants have changed", changed)
				}
			}
		})
	}
}
