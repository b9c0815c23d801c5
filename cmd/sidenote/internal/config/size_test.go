package config_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// manyTenants is a configuration of n tenants, each with a key and a filter of its own, in
// files of 1,000.
func manyTenants(n int) config.Source {
	d := disk{"c.yaml": "upstream: https://u.test\nknowledge: {docs: ./docs}\npolicies: {base: {knowledge: [docs]}}\ninclude: [{path: 't/*.yaml', knowledge: [docs]}]\n"}
	for first := 0; first < n; first += 1000 {
		var b strings.Builder
		b.WriteString("tenants:\n")
		for i := first; i < min(first+1000, n); i++ {
			fmt.Fprintf(&b, "  t%d:\n    keys: [{sha256: %064x}]\n    policy: base\n    filters: [{type: eq, key: owner, value: t%d}]\n", i, i+1, i)
		}
		d[fmt.Sprintf("t/%03d.yaml", first/1000)] = b.String()
	}
	return d.source("c.yaml")
}

// Eight times the tenants take about eight times the work, not sixty-four times. (P1)
func TestP1WorkGrowsWithTenants(t *testing.T) {
	allocations := func(n int) float64 {
		src := manyTenants(n)
		return testing.AllocsPerRun(1, func() {
			if c, err := config.Load(src); err != nil || len(c.TenantNames()) != n {
				t.Fatalf("%d tenants: %v", n, err)
			}
		})
	}
	if few, many := allocations(100), allocations(800); many > 10*few {
		t.Errorf("100 tenants take %.0f allocations, 800 take %.0f", few, many)
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		src := manyTenants(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := config.Load(src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// An included file that is cut off anywhere is refused by its name, or what is left of it is
// whole in itself. (P4)
func TestP4HalfWrittenInclude(t *testing.T) {
	const team = "policies:\n  mine: {context_tokens: 500}\ntenants:\n  one:\n    keys: [{sha256: " + digest + "}]\n    policy: mine\n"
	refused := 0
	for cut := range len(team) {
		src := disk{
			"c.yaml":    "upstream: https://u.test\npolicies: {default: {mode: inject}}\nidentity: {unknown: refuse}\ninclude: [team.yaml]\n",
			"team.yaml": team[:cut],
		}.source("c.yaml")
		if c, err := config.Load(src); err != nil {
			refused++
			if !strings.Contains(err.Error(), "team.yaml:") && !strings.Contains(err.Error(), "identity.unknown") {
				t.Errorf("cut at %d: %v", cut, err)
			}
		} else if p, ok := c.Tenant("one"); ok && p.Name == "" {
			t.Errorf("cut at %d: tenant one gets %+v", cut, p)
		}
	}
	if refused < len(team)/2 {
		t.Errorf("refused at %d of %d places", refused, len(team))
	}
}

// Two tenants with one key are refused, and both are named. (P1)
func TestP1OneKeyOfTwoTenants(t *testing.T) {
	src := disk{
		"c.yaml":   "upstream: https://u.test\ninclude: ['*/t.yaml']\npolicies: {default: {mode: inject}}\n",
		"a/t.yaml": "tenants: {one: {keys: [{sha256: " + digest + "}]}}\n", "b/t.yaml": "tenants: {two: {keys: [{sha256: " + digest + "}]}}\n",
	}.source("c.yaml")
	_, err := config.Load(src)
	if want := `b/t.yaml:1:25: tenants.two.keys[0].sha256: is also a key of tenant "one"`; fmt.Sprint(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// A value of the wrong type is refused at its own key, wherever it stands. (P2)
func TestP2WrongTypes(t *testing.T) {
	tried := 0
	for i, s := range paths(t, example(t)) {
		if os.Getenv("SIDENOTE_LONG") == "" && i%3 > 0 {
			continue
		}
		key := strings.TrimPrefix(s.text, "$.")
		wrong := "[[x]]" // neither a map nor a scalar nor a list of either
		if strings.Contains(s.schema, "filters") || strings.Contains(s.schema, ".attributes") {
			continue // a value there may be of several types
		}
		tried++
		if _, err := config.Load(exampleSource(replaced(t, s, wrong))); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %s gives %v", s.text, wrong, err)
		}
		if s.scalar {
			if _, err := config.Load(exampleSource(replaced(t, s, "{no_such: 1}"))); err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("%s: a map gives %v", s.text, err)
			}
		}
	}
	if tried < 30 {
		t.Errorf("tried %d keys", tried)
	}
}
