package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/rewrite"
)

// Limits of a search.
const (
	MaxTopK  = 50       // as OpenAI's max_num_results
	MaxQuery = 64 << 10 // bytes
)

// A LookupSearch is a search in knowledge bases. It is the body of POST /v1/search.
type LookupSearch struct {
	Query     string          `json:"query"`
	Turns     []string        `json:"turns"`     // earlier turns of the user, oldest first
	Knowledge []string        `json:"knowledge"` // nil: all that the viewer may search
	Filters   json.RawMessage `json:"filters"`   // in addition to the viewer's filter
	TopK      *int            `json:"top_k"`     // nil: as in the viewer's settings
	Stages    bool            `json:"stages"`    // use the planner, reranker and grader of the tenant, who pays for them
	Explain   bool            `json:"explain"`   // return the components of each candidate's score
}

// Search searches knowledge bases as a viewer. Errors are *tenant.APIError.
func (k *Knowledge) Search(ctx context.Context, who Viewer, s *LookupSearch) (SearchResult, error) {
	q, err := s.query(who)
	if err != nil {
		return SearchResult{}, err
	}
	plain := q
	if s.Stages {
		if err := k.addStages(&q, who.Tenant); err != nil {
			return SearchResult{}, err
		}
	}
	res, err := k.Retriever.Retrieve(ctx, q)
	found := SearchResult{Result: res, Settings: q.Settings}
	if err == nil && s.Explain && k.Explainer != nil {
		found.Explained, err = k.Explainer(ctx, plain)
	}
	if err != nil {
		return found, &tenant.APIError{Reason: rewrite.ReasonUnavailable, Message: strings.TrimSuffix(fmt.Sprintf("The search failed: %s", res.Reason), ": ") + ".", Err: err}
	}
	return found, nil
}

// addStages adds planner, reranker and grader of a tenant's policy to a search, as in a dry run.
func (k *Knowledge) addStages(q *retrieval.Query, name string) error {
	if name == "" {
		return optionError("stages", "The stages are those of a tenant's policy; name a tenant by ?tenant=.")
	}
	tenant, err := PolicyOf(k.Tenants, name)
	if err != nil {
		return err
	}
	policy, earlier := tenant.Rewrite, make([]string, len(q.Previous))
	for i, turn := range q.Previous {
		earlier[i] = turn.Text
	}
	k.Planners.SetHelpers(&policy, proxy.PlanDryRun(&policy, "", &tenant.Budget))
	policy.AddStages(q, "", earlier)
	return nil
}

// query validates a search and converts it to a query limited to what the viewer may see.
func (s *LookupSearch) query(who Viewer) (q retrieval.Query, err error) {
	if strings.TrimSpace(s.Query) == "" || len(s.Query) > MaxQuery {
		return q, optionError("query", "query has %d bytes; it needs text, and at most %d bytes.", len(s.Query), MaxQuery)
	}
	said := 0
	for _, turn := range s.Turns {
		said += len(turn)
	}
	if said > MaxQuery {
		return q, optionError("turns", "turns have %d bytes; they have at most %d bytes.", said, MaxQuery)
	}
	asked, err := ReadFilter(s.Filters)
	if err != nil {
		return q, err
	}
	q = retrieval.Query{Tenant: who.Tenant, Filter: filter.AllOf(who.Filter, asked), Text: s.Query, Previous: retrieval.Turns(s.Turns), Settings: who.Settings}
	if s.TopK != nil {
		if *s.TopK < 1 || *s.TopK > MaxTopK {
			return q, optionError("top_k", "top_k is %d; it goes from 1 to %d.", *s.TopK, MaxTopK)
		}
		q.Settings.TopK = *s.TopK
		q.Settings.NumCandidates = max(q.Settings.NumCandidates, *s.TopK)
	}
	ids := s.Knowledge
	if ids == nil {
		ids = who.Bases
	}
	for _, id := range ids {
		if err := who.mayAsk(id); err != nil {
			return q, err
		}
		if ref := (retrieval.Ref{Knowledge: id}); !slices.Contains(q.Bases, ref) {
			q.Bases = append(q.Bases, ref)
		}
	}
	return q, nil
}

// mayAsk returns an error for a base that a viewer may not see. It is the same as for a base that
// does not exist.
func (v *Viewer) mayAsk(base string) error {
	if !slices.Contains(v.Bases, base) {
		return optionError("knowledge", "There is no knowledge base %q; there are %s.", base, strings.Join(v.Bases, ", "))
	}
	return nil
}

// ReadFilter parses the field "filters" of a search. As with OpenAI, null and {} mean no filter.
func ReadFilter(raw json.RawMessage) (*filter.Filter, error) {
	if f := string(bytes.Join(bytes.Fields(raw), nil)); f == "" || f == "null" || f == "{}" {
		return nil, nil
	}
	f, err := filter.Parse(raw)
	if err == nil {
		return f, nil
	}
	param := "filters"
	if at := (*filter.Error)(nil); errors.As(err, &at) {
		param, err = strings.TrimSuffix(param+"."+at.At, "."), at.Err
	}
	return nil, optionError(param, "%s: %v.", param, err)
}
