package rewrite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

func comparison(kind filter.Type, key string, value any) *filter.Filter {
	return &filter.Filter{Type: kind, Key: key, Value: value}
}

// A search is limited to documents that match both the policy's and the request's filter, and the
// ledger says so.
func TestFilterReachesSearch(t *testing.T) {
	const public, recent = `{"type":"eq","key":"audience","value":"public"}`, `{"type":"gte","key":"year","value":2024}`
	for _, c := range []struct {
		policy *filter.Filter
		field  string
		want   string
	}{
		{nil, `{}`, ""},
		{comparison(filter.Eq, "audience", "public"), `{}`, public},
		{nil, `{"filters": ` + recent + `}`, recent},
		{comparison(filter.Eq, "audience", "public"), `{"filters": ` + recent + `}`, `{"type":"and","filters":[` + public + `,` + recent + `]}`},
	} {
		var asked retrieval.Query
		rw := &rewrite.Rewriter{
			Retriever: retrieval.Func(func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
				asked = q
				return retrieval.Result{Reason: retrieval.ReasonNoMatch}, nil
			}),
			Models: models{model.Model{Encoding: "words", Counter: words{}}},
		}
		req, err := chat.Completions.Parse([]byte(`{"sidenote":` + c.field + `,"messages":[{"role":"user","content":"How long?"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		o, err := rewrite.ReadOptions(req)
		if err != nil {
			t.Fatal(err)
		}
		p := testPolicy(t, nil)
		p.Filter = c.policy
		if p.Strict() != (c.policy != nil) {
			t.Errorf("strict under %s: %v", c.policy, p.Strict())
		}
		p = p.Narrow(o)
		res := rw.Rewritten(t.Context(), p, req, o)
		ledger, err := json.Marshal(res.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		shown := `"filters":` + c.want
		if asked.Filter.String() != c.want || strings.Contains(string(ledger), shown) != (c.want != "") || len(p.Notes) > 0 {
			t.Errorf("%s under %s: asked %s, ledger %s", c.field, c.policy, asked.Filter, ledger)
		}
	}
}

// Whatever a request asks for, it gets no document excluded by its policy.
func TestFilterNeverWidens(t *testing.T) {
	key, value := rapid.SampledFrom([]string{"k", "l"}), rapid.SampledFrom([]string{"", "a", "b"})
	one := rapid.Custom(func(t *rapid.T) *filter.Filter {
		kinds := []filter.Type{filter.Eq, filter.Ne, filter.Gt, filter.Lte, filter.Prefix}
		return comparison(rapid.SampledFrom(kinds).Draw(t, "type"), key.Draw(t, "key"), value.Draw(t, "value"))
	})
	some := rapid.Custom(func(t *rapid.T) *filter.Filter {
		f := &filter.Filter{Type: rapid.SampledFrom([]filter.Type{filter.And, filter.Or}).Draw(t, "joined")}
		for _, part := range rapid.SliceOfN(one, 1, 3).Draw(t, "parts") {
			f.Filters = append(f.Filters, *part)
		}
		return f
	})
	rapid.Check(t, func(t *rapid.T) {
		policy, asked := some.Draw(t, "policy"), some.Draw(t, "asked")
		attributes := map[string]any{}
		for k, v := range rapid.MapOf(key, value).Draw(t, "attributes") {
			attributes[k] = v
		}
		req, err := chat.Completions.Parse([]byte(fmt.Sprintf(`{"messages":[{"role":"user","content":"x"}],"sidenote":{"filters":%s}}`, asked)))
		if err != nil {
			t.Fatal(err)
		}
		o, err := rewrite.ReadOptions(req)
		if err != nil {
			t.Fatal(err)
		}
		got := rewrite.Policy{Filter: policy}.Narrow(o).Filter
		if want := policy.Match(attributes) && asked.Match(attributes); got.Match(attributes) != want {
			t.Errorf("%s under %s: %v of %v", asked, policy, !want, attributes)
		}
	})
}
