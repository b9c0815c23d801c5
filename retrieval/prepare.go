package retrieval

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// standalone is the number of content terms from which on a question is searched without
// the previous one.
const standalone = 3

// headBytes is how much of a question is analysed first, for each term that is needed: in
// most questions that is enough, and the rest need not be analysed.
const headBytes = 32

// Prepare comes before every cache. It turns questions that mean the same into the same
// Query, and answers those that need no search:
//
//   - Text and Previous in NFKC with folded white space; Previous is dropped
//     unless Text has fewer than three different terms and Previous has any.
//   - Bases (the caller gives ids only) with their generations, sorted, each once;
//     unknown ones are dropped. None left is ReasonNoKnowledge.
//   - Bases without a whole index are left out: the Result is then Partial with
//     ReasonIndexing, unless there is a worse reason. If that is all of them,
//     the error wraps ErrUnavailable.
//   - No term in Text and Previous is ReasonNoQueryTerms.
//   - Settings that make no sense become the defaults.
//
// All its fields are required.
type Prepare struct {
	Next Retriever
	// Ref returns the base of an id in its present generation, "" while its first index
	// is not whole; false where there is no such base.
	Ref   func(id string) (Ref, bool)
	Terms func(text string) []string // the content terms of a text, by the analyser of the bases
}

// Retrieve completes q and asks Next.
func (p Prepare) Retrieve(ctx context.Context, q Query) (Result, error) {
	ready, indexing := p.bases(q.Bases)
	if len(ready)+len(indexing) == 0 {
		return Result{Reason: ReasonNoKnowledge, Cache: CacheOff}, nil
	}
	q.Text = fold(q.Text)
	enough := 1
	if q.Previous != "" {
		enough = standalone
	}
	terms := p.countTerms(q.Text, enough)
	q.Previous = p.previous(terms, q.Previous)
	if terms == 0 && q.Previous == "" {
		return Result{Reason: ReasonNoQueryTerms, Cache: CacheOff}, nil
	}
	if len(ready) == 0 {
		return Result{Bases: indexing, Reason: ReasonIndexing, Partial: true, Cache: CacheOff},
			fmt.Errorf("first index of %d bases not whole: %w", len(indexing), ErrUnavailable)
	}
	q.Bases, q.Settings = ready, q.Settings.orDefaults()
	res, err := p.Next.Retrieve(ctx, q)
	if len(indexing) > 0 {
		res.Partial = true
		if !res.Reason.Failed() {
			res.Reason = ReasonIndexing
		}
	}
	return res, err
}

// bases looks up the bases of a query, and sorts them: their order means nothing, so it
// must not change the cache key.
func (p Prepare) bases(asked []Ref) (ready, indexing []Ref) {
	ready = make([]Ref, 0, len(asked))
	for _, a := range asked {
		ref, ok := p.Ref(a.Knowledge)
		switch {
		case !ok:
		case ref.Generation == "":
			indexing = append(indexing, ref)
		default:
			ready = append(ready, ref)
		}
	}
	return distinct(ready), distinct(indexing)
}

func distinct(refs []Ref) []Ref {
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.Knowledge, b.Knowledge) })
	return slices.CompactFunc(refs, func(a, b Ref) bool { return a.Knowledge == b.Knowledge })
}

// previous returns what of the user's text before joins the search for a
// question of that many terms.
func (p Prepare) previous(terms int, previous string) string {
	if previous == "" || terms >= standalone {
		return ""
	}
	if previous = fold(previous); p.countTerms(previous, 1) == 0 {
		return ""
	}
	return previous
}

// countTerms returns the number of different terms of text, or enough where there
// are at least as many. This runs before the cache, and questions can be long.
func (p Prepare) countTerms(text string, enough int) int {
	if head := headBytes * enough; len(text) > head {
		if end := strings.LastIndexByte(text[:head], ' '); end > 0 {
			if different(p.Terms(text[:end]), enough) == enough {
				return enough
			}
		}
	}
	return different(p.Terms(text), enough)
}

// different returns the number of different terms, or enough, which is at most
// standalone, where there are at least as many.
func different(terms []string, enough int) int {
	var seen [standalone]string
	n := 0
	for i := 0; i < len(terms) && n < enough; i++ {
		if !slices.Contains(seen[:n], terms[i]) {
			seen[n] = terms[i]
			n++
		}
	}
	return n
}

// fold returns text in NFKC, runs of white space as one space, none at the ends.
func fold(text string) string {
	if folded(text) {
		return text
	}
	return strings.Join(strings.Fields(norm.NFKC.String(text)), " ")
}

// folded recognises the plain ASCII that fold would return as it is.
func folded(text string) bool {
	space := true // as if one stood before the text
	for i := range len(text) {
		c := text[i]
		if c >= utf8.RuneSelf || c < ' ' || c == ' ' && space {
			return false
		}
		space = c == ' '
	}
	return !space || text == ""
}
