// Package gaps finds what a knowledge base lacks in the questions that were asked: those for which
// nothing was found, those whose sources no answer cited or supports badly, and those with answers
// that users did not like, grouped by meaning.
package gaps

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"sidenote/proxy/record"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// A Kind says what is missing for a question.
type Kind string

// The kinds, the plainest sign of a gap first.
const (
	Silent      Kind = "no_source"   // the bases were searched, and nothing was found
	Disliked    Kind = "feedback"    // the application's score of the answer is negative
	Uncited     Kind = "uncited"     // the answer cites none of its sources
	Unsupported Kind = "low_support" // the answer cites sources that contain little of what it says
)

// String describes the kind for people.
func (k Kind) String() string {
	switch k {
	case Silent:
		return "no source"
	case Disliked:
		return "bad feedback"
	case Uncited:
		return "sources not cited"
	case Unsupported:
		return "low support"
	}
	return "none"
}

// Kinds returns all kinds in their order.
func Kinds() []Kind { return []Kind{Silent, Disliked, Uncited, Unsupported} }

// lowSupport is the mean support of an answer's citations below which its sources are said not to
// support it: less than a third of the terms of the statements are in the sources they cite.
const lowSupport = 1.0 / 3

// KindOf returns why a recorded question is a gap; "" if it is none, or if its search failed or there
// was none.
func KindOf(r *record.Record) Kind {
	switch {
	case r.Feedback != nil && *r.Feedback < 0 && Searched(r):
		return Disliked
	case !Searched(r):
		return ""
	case r.Degraded != "":
		return ""
	case len(r.Sources) == 0:
		return Silent
	case !r.Checked:
		return ""
	case !r.Cites():
		return Uncited
	}
	support, n := 0.0, 0.0
	for i := range r.Sources {
		if s := &r.Sources[i]; s.Cited > 0 && s.Support != nil {
			support, n = support+*s.Support*float64(s.Cited), n+float64(s.Cited)
		}
	}
	if n > 0 && support/n < lowSupport {
		return Unsupported
	}
	return ""
}

// Searched reports whether the bases were searched for a question to the end, so that having no
// source says something about them.
func Searched(r *record.Record) bool {
	if len(r.Sources) > 0 {
		return true
	}
	return r.Reason == rewrite.Reason(retrieval.ReasonNoMatch) || r.Reason == rewrite.Reason(retrieval.ReasonIrrelevant)
}

// A Document is the nearest document to a question.
type Document struct {
	Knowledge string  `json:"kb_id"`
	ID        string  `json:"doc_id"`
	Chunk     int     `json:"chunk"`
	Name      string  `json:"name,omitempty"`
	Section   string  `json:"section,omitempty"`
	Relevance float64 `json:"relevance"` // 0 to 1; 0.5 is the minimum of a source
}

// A Finding is what a search finds for a question now.
type Finding struct {
	Nearest []Document // the best chunk of each document, best first, at most MaxNearest; empty if no document has a term of it
	Sources int        // that a request would get
	// Unsearched says that nobody can search as the request did: its tenant, its policy or the bases that
	// it chose are gone, or what it may see depends on its caller's token.
	Unsearched bool
}

// A Finder searches the bases that a recorded question was asked of.
type Finder interface {
	Find(ctx context.Context, r *record.Record) (Finding, error)
}

// A Question is a question of a group.
type Question struct {
	ID       string    `json:"id"` // of the request
	Time     time.Time `json:"time"`
	Tenant   string    `json:"tenant"`
	Policy   string    `json:"policy"`
	Kind     Kind      `json:"kind"`
	Text     string    `json:"question"`
	Earlier  []string  `json:"earlier,omitempty"`
	Answered bool      `json:"answered"` // a search finds sources now, where none was found
}

// A Group holds questions of one meaning.
type Group struct {
	Question string       `json:"question"` // the one most similar to the others
	Count    int          `json:"count"`
	Kinds    map[Kind]int `json:"kinds"`
	Answered int          `json:"answered"` // questions for which nothing was found, and now is
	Nearest  *Document    `json:"nearest"`  // to Question; null if no document has a term of it, or if it is Unsearched
	// Unsearched says that nobody can search for Question as its request did.
	Unsearched bool `json:"not_searched,omitempty"`

	First     time.Time  `json:"first"`
	Last      time.Time  `json:"last"`
	Questions []Question `json:"questions"` // newest first, at most MaxShown
	weight    float64
}

// A Report says what is missing.
type Report struct {
	Object   string    `json:"object"` // "gaps"
	Since    time.Time `json:"since,omitzero"`
	Records  int       `json:"records"`  // read
	Searched int       `json:"searched"` // of them, those for which the bases were searched, without small talk
	Gaps     int       `json:"gaps"`     // of these, those that lack something
	Left     int       `json:"left_out"` // gaps beyond the limit, the oldest
	Groups   []Group   `json:"groups"`
}

// Limits of a report.
const (
	MaxQuestions = 20_000 // gaps that are grouped, the newest
	MaxShown     = 50     // questions of a group that are listed
	MaxNearest   = 5      // documents near to a question
	maxFound     = 5000   // different questions that are searched for, the newest
)

// Find groups the recorded questions that q chooses and that lack something.
func Find(ctx context.Context, store record.Store, q record.Query, find Finder) (*Report, error) {
	c := collection{report: &Report{Object: "gaps", Since: q.Since}, known: frequencies{of: map[string]int{}}}
	for r, err := range store.All(q) {
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.add(r)
	}
	if err := c.group(ctx, find); err != nil {
		return nil, err
	}
	return c.report, nil
}

// A gap is a question that lacks something, or several of the same terms.
type gap struct {
	terms termVector
	of    []*record.Record // oldest first
	kinds []Kind
	found Finding
}

type collection struct {
	report *Report
	known  frequencies
	gaps   []*gap
	held   []*record.Record // gaps, oldest first
	kinds  []Kind
}

// add counts a record, and keeps it if it is a gap.
func (c *collection) add(r *record.Record) {
	c.report.Records++
	text, earlier := r.SearchText()
	if !Searched(r) || strings.TrimSpace(text) == "" {
		return
	}
	terms := termsOf(text, earlier)
	if smallTalk(terms) {
		return
	}
	c.report.Searched++
	c.known.add(terms)
	kind := KindOf(r)
	if kind == "" {
		return
	}
	c.report.Gaps++
	one := *r
	one.Block, one.Body = "", nil // the long texts
	c.held, c.kinds = append(c.held, &one), append(c.kinds, kind)
	if len(c.held) > 2*MaxQuestions {
		c.cut()
	}
}

// cut drops the oldest gaps beyond the limit.
func (c *collection) cut() {
	if over := len(c.held) - MaxQuestions; over > 0 {
		c.report.Left += over
		c.held, c.kinds = slices.Clone(c.held[over:]), slices.Clone(c.kinds[over:])
	}
}

// group makes the groups of the report.
func (c *collection) group(ctx context.Context, find Finder) error {
	c.cut()
	same := map[string]*gap{}
	for i, r := range c.held {
		terms := c.known.vector(termsOf(r.SearchText()))
		key := terms.key()
		g := same[key]
		if g == nil || key == "" {
			g = &gap{terms: terms}
			same[key] = g
			c.gaps = append(c.gaps, g)
		}
		g.of, g.kinds = append(g.of, r), append(g.kinds, c.kinds[i])
	}
	near := frequencies{of: map[string]int{}}
	for i, g := range c.gaps {
		if i >= len(c.gaps)-maxFound {
			var err error
			if g.found, err = find.Find(ctx, g.of[len(g.of)-1]); err != nil {
				return err
			}
		}
		near.add(documentsOf(g.found))
	}
	vectors, counts := make([]termVector, len(c.gaps)), make([]int, len(c.gaps))
	for i, g := range c.gaps {
		vectors[i], counts[i] = g.terms.beside(near.near(documentsOf(g.found))), len(g.of)
	}
	for _, members := range group(ctx, vectors, counts) {
		c.report.Groups = append(c.report.Groups, c.groupOf(members, vectors))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	slices.SortStableFunc(c.report.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), b.Last.Compare(a.Last))
	})
	return nil
}

// severity is how much a question of a kind counts when groups are ordered: one without a source is
// a sure sign, one whose sources are not used may be a matter of the answer.
func severity(k Kind) float64 {
	if k == Silent || k == Disliked {
		return 1
	}
	return 0.5
}

// groupOf makes a group of gaps. The most central question is the one whose vector is most similar to
// the others'.
func (c *collection) groupOf(members []int, vectors []termVector) Group {
	mean := termVector{}
	for _, i := range members {
		for t, w := range vectors[i] {
			mean[t] += w * float64(len(c.gaps[i].of))
		}
	}
	central := map[int]float64{}
	for _, i := range members {
		for t, w := range vectors[i] {
			central[i] += w * mean[t]
		}
	}
	slices.SortFunc(members, func(a, b int) int { return cmp.Or(cmp.Compare(central[b], central[a]), cmp.Compare(a, b)) })
	g := Group{Kinds: map[Kind]int{}}
	for n, i := range members {
		one := c.gaps[i]
		if n == 0 {
			g.Question, _ = one.of[len(one.of)-1].SearchText()
			g.Unsearched = one.found.Unsearched
			if len(one.found.Nearest) > 0 {
				g.Nearest = &one.found.Nearest[0]
			}
		}
		g.add(one)
	}
	slices.SortStableFunc(g.Questions, func(a, b Question) int { return b.Time.Compare(a.Time) })
	g.Questions = g.Questions[:min(len(g.Questions), MaxShown)]
	return g
}

// add adds the questions of a gap.
func (g *Group) add(one *gap) {
	for i, r := range one.of {
		kind := one.kinds[i]
		answered := kind == Silent && one.found.Sources > 0
		g.Count++
		g.Kinds[kind]++
		weight := severity(kind)
		if answered {
			g.Answered++
			weight /= 4
		}
		g.weight += weight
		if g.First.IsZero() || r.Time.Before(g.First) {
			g.First = r.Time
		}
		if r.Time.After(g.Last) {
			g.Last = r.Time
		}
		text, earlier := r.SearchText()
		g.Questions = append(g.Questions, Question{r.ID, r.Time, r.Tenant, r.Policy, kind, text, earlier, answered})
	}
}
