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

// A LookupSearch is what is asked of bases. It is the body of POST /v1/search.
type LookupSearch struct {
	Query     string          `json:"query"`
	Turns     []string        `json:"turns"`     // what the user said before, first turn first
	Knowledge []string        `json:"knowledge"` // nil: all that the viewer may ask
	Filters   json.RawMessage `json:"filters"`   // beside the viewer's
	TopK      *int            `json:"top_k"`     // nil: as the viewer's settings have it
	Stages    bool            `json:"stages"`    // ask the planner, reranker and grader of the tenant, who pays
	Explain   bool            `json:"explain"`   // tell what each candidate owes its score to
}

// Search asks bases in a viewer's name. Errors are *tenant.APIError.
func (k *Knowledge) Search(ctx context.Context, who Viewer, s *LookupSearch) (Found, error) {
	q, err := s.query(who)
	if err != nil {
		return Found{}, err
	}
	plain := q
	if s.Stages {
		if err := k.addStages(&q, who.Tenant); err != nil {
			return Found{}, err
		}
	}
	res, err := k.Retriever.Retrieve(ctx, q)
	found := Found{Result: res, Settings: q.Settings}
	if err == nil && s.Explain && k.Explainer != nil {
		found.Explained, err = k.Explainer(ctx, plain)
	}
	if err != nil {
		return found, &tenant.APIError{Reason: rewrite.ReasonUnavailable, Message: strings.TrimSuffix(fmt.Sprintf("The search failed: %s", res.Reason), ": ") + ".", Err: err}
	}
	return found, nil
}

// addStages lets the stages of a tenant's policy take part in a search, as they do in a dry run.
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
	k.Planners.Help(&policy, proxy.PlanDryRun(&policy, "", &tenant.Budget))
	policy.AddStages(q, "", earlier)
	return nil
}

// query checks a search, and narrows what its viewer may see by it.
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

// mayAsk refuses a base that a viewer may not see, in the words of one that is not there.
func (v *Viewer) mayAsk(base string) error {
	if !slices.Contains(v.Bases, base) {
		return optionError("knowledge", "There is no knowledge base %q; there are %s.", base, strings.Join(v.Bases, ", "))
	}
	return nil
}

// ReadFilter reads the field "filters" of a search. As with OpenAI, null and {} are no
// filter.
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
