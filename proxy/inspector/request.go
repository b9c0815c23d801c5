package inspector

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/explain"
	"sidenote/rewrite"
)

// A requestView is what request.html is made of.
type requestView struct {
	*explain.Explanation
	Budget, Window *bar // nil where there is nothing to show
	Sources        []rewrite.SourceEntry
	Steps          []step
	JSON           string // the address of all that is known
}

func (i *Inspector) request(v *visit) (any, error) {
	e, err := i.explained(v)
	if err != nil {
		return nil, err
	}
	view := &requestView{Explanation: e, Steps: stepsOf(e), JSON: requestsPath + "/" + e.ID + "/json"}
	if e.Ledger != nil {
		view.Sources = inPromptOrder(e.Ledger.Sources)
		view.Budget, view.Window = budgetBar(e.Ledger, view.Sources), windowBar(e.Ledger)
	}
	return view, nil
}

// explained returns what is known of the request that the path names.
func (i *Inspector) explained(v *visit) (*explain.Explanation, error) {
	if i.data.Requests == nil {
		return nil, &problem{fasthttp.StatusNotFound, "Nothing is known of any request: explain.keep is 0, so that none are kept."}
	}
	e, have, keep := i.data.Requests.Find(v.name)
	if e == nil {
		return nil, &problem{fasthttp.StatusNotFound, fmt.Sprintf("Nothing is known of the request %s, or not yet; of the last %d requests (explain.keep), %d are known.", cut(v.name, "").Text, keep, have)}
	}
	return e, nil
}

// requestJSON answers with all that is known of a request.
func (i *Inspector) requestJSON(v *visit) error {
	e, err := i.explained(v)
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return fmt.Errorf("encode what is known of a request: %w", err)
	}
	v.Response.Header.SetContentType("application/json")
	v.Response.SetBodyRaw(b)
	return nil
}

// inPromptOrder returns the sources that are in the prompt by their ids, then those that are
// not, in the order of the ledger.
func inPromptOrder(sources []rewrite.SourceEntry) []rewrite.SourceEntry {
	sorted := slices.Clone(sources)
	slices.SortStableFunc(sorted, func(a, b rewrite.SourceEntry) int {
		if (a.ID > 0) != (b.ID > 0) {
			return cmp.Compare(b.ID, a.ID)
		}
		return cmp.Compare(a.ID, b.ID)
	})
	return sorted
}
