package rewrite_test

import (
	"context"
	"testing"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// "Searched and found nothing", "not searched" and "search failed" are distinguished, and so is a
// result that lacks some sources.
func TestWhatASearchCameTo(t *testing.T) {
	source := []retrieval.Source{handbook("a.md", 0, "Sixteen weeks.")}
	blank := []retrieval.Source{handbook("a.md", 0, " \n")}
	present := []retrieval.Source{handbook("a.md", 0, "How long?")} // the text of the request's own message
	f := func(sources []retrieval.Source, reason retrieval.Reason, change func(*rewrite.Policy), outcome rewrite.Outcome, want rewrite.Reason) {
		t.Helper()
		p := testPolicy(t, nil)
		p.RefuseOnFailure, p.OnEmpty = true, rewrite.EmptyRefuse
		if change != nil {
			change(&p)
		}
		req, err := chat.Completions.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"How long?"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		rw := &rewrite.Rewriter{Models: models{model.Model{Counter: words{}}}, Retriever: retrieval.Func(
			func(context.Context, retrieval.Query) (retrieval.Result, error) {
				return retrieval.Result{Sources: sources, Reason: reason, Partial: reason.Failed()}, nil
			})}
		if res := rw.Rewritten(t.Context(), p, req, rewrite.Options{}); res.Outcome != outcome || res.Reason != want {
			t.Errorf("%d sources, %q: %s %q, want %s %q", len(sources), reason, res.Outcome, res.Reason, outcome, want)
		}
	}
	partial := func(p *rewrite.Policy) { p.RefuseOnPartial = true }
	notice := func(p *rewrite.Policy) { p.OnEmpty = rewrite.EmptyNotice }
	pass := func(p *rewrite.Policy) { p.RefuseOnFailure = false }

	f(source, "", nil, rewrite.Injected, "")
	f(source, "", partial, rewrite.Injected, "")
	for _, failed := range []retrieval.Reason{retrieval.ReasonTimeout, retrieval.ReasonError, retrieval.ReasonIndexing} {
		want := rewrite.Reason(failed)
		f(source, failed, nil, rewrite.Injected, want)
		f(source, failed, partial, rewrite.Refused, want)
		f(present, failed, nil, rewrite.Untouched, want)
		f(present, failed, partial, rewrite.Refused, want)
		f(nil, failed, nil, rewrite.Refused, want)
		f(blank, failed, nil, rewrite.Refused, want)
		f(nil, failed, pass, rewrite.Untouched, want)
		f(nil, failed, func(p *rewrite.Policy) { pass(p); notice(p) }, rewrite.Untouched, want)
	}
	f(nil, "", nil, rewrite.Answered, rewrite.ReasonNoMatch)
	f(nil, retrieval.ReasonNoMatch, nil, rewrite.Answered, rewrite.ReasonNoMatch)
	f(nil, retrieval.ReasonNoMatch, notice, rewrite.Injected, rewrite.ReasonNoMatch)
	f(blank, "", nil, rewrite.Answered, rewrite.ReasonNoMatch)
	for _, not := range []retrieval.Reason{retrieval.ReasonNoKnowledge, retrieval.ReasonNoQueryTerms} {
		f(nil, not, nil, rewrite.Untouched, rewrite.Reason(not))
		f(nil, not, notice, rewrite.Untouched, rewrite.Reason(not))
		f(nil, not, partial, rewrite.Untouched, rewrite.Reason(not))
	}
	if p := (rewrite.Policy{RefuseOnPartial: true}); !p.Strict() {
		t.Error("a policy that refuses a part of the sources can be walked around by an ambiguous body")
	}
}
