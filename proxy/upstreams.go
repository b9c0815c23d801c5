package proxy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport"
)

// An UpstreamState says which base URLs of an upstream can be connected to.
type UpstreamState struct {
	Name  string
	Bases []transport.BaseState // in the order in which they are tried
}

// UpstreamStates returns the states of the upstreams that serve requests of tenants, by name.
func (s *Server) UpstreamStates() (all []UpstreamState) {
	current := s.setup.Load()
	for _, name := range slices.Sorted(maps.Keys(current.serving)) {
		all = append(all, UpstreamState{name, current.upstreams[name].client.States()})
	}
	return all
}

// Known reports whether a connection to some base URL was tried.
func (u UpstreamState) Known() bool {
	return slices.ContainsFunc(u.Bases, func(b transport.BaseState) bool { return b.Known })
}

// Up reports whether some base URL can be connected to, as far as is known.
func (u UpstreamState) Up() bool {
	return slices.ContainsFunc(u.Bases, func(b transport.BaseState) bool { return b.Err == nil })
}

// Problems describes base URLs that cannot be connected to, a line each.
func (u UpstreamState) Problems() (lines []string) {
	what := "requests fail until it can"
	if at := slices.IndexFunc(u.Bases, func(b transport.BaseState) bool { return b.Err == nil }); at >= 0 {
		what = u.Bases[at].Origin + " is used"
	}
	for _, b := range u.Bases {
		if b.Err == nil {
			continue
		}
		why := strings.TrimPrefix(b.Err.Error(), "upstream ")
		lines = append(lines, fmt.Sprintf("upstream %s: %s cannot be reached since %s: %s; %s", u.Name, b.Origin, b.Since.UTC().Format(time.RFC3339), why, what))
	}
	return lines
}

// CheckUpstreams connects to upstreams that serve requests of tenants, where that is due; see
// transport.Bases.Check.
func (s *Server) CheckUpstreams(ctx context.Context) {
	var all sync.WaitGroup
	current := s.setup.Load()
	for name := range current.serving {
		client := current.upstreams[name].client
		all.Add(1)
		panics.Go(s.panicked, func() { client.Check(ctx) }, all.Done)
	}
	all.Wait()
}
