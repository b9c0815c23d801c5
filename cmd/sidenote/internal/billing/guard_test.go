package billing_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/billing"
	"sidenote/proxy/cacheguard"
	"sidenote/rewrite"
	"sidenote/rewrite/tokens"
)

// observed returns the cache guard's observations of a conversation under a placement.
func (a *app) observed(t *testing.T, side func() *sidecar, s script, to rewrite.Placement) (all []cacheguard.Observation) {
	t.Helper()
	for _, turn := range a.turns(t, side, s, to) {
		o := cacheguard.Observation{Told: true, Caches: true, Marked: a.rule == billing.Breakpoints || a.rule == billing.CacheControl}
		if a.rule == billing.Implicit {
			o.Least = 2048
		}
		o.Placement, o.Added = turn.placement, int64(turn.used)
		u := turn.usage
		o.Input, o.Cached, o.Written = int64(u.Input), int64(u.Read), int64(u.Written)
		all = append(all, o)
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

// guardedSizes are the sizes of conversations that the guard observes.
var guardedSizes = []size{{300, 250}, {1500, 1200}}

// The guard of prompt caches finds nothing wrong with auto, whatever the billing, and finds which
// other placements break the cache. Run with -v for the table of findings, each with the cached share
// of the expected one, and the number of requests: alone, and beside conversations without sources.
func TestGuardOfPromptCaches(t *testing.T) {
	counter, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	side := sync.OnceValue(func() *sidecar { return newSidecar(t, 2000, readmes(t)) })
	for _, n := range guardedSizes {
		s := newScript(counter, n)
		for _, a := range apps {
			none := a.observed(t, side, s, noSources)
			for _, to := range []rewrite.Placement{rewrite.PlaceSystem, rewrite.PlaceSplit, rewrite.PlaceAuto} {
				with := a.observed(t, side, s, to)
				alone, seen := guarded(with)
				beside, compared := guarded(none, with)
				t.Logf("%-10s %-9s %-15s %5d %5d %-7s | %d (%.2f of %.2f, %d) | %d (%.2f of %.2f, %d)", a.rule, a.api, a.marks, n.system, n.answer, to,
					len(alone), seen.Share, seen.Expected, seen.Requests, len(beside), compared.Share, compared.Expected, compared.Requests)
				want := 0
				if a.breaks(to) {
					want = 1
				}
				if len(alone) != want || len(beside) != want {
					t.Errorf("%v, system prompt of %d, answers of %d, placement %s: got %+v and, beside conversations without sources, %+v; want %d findings", a, n.system, n.answer, to, alone, beside, want)
				}
			}
		}
	}
}
