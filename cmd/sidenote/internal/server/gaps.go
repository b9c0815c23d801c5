package server

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/gaps"
	"sidenote/proxy/record"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
)

// gapsFresh is how long a report of gaps is shown again, as it takes seconds to make one of many
// records.
const gapsFresh = time.Minute

// gapReports makes reports of gaps for the pages, one at a time. It implements inspector.Gaps.
type gapReports struct {
	engine *Engine
	cfg    *config.Config

	mu   sync.Mutex
	made map[int]gapReport // by days
}

type gapReport struct {
	*gaps.Report
	at time.Time
}

// Recorded implements inspector.Gaps.
func (g *gapReports) Recorded() bool {
	_, err := OpenRecords(g.cfg)
	return err == nil || len(config.Records(g.cfg)) > 0
}

// Gaps implements inspector.Gaps.
func (g *gapReports) Gaps(ctx context.Context, days int) (*gaps.Report, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if made := g.made[days]; now.Sub(made.at) < gapsFresh {
		return made.Report, nil
	}
	records, err := OpenRecords(g.cfg)
	switch {
	case errors.Is(err, fs.ErrNotExist): // nothing was recorded yet
		return &gaps.Report{}, nil
	case err != nil:
		return nil, err
	}
	report, err := gaps.Find(ctx, records, record.Query{Since: now.AddDate(0, 0, -days)}, GapFinder(g.engine, g.cfg))
	if err != nil {
		return nil, err
	}
	if g.made == nil {
		g.made = map[int]gapReport{}
	}
	g.made[days] = gapReport{report, now}
	return report, nil
}

// GapFinder returns what searches the bases of a recorded question's tenant, without caches, as a
// request under the policy of the record would.
func GapFinder(e *Engine, cfg *config.Config) gaps.Finder {
	_, _, request := Uncached(e)
	return &gapFinder{policies: Policies{Config: cfg}, search: request}
}

type gapFinder struct {
	policies Policies
	search   retrieval.Retriever
}

// gapDeadline limits one search: nobody waits for it.
const gapDeadline = 10 * time.Second

// Find implements gaps.Finder.
func (f *gapFinder) Find(ctx context.Context, r *record.Record) (gaps.Finding, error) {
	policy := f.policyOf(r)
	if policy == nil || policy.WithoutClaims() != nil {
		return gaps.Finding{Unsearched: true}, nil
	}
	text, earlier := r.SearchText()
	q := retrieval.Query{Tenant: r.Tenant, Filter: policy.Rewrite.Filter, Text: text, Previous: retrieval.Turns(earlier), Settings: policy.Rewrite.Search}
	q.Settings.Deadline = gapDeadline
	if len(r.Filter) > 0 {
		recorded, err := filter.Parse(r.Filter)
		if err != nil || recorded.NamesClaims() {
			return gaps.Finding{Unsearched: true}, nil
		}
		q.Filter = filter.AllOf(q.Filter, recorded)
	}
	chosen := r.Asked != nil && len(r.Asked.Knowledge) > 0
	for _, id := range policy.Rewrite.Knowledge {
		if !chosen || slices.Contains(r.Asked.Knowledge, id) {
			q.Bases = append(q.Bases, retrieval.Ref{Knowledge: id})
		}
	}
	if chosen && q.Bases == nil {
		return gaps.Finding{Unsearched: true}, nil
	}
	found, err := f.search.Retrieve(ctx, q)
	if err != nil && ctx.Err() != nil {
		return gaps.Finding{}, err
	}
	return gaps.Finding{Nearest: nearest(&found), Sources: len(found.Sources)}, nil
}

// policyOf returns the policy of a record, or that of its tenant if it is gone.
func (f *gapFinder) policyOf(r *record.Record) *tenant.Policy {
	if p, _ := f.policies.Resolve(r.Tenant, r.Policy); p != nil {
		return p
	}
	p, _ := f.policies.Resolve(r.Tenant, "")
	return p
}

// nearest returns the best candidate of each document, best first.
func nearest(found *retrieval.Result) (best []gaps.Document) {
	for _, s := range found.Sources {
		best = append(best, gaps.Document{Knowledge: s.Knowledge, ID: s.Doc, Chunk: s.Chunk, Name: s.Name, Section: s.Section, Relevance: s.Relevance})
	}
	for x := range found.Excluded.All() {
		best = append(best, gaps.Document{Knowledge: x.Knowledge, ID: x.Doc, Chunk: x.Chunk, Name: x.Name, Section: x.Section, Relevance: x.Relevance})
	}
	slices.SortStableFunc(best, func(a, b gaps.Document) int { return cmp.Compare(b.Relevance, a.Relevance) })
	seen := map[[2]string]bool{}
	best = slices.DeleteFunc(best, func(d gaps.Document) bool {
		key := [2]string{d.Knowledge, d.ID}
		was := seen[key]
		seen[key] = true
		return was
	})
	return best[:min(len(best), gaps.MaxNearest)]
}
