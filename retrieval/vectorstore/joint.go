package vectorstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/services"
)

// Stores searches the vector stores in q.Bases. Several of them must have one Central: it searches
// them as one base in one call, with the ranking, floor and duplicates that it finds itself. A base
// that it does not know, or no longer, makes the result partial.
type Stores struct {
	// Base returns the base with an id, nil if there is none.
	Base func(id string) *Base
	// Searched, if not nil, is called with the outcome of each base of each search.
	Searched func(id string, reason retrieval.Reason)
}

// Retrieve searches the bases of q.
func (s *Stores) Retrieve(ctx context.Context, q retrieval.Query) (res retrieval.Result, err error) {
	var all joint
	for _, ref := range q.Bases {
		b := s.Base(ref.Knowledge)
		if b == nil {
			return retrieval.Result{Reason: retrieval.ReasonError}, fmt.Errorf("search vector store: %w: no base %s", retrieval.ErrUnavailable, ref.Knowledge)
		}
		all = append(all, b)
	}
	if len(all) == 1 {
		res, err = all[0].Retrieve(ctx, q)
	} else {
		res, err = all.retrieve(ctx, &q)
	}
	if s.Searched != nil {
		for _, b := range all {
			s.Searched(b.options.Knowledge, reasonOf(&res, err, b.options.Knowledge))
		}
	}
	return res, err
}

// reasonOf returns the outcome of a search for one of its bases.
func reasonOf(res *retrieval.Result, err error, id string) retrieval.Reason {
	switch {
	case err != nil || res.Reason == retrieval.ReasonNoQueryTerms:
		return res.Reason
	case !slices.ContainsFunc(res.Bases, func(ref retrieval.Ref) bool { return ref.Knowledge == id }):
		return retrieval.ReasonError
	case !slices.ContainsFunc(res.Sources, func(src retrieval.Source) bool { return src.Knowledge == id }):
		return retrieval.ReasonNoMatch
	}
	return retrieval.ReasonNone
}

// Central identifies the Sidenote that has the store, and the credential for it; "" if the store is
// elsewhere, or its Sidenote does not search several stores as one.
func (b *Base) Central() string {
	if !b.state().joint {
		return ""
	}
	key := ""
	if b.options.Key != nil {
		key = b.options.Key()
	}
	return apiURL(b.options.BaseURL) + " " + key
}

// joint are bases with one Central.
type joint []*Base

// errUnknown says that a Sidenote does not search a base that it had.
var errUnknown = errors.New("the Sidenote there does not search it")

// retrieve is Stores.Retrieve. The call goes through the breaker of the first base.
func (all joint) retrieve(ctx context.Context, q *retrieval.Query) (res retrieval.Result, err error) {
	start := time.Now()
	before, stores := make([]state, len(all)), make([]string, len(all))
	res.Cache = retrieval.CacheOff
	for i, b := range all {
		before[i], stores[i] = b.state(), b.options.Store
		res.Bases = append(res.Bases, b.ref(before[i]))
	}
	r := request{Query: q.Text, MaxNumResults: limitOf(q), Filters: q.Filter, Joint: &jointRequest{DenseWeight: q.Settings.DenseWeight, Fusion: string(q.Settings.Fusion)}}
	if strings.TrimSpace(r.Query) == "" {
		res.Reason = retrieval.ReasonNoQueryTerms
		return res, nil
	}
	for _, turn := range q.Previous {
		r.Joint.Turns = append(r.Joint.Turns, jointTurn(turn))
	}
	found, err := all[0].search(ctx, r, stores...)
	if err == nil && found.joint == nil {
		err = errors.New("answered as if stores could not be searched together")
	}
	res.Took = time.Since(start)
	if err != nil {
		all.apart(err)
		return failed(res, err, "vector stores "+strings.Join(stores, ", "))
	}
	told := found.joint
	res.Partial, res.Provisional, res.Degraded, res.EmbedFailure = told.Partial, told.Provisional, told.Degraded, told.Embed
	res.Least = max(0, told.Least)
	switch res.Reason = told.Reason; {
	case res.Reason == retrieval.ReasonNoQueryTerms:
		return res, nil
	case res.Partial && !res.Reason.Failed():
		res.Reason = retrieval.ReasonIndexing
	}
	res.Bases = res.Bases[:0]
	known := map[string]string{} // ids here by ids there
	for i, b := range all {
		own, ok := told.generation(b.options.Store)
		if !ok {
			b.health.Called(errUnknown)
			res.Partial, res.Reason = true, retrieval.ReasonError
			continue
		}
		if i > 0 {
			b.health.Called(nil)
		}
		now := state{digest: b.told(own), joint: true}
		b.adopt(now, before[i])
		res.Bases = append(res.Bases, b.ref(now))
		known[b.options.Store] = cmp.Or(known[b.options.Store], b.options.Knowledge)
	}
	if len(res.Bases) == 0 {
		return failed(res, errUnknown, "vector stores "+strings.Join(stores, ", "))
	}
	found.sources = slices.DeleteFunc(found.sources, func(src retrieval.Source) bool { return known[src.Knowledge] == "" })
	for i := range found.sources {
		found.sources[i].Knowledge = known[found.sources[i].Knowledge]
	}
	found.addTo(&res)
	return res, nil
}

// addTo adds the sources to a result.
func (f *found) addTo(res *retrieval.Result) {
	res.Sources, res.Floor = f.sources, f.floor
	if len(res.Sources) == 0 && res.Reason == retrieval.ReasonNone {
		res.Reason = retrieval.ReasonNoMatch
	}
	res.Retrieved, res.Unique = len(res.Sources), len(res.Sources)
}

// apart makes the next searches of the bases go to each alone, until their states are read again, if
// err says that there is no joint search: the Sidenote there may have been replaced by an older one.
func (all joint) apart(err error) {
	status, ok := errors.AsType[*services.StatusError](err)
	if !ok || status.Status != http.StatusNotFound && status.Status != http.StatusMethodNotAllowed && status.Status != http.StatusBadRequest {
		return
	}
	for _, b := range all {
		b.mu.Lock()
		b.known.joint = false
		b.mu.Unlock()
	}
}
