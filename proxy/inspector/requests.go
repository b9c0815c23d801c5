package inspector

import (
	"net/url"
	"slices"
	"strings"

	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

const (
	maxRows   = 100    // requests that the list shows
	maxLooked = 10_000 // that are looked at for them, which takes a few tens of milliseconds
)

// maxOffered is how many tenants or models the form offers to choose from.
const maxOffered = 50

// A filterInspector says which requests a list shows. What is "" lets all through.
type filterInspector struct {
	Tenant, Outcome, Model string
	Text                   string // a part of the status, whatever its case
}

// filterOf reads the filter of a request's query.
func filterOf(v *visit) filterInspector {
	value := func(name string) string {
		return strings.TrimSpace(strings.ToValidUTF8(string(v.QueryArgs().Peek(name)), "\uFFFD"))
	}
	return filterInspector{value("tenant"), value("outcome"), value("model"), value("text")}
}

func (f filterInspector) passes(s *explain.Summary) bool {
	return (f.Tenant == "" || f.Tenant == s.Tenant) && (f.Outcome == "" || f.Outcome == string(s.Outcome)) && (f.Model == "" || f.Model == s.Model) &&
		(f.Text == "" || strings.Contains(strings.ToLower(s.Line), strings.ToLower(f.Text)))
}

// query is the filter as part of an address.
func (f filterInspector) query() string {
	q := url.Values{}
	for name, value := range map[string]string{"tenant": f.Tenant, "outcome": f.Outcome, "model": f.Model, "text": f.Text} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q.Encode()
}

// A requestsView is what requests.html is made of.
type requestsView struct {
	Looked   int               // requests that were looked at; below 0: none are kept
	Rows     []explain.Summary // the newest first
	More     bool              // older ones pass the filter, too, or were not looked at
	Filter   filterInspector
	Filtered bool
	Outcomes []rewrite.Outcome
	Tenants  []string // to choose from
	Models   []string
	Events   string // the address of what ends from now on
}

func (i *Inspector) requests(v *visit) (any, error) {
	f := filterOf(v)
	view := &requestsView{Looked: -1, Filter: f, Filtered: f != filterInspector{}, Outcomes: outcomes()}
	ring := i.data.Requests
	if ring == nil {
		return view, nil
	}
	first, end := ring.Range()
	if end-first > maxLooked {
		first, view.More = end-maxLooked, true
	}
	view.Looked = int(end - first)
	view.Events = eventsPath(f, end)
	for n := end; n > first; n-- {
		s, ok := ring.Summary(n - 1)
		if !ok {
			break // newer ones took its place
		}
		view.Tenants, view.Models = offer(view.Tenants, s.Tenant), offer(view.Models, s.Model)
		switch {
		case !f.passes(&s):
		case len(view.Rows) == maxRows:
			view.More = true
		default:
			view.Rows = append(view.Rows, s)
		}
	}
	slices.Sort(view.Tenants)
	slices.Sort(view.Models)
	return view, nil
}

// outcomes are those that requests which are kept can have.
func outcomes() []rewrite.Outcome {
	return []rewrite.Outcome{rewrite.Injected, report.WithTools, report.Staged, rewrite.Untouched, rewrite.Shadowed, rewrite.Answered, rewrite.Refused, report.Failed}
}

// offer adds a name to a list.
func offer(names []string, name string) []string {
	if name == "" || len(names) == maxOffered || slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}
