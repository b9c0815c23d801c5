package rewrite

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/rewrite/chunks"
)

// Mode says how much Sidenote does with a chat request. Each mode includes the ones
// below it.
type Mode int

// The modes of this release, lowest first.
const (
	Off    Mode = iota // relay, without the field and headers of Sidenote
	Shadow             // relay at once, and rewrite for the record only
	Inject             // merge sources into the request
	Tools              // let the model search and read by tools that Sidenote answers
	Staged             // answer by a chain of calls: draft, review, final answer
)

// String returns the mode's name in configuration and headers.
func (m Mode) String() string { return [...]string{"off", "shadow", "inject", "tools", "staged"}[m] }

// Placement says where in the messages the block goes.
type Placement string

// The placements.
const (
	PlaceSystem   Placement = "system"
	PlaceLastUser Placement = "last_user"
	PlaceSplit    Placement = "split"
	PlaceMarker   Placement = "marker"
)

// OnEmpty says what to do if the search worked and found nothing relevant.
type OnEmpty string

// The actions on an empty search result. The empty string stands for EmptyPass or,
// under GroundingStrict, for EmptyNotice.
const (
	EmptyPass   OnEmpty = "pass"
	EmptyNotice OnEmpty = "notice"
	EmptyRefuse OnEmpty = "refuse"
)

// Order says in which order components stand in the prompt.
type Order string

// The orders.
const (
	OrderPriority Order = "priority" // best first
	OrderDeclared Order = "declared" // first the policy's, then the request's, as listed
	OrderEdges    Order = "edges"    // best at both ends, least in the middle
)

// A Component is one named text that competes for the token budget.
type Component struct {
	Name        string // [a-z0-9_-]{1,64}
	Text        string
	Priority    int  // 0 (least) to 100
	Truncatable bool // may be cut; otherwise it goes in whole or not at all
}

// The priorities that have names.
const (
	PriorityCritical = 100
	PriorityHigh     = 90
	PriorityMedium   = 70
	PriorityLow      = 50
	PriorityOptional = 30
)

var validName = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

// ValidName tells whether s has the form that every name chosen by people must have:
// the ids and names of tenants, bases, policies and components.
func ValidName(s string) bool { return validName.MatchString(s) }

// NamedPriority returns the priority of that name.
func NamedPriority(name string) (priority int, ok bool) {
	priority, ok = map[string]int{
		"critical": PriorityCritical, "high": PriorityHigh, "medium": PriorityMedium, "low": PriorityLow, "optional": PriorityOptional,
	}[name]
	return priority, ok
}

// A Policy says what is done with one tenant's requests. It is a value: resolved once
// per request, passed down, never looked up again. The zero Policy is off.
type Policy struct {
	Tenant    string
	Upstream  string // name of the upstream, by which counts are calibrated
	Mode      Mode
	Knowledge []string       // ids of the bases that a request may search
	Filter    *filter.Filter // which documents its sources may come from; nil is all
	Search    retrieval.Settings
	Planner   retrieval.PlanSettings   `json:",omitzero"`
	Rerank    retrieval.RerankSettings `json:",omitzero"`
	Grade     retrieval.GradeSettings  `json:",omitzero"`

	PlannedBy  retrieval.Planner  `json:"-"` // whom Planner asks for this request; nil: nobody
	RerankedBy retrieval.Reranker `json:"-"` // whom Rerank asks, likewise
	GradedBy   retrieval.Reranker `json:"-"` // whom Grade asks, likewise

	Claimed *filter.Filter `json:"-"` // Filter as it was before WithClaims; nil: it has no claims

	Placement     Placement
	ContextTokens int // limit of what the rewrite may add, everything included, in the model's tokens
	// ReserveOutputTokens is kept free in the model's window for an answer whose length
	// the request does not limit; 0 is the model's usual length, or 4,096, and at most
	// a quarter of the window.
	ReserveOutputTokens int
	Window              int  // the model's window if it is smaller than in the table; 0 is as in the table
	CountWhole          bool // always count the whole request, even if its length shows that it fits
	Template            Template
	Components          []Component
	Sources             Component // priority and truncatable of the sources component; name and text unused
	Order               Order

	Style // of sources and components

	MinTruncatedTokens int // a cut that leaves less is not made
	OnEmpty            OnEmpty
	EmptyAnswer        string // the answer under EmptyRefuse
	FoundNothing       bool   `json:"-"` // of one request: nothing is searched, as what was found is irrelevant
	NoSystem           bool   `json:"-"` // the upstream refuses system messages of the model, whatever the model table says; see WithoutSystem
	RefuseOnFailure    bool   // on_failure.retrieval: refuse if a search failed and found nothing
	RefuseOnPartial    bool   // on_failure.partial: refuse if a search failed in part and found something

	Chunks ChunkPolicy `json:",omitzero"`

	// Digest is a hash of all fields above as configured. It is "" if a request added
	// components, because their fits are not remembered. What else a request narrows
	// changes the budget or the sources, which are part of a fit's key themselves.
	Digest string
	Notes  []string // what Narrow refused of a request's options
}

// DefaultPolicy is the policy for a tenant that configured
// nothing: 2,000 tokens at the end of the system message.
func DefaultPolicy() Policy {
	return Policy{
		Mode:               Inject,
		Search:             retrieval.DefaultSettings(),
		Placement:          PlaceSystem,
		ContextTokens:      2000,
		Sources:            Component{Name: SourcesName, Priority: PriorityHigh, Truncatable: true},
		Order:              OrderPriority,
		Style:              DefaultStyle(),
		MinTruncatedTokens: 100,
		EmptyAnswer:        "The documents do not cover this question.",
	}
}

// Strict tells whether a body that two parsers could read differently is refused rather
// than relayed, if the ambiguity is in a part that is read. It holds for policies that
// refuse on failure or filter documents: otherwise a client could evade them with an
// ambiguous body.
func (p Policy) Strict() bool { return p.RefuseOnFailure || p.RefuseOnPartial || p.Filter != nil }

// Empty returns OnEmpty with its default resolved.
func (p Policy) Empty() OnEmpty {
	switch {
	case p.OnEmpty != "":
		return p.OnEmpty
	case p.Grounding == GroundingStrict:
		return EmptyNotice
	}
	return EmptyPass
}

// WithoutSystem returns the policy for a model that refuses system messages.
func (p Policy) WithoutSystem() Policy {
	if p.NoSystem = true; p.Digest != "" {
		p.Digest += "+nosystem"
	}
	return p
}

// Planning is what asks the planner for a request for a model; nil where nothing is planned.
// earlier are texts of its user, last first.
func (p *Policy) Planning(model string, earlier []string) *retrieval.Planning {
	if p.Planner.MaxQueries == 0 {
		return nil
	}
	settings := p.Planner
	settings.Model = cmp.Or(settings.Model, model)
	return &retrieval.Planning{
		PlanSettings: settings, Planner: p.PlannedBy, Earlier: earlier[:min(len(earlier), settings.Turns)],
		MaySkip: p.Grounding != GroundingStrict && p.Empty() != EmptyRefuse && !p.Planner.Replan, // then it was searched
	}
}

// Reranking is what orders what is found; nil where nothing is reranked.
func (p *Policy) Reranking() *retrieval.Reranking {
	if p.Rerank.Documents == 0 {
		return nil
	}
	return &retrieval.Reranking{RerankSettings: p.Rerank, Reranker: p.RerankedBy}
}

// Grading is what grades what is selected; nil where nothing is graded.
func (p *Policy) Grading() *retrieval.Grading {
	if p.Grade.By == retrieval.GradeByNobody {
		return nil
	}
	return &retrieval.Grading{GradeSettings: p.Grade, Grader: p.GradedBy}
}

// AddStages lets the policy's planner, reranker and grader take part in a search for a model; earlier
// are texts that the user said before, last first.
func (p *Policy) AddStages(q *retrieval.Query, model string, earlier []string) {
	q.Planning, q.Reranking, q.Grading = p.Planning(model, earlier), p.Reranking(), p.Grading()
}

// SafeText returns text that comes from elsewhere so that nothing in it looks like what stands around
// sources and components, or like a tag of the template.
func (p *Policy) SafeText(text string) string {
	return p.Safe(text, p.Template.Tags(), p.componentNames)
}

func (p *Policy) componentNames() []string {
	names := make([]string, len(p.Components))
	for i := range p.Components {
		names[i] = p.Components[i].Name
	}
	return names
}

// Options are what one request asks of its policy, from headers or the body
// field. Nil and empty fields ask for nothing.
type Options struct {
	Mode          *Mode
	Knowledge     []string
	ContextTokens *int
	Query         string
	Filter        *filter.Filter // in force together with the policy's
	Components    []Component

	Chunks  []chunks.Chunk  // the request's typed chunks, until TakeChunks; nil without any
	Context *chunks.Options // what is to be done with them; nil for nothing in particular
	Taken   *Chunks         // what became of them, from TakeChunks on

	Named []NamedBases // what Knowledge is made of
}

// NamedBases are the bases that a header or a body field names.
type NamedBases struct {
	Param string // "Sidenote-Knowledge", "sidenote.knowledge"
	IDs   []string
}

// An OptionError says that an option is unknown or out of range: the client's mistake,
// a 400.
type OptionError struct {
	Param  string // "sidenote.mode", "Sidenote-Mode"
	Reason string // for people, naming the value
}

func (e *OptionError) Error() string { return e.Param + ": " + e.Reason }

// ParseMode returns the mode of that name.
func ParseMode(s string) (Mode, error) {
	for m := Off; m <= Staged; m++ {
		if s == m.String() {
			return m, nil
		}
	}
	return Off, fmt.Errorf("%q is not a mode; use staged, tools, inject, shadow or off", s)
}

// WithClaims returns the policy for a caller whose token has these claims: its filter has
// their values in place of Claims. The error is a *filter.ClaimError.
func (p Policy) WithClaims(claims map[string][]string) (Policy, error) {
	filter, err := p.Filter.WithClaims(claims)
	if filter != p.Filter {
		p.Claimed = p.Filter
	}
	p.Filter = filter
	return p, err
}

// shownFilter is Filter for the ledger, where what a token says is shown by the name of its
// claim only.
func (p *Policy) shownFilter() *filter.Filter {
	if p.Claimed == nil {
		return p.Filter
	}
	return p.Claimed.WithClaimNames()
}

// Narrow returns the policy as NarrowBy narrows it.
func (p Policy) Narrow(o Options) Policy {
	p.NarrowBy(&o)
	return p
}

// NarrowBy applies a request's options to its policy. Options can only narrow: what would
// widen the policy is ignored and recorded in Notes.
func (p *Policy) NarrowBy(o *Options) {
	if o.Mode != nil {
		if *o.Mode > p.Mode {
			p.note("mode %s: policy allows %s", *o.Mode, p.Mode)
		} else {
			p.Mode = *o.Mode
		}
	}
	if o.ContextTokens != nil {
		if *o.ContextTokens > p.ContextTokens {
			p.note("context_tokens %d: policy allows %d", *o.ContextTokens, p.ContextTokens)
		} else {
			p.ContextTokens = *o.ContextTokens
		}
	}
	if o.Knowledge != nil {
		chosen := make([]string, 0, len(o.Knowledge))
		for _, k := range o.Knowledge {
			switch {
			case slices.Contains(chosen, k): // named twice, searched once
			case slices.Contains(p.Knowledge, k):
				chosen = append(chosen, k)
			default:
				p.note("knowledge %q: not in the policy", k)
			}
		}
		p.Knowledge = chosen
	}
	p.Filter = filter.AllOf(p.Filter, o.Filter) // both hold, so it cannot widen
	if p.Claimed != nil {
		p.Claimed = filter.AllOf(p.Claimed, o.Filter)
	}
	for _, c := range o.Components {
		if slices.ContainsFunc(p.Components, func(ours Component) bool { return ours.Name == c.Name }) {
			p.note("component %q: the policy has one of that name", c.Name)
			continue
		}
		p.Components, p.Digest = append(slices.Clip(p.Components), c), ""
	}
}

func (p *Policy) note(format string, args ...any) {
	p.Notes = append(p.Notes[:len(p.Notes):len(p.Notes)], fmt.Sprintf(format, args...))
}
