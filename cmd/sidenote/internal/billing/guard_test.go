package billing_test

import (
	"fmt"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/billing"
	"sidenote/proxy/cacheguard"
	"sidenote/rewrite"
	"sidenote/rewrite/tokens"
)

// observed returns the cache guard's observations of a conversation under a placement.
func (a *app) observed(t *testing.T, side *sidecar, s script, to rewrite.Placement) (all []cacheguard.Observation) {
	t.Helper()
	b := newBench(a.rule, a.api)
	for turn := range asks {
		o := cacheguard.Observation{Told: true, Caches: true, Marked: a.rule == billing.Breakpoints || a.rule == billing.CacheControl}
		if a.rule == billing.Implicit {
			o.Least = 2048
		}
		body := a.request(s, turn)
		if to != noSources {
			sent, ledger := side.rewritten(t, setting{to, rewrite.Inject}, a.api, body)
			body, o.Placement, o.Added = sent, fmt.Sprint(ledger.Placement, ledger.CacheMark), int64(ledger.Used)
		}
		u := b.bill(t, string(body))
		o.Input, o.Cached, o.Written = int64(u.Input), int64(u.Read), int64(u.Written)
		all = append(all, o)
		b.Time = b.Add(time.Minute)
	}
	return all
}

// guarded gives a guard forty conversations like each of those and returns its findings.
func guarded(conversations ...[]cacheguard.Observation) (found []cacheguard.Finding, last cacheguard.Comparison) {
	g, at := cacheguard.New(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	of := cacheguard.Key{Upstream: "stub", Model: "model"}
	for n := range 40 * len(conversations) {
		var p cacheguard.Prompt
		g.Extend(&p, fmt.Append(nil, "conversation ", n))
		for _, o := range conversations[n%len(conversations)] {
			g.Extend(&p, []byte("a turn"))
			o.Prompt, o.Time = p, at
			if f, ok := g.Observe(of, &o); ok {
				found = append(found, f)
			}
			at = at.Add(time.Minute)
		}
	}
	if all := g.Status(); len(all) > 0 {
		last = all[0].Comparison
	}
	return found, last
}

// breaks reports whether sources break the cache of the app's upstream under a placement. An app
// without marks has no cache where only what is marked is cached.
func (a *app) breaks(to rewrite.Placement) bool {
	switch {
	case a.rule == billing.CacheControl && a.marks == noMarks:
		return false
	case a.marks == storedItems: // sources are in the instructions
		return true
	case to == rewrite.PlaceSplit:
		return a.rule == billing.Breakpoints && a.marks != bothMarks || a.marks == autoMark
	}
	return to == rewrite.PlaceSystem
}

// The guard of prompt caches finds nothing wrong with auto, whatever the billing, and finds which
// other placements break the cache. Run with -v for the table of findings, each with the cached share
// of the expected one, and the number of requests: alone, and beside conversations without sources.
func TestGuardOfPromptCaches(t *testing.T) {
	counter, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	side := newSidecar(t, 2000, readmes(t))
	for _, a := range apps {
		for _, size := range [][2]int{{300, 250}, {1500, 1200}} {
			s := newScript(counter, size[0], size[1])
			none := a.observed(t, side, s, noSources)
			for _, to := range []rewrite.Placement{rewrite.PlaceSystem, rewrite.PlaceSplit, rewrite.PlaceAuto} {
				with := a.observed(t, side, s, to)
				alone, seen := guarded(with)
				beside, compared := guarded(none, with)
				t.Logf("%-10s %-9s %-15s %5d %5d %-7s | %d (%.2f of %.2f, %d) | %d (%.2f of %.2f, %d)", a.rule, a.api, a.marks, size[0], size[1], to,
					len(alone), seen.Share, seen.Expected, seen.Requests, len(beside), compared.Share, compared.Expected, compared.Requests)
				want := 0
				if a.breaks(to) {
					want = 1
				}
				if len(alone) != want || len(beside) != want {
					t.Errorf("%v, system prompt of %d, answers of %d, placement %s: got %+v and, beside conversations without sources, %+v; want %d findings", a, size[0], size[1], to, alone, beside, want)
				}
			}
		}
	}
}
