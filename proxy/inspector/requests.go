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
	maxRows   = 100    // requests in the list
	maxLooked = 10_000 // requests searched for them, which takes a few tens of milliseconds
)

// maxOffered limits the tenants and the models that the form offers.
const maxOffered = 50

// A filterInspector selects requests of the list. Empty fields match all.
type filterInspector struct {
	Tenant, Outcome, Model string
	Text                   string // part of the status, ignoring letter case
}

// filterOf parses the filter in a request's query.
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

// query returns the filter as a URL query.
func (f filterInspector) query() string {
	q := url.Values{}
	for name, value := range map[string]string{"tenant": f.Tenant, "outcome": f.Outcome, "model": f.Model, "text": f.Text} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q.Encode()
}

// A requestsView is the data of requests.html.
type requestsView struct {
	Looked   int               // requests searched; below 0 if none are kept
	Rows     []explain.Summary // newest first
	More     bool              // older ones match the filter, too, or were not searched
	Filter   filterInspector
	Filtered bool
	Outcomes []rewrite.Outcome
	Tenants  []string // to choose from
	Models   []string
	Events   string // URL of the events for new requests
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
			break // overwritten by newer ones
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

// outcomes returns the outcomes that kept requests can have.
func outcomes() []rewrite.Outcome {
	return []rewrite.Outcome{rewrite.Injected, report.WithTools, report.Staged, rewrite.Untouched, rewrite.Shadowed, rewrite.Answered, rewrite.Refused, report.Failed}
}

// offer adds a name to a list, unless it is known or the list is full.
func offer(names []string, name string) []string {
	if name == "" || len(names) == maxOffered || slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}
