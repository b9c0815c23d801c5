package config_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml/parser"

	"sidenote/cmd/sidenote/internal/config"
)

// manyTenants returns a configuration of n tenants, each with its own key and filter, in files of
// 1,000.
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

// inOneFile returns the same configuration in one file.
func inOneFile(n int) config.Source {
	many := manyTenants(n)
	text, _ := many.Read("c.yaml")
	all := bytes.Replace(text, []byte("include: [{path: 't/*.yaml', knowledge: [docs]}]\n"), []byte("tenants:\n"), 1)
	files, _ := many.Glob("t/*.yaml")
	for _, file := range files {
		text, _ := many.Read(file)
		all = append(all, bytes.TrimPrefix(text, []byte("tenants:\n"))...)
	}
	return disk{"c.yaml": string(all)}.source("c.yaml")
}

// The same holds for the memory if all tenants are in one file. (P1)
func TestP1MemoryGrowsWithTenantsOfOneFile(t *testing.T) {
	bytes := func(n int) uint64 {
		src := inOneFile(n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if c, err := config.Load(src); err != nil || len(c.TenantNames()) != n {
			t.Fatalf("%d tenants: %v", n, err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	n := 1000
	if testing.Short() {
		n = 200
	}
	if few, many := bytes(n), bytes(8*n); many > 10*few {
		t.Errorf("%d tenants take %d bytes, %d take %d", n, few, 8*n, many)
	}
}

// BenchmarkLoad measures the time to load many tenants and, for one file, its ratio to the YAML
// parser alone on the same text in pieces of 100 tenants.
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
		b.Run(fmt.Sprint(n, "/one file"), func(b *testing.B) {
			src := inOneFile(n)
			text, _ := src.Read("c.yaml")
			lines := slices.Collect(bytes.Lines(text))
			var parsing time.Duration
			for b.Loop() {
				if _, err := config.Load(src); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				start := time.Now()
				for piece := range slices.Chunk(lines[4:], 400) {
					if _, err := parser.ParseBytes(bytes.Join(piece, nil), 0); err != nil {
						b.Fatal(err)
					}
				}
				parsing += time.Since(start)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed())/float64(parsing), "times/parse")
		})
	}
}

// An included file that is truncated anywhere is refused by its name, unless the rest is complete
// in itself. (P4)
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

// Two tenants with the same key are refused, and both are named. (P1)
func TestP1OneKeyOfTwoTenants(t *testing.T) {
	src := disk{
		"c.yaml":   "upstream: https://u.test\ninclude: ['*/t.yaml']\npolicies: {default: {mode: inject}}\n",
		"a/t.yaml": "tenants: {one: {keys: [{sha256: " + digest + "}]}}\n", "b/t.yaml": "tenants: {two: {keys: [{sha256: " + digest + "}]}}\n",
	}.source("c.yaml")
	_, err := config.Load(src)
	if want := `b/t.yaml:1:25: tenants.two.keys[0].sha256: is also a key of tenant "one", at a/t.yaml:1:25`; fmt.Sprint(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// A value of the wrong type is refused at its own key, wherever it is. (P2)
func TestP2WrongTypes(t *testing.T) {
	tried, every := 0, 3
	switch {
	case os.Getenv("SIDENOTE_LONG") != "":
		every = 1
	case testing.Short():
		every = 24
	}
	for i, s := range paths(t, example(t)) {
		if i%every > 0 {
			continue
		}
		key := strings.TrimPrefix(s.text, "$.")
		wrong := "[[x]]" // neither a map nor a scalar nor a list of either
		if strings.Contains(s.schema, "filters") || strings.Contains(s.schema, ".attributes") || strings.Contains(s.schema, ".when.metadata") {
			continue // a value here may have several types
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
	if tried*every < 200 {
		t.Errorf("tried %d keys, every %dth", tried, every)
	}
}
