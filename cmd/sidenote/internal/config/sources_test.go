package config_test

import (
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/rewrite"
)

// The order of sources is inherited along with their priority, set or not; the default changes no
// hash.
func TestSourceOrder(t *testing.T) {
	hashes := map[rewrite.SourceOrder]string{}
	for policies, want := range map[string]rewrite.SourceOrder{
		"{default: {mode: inject}}":                rewrite.SourcesByRelevance,
		"{default: {sources: {order: relevance}}}": rewrite.SourcesByRelevance,
		"{default: {sources: {order: edges}}}":     rewrite.SourcesAtEdges,
		"{base: {sources: {order: document}}, default: {extends: base, sources: {priority: high}}}": rewrite.SourcesByDocument,
	} {
		c, err := config.Load(disk{"c.yaml": up + "policies: " + policies}.source("c.yaml"))
		if err != nil {
			t.Fatalf("%s: %v", policies, err)
		}
		p, _ := c.Tenant("default")
		if p.Rewrite.SourceOrder != want || p.Rewrite.Sources.Priority != rewrite.PriorityHigh {
			t.Errorf("%s: %q, %+v", policies, p.Rewrite.SourceOrder, p.Rewrite.Sources)
		}
		if h, again := hashes[want]; again && h != p.Hash {
			t.Errorf("%s: another hash for the same", policies)
		}
		hashes[want] = p.Hash
	}
	if a, b, c := hashes[rewrite.SourcesByRelevance], hashes[rewrite.SourcesAtEdges], hashes[rewrite.SourcesByDocument]; a == b || b == c || a == c {
		t.Errorf("hashes %v", hashes)
	}
	_, err := config.Load(disk{"c.yaml": up + "policies: {default: {sources: {order: best}}}"}.source("c.yaml"))
	if err == nil || !strings.Contains(err.Error(), `c.yaml:2:39: policies.default.sources.order: "best" is none of relevance, edges, document`) {
		t.Error(err)
	}
}

// Neighbours are set by a policy; the default changes no hash.
func TestNeighbours(t *testing.T) {
	hashes := map[string]rewrite.Neighbours{}
	for _, c := range []struct {
		policy string
		want   rewrite.Neighbours
	}{
		{"mode: inject", rewrite.NeighboursAdjacent}, {"sources: {neighbours: adjacent}", rewrite.NeighboursAdjacent},
		{"sources: {neighbours: section}", rewrite.NeighboursSection}, {"sources: {neighbours: off}", rewrite.NeighboursOff},
	} {
		l, err := config.Load(disk{"c.yaml": up + "policies: {default: {" + c.policy + "}}"}.source("c.yaml"))
		if err != nil {
			t.Fatalf("%s: %v", c.policy, err)
		}
		p, _ := l.Tenant("default")
		if was, again := hashes[p.Hash]; p.Rewrite.Neighbours != c.want || again && was != c.want {
			t.Errorf("%s: %q, hash %s of %q, too", c.policy, p.Rewrite.Neighbours, p.Hash, was)
		}
		hashes[p.Hash] = c.want
	}
	if len(hashes) != 3 {
		t.Errorf("hashes %v", hashes)
	}
}
