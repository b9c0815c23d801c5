// Package tools holds the tools that a model can call: it searches knowledge, reads on in what was
// found, finds files and recalls passages, decodes the arguments that models write, as JSON or XML,
// and encodes the results that they read.
//
// All act in a caller's name: their Query has the tenant, the bases, the filter, the settings and
// the encoding of the caller's policy. What the caller may not see is reported in the same words as
// what does not exist.
package tools

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sidenote/retrieval"
)

// Knowledge answers. All fields are required; it is safe for concurrent use.
type Knowledge struct {
	Retriever retrieval.Retriever // as requests ask it
	Reader    retrieval.Reader
	Terms     func(text string) []string // the content terms of a text, by the analyser of the bases
}

// A Ref names a chunk.
type Ref struct {
	Knowledge, Doc string
	Chunk          int
}

// String returns "kb:doc:chunk".
func (r Ref) String() string { return r.Knowledge + ":" + r.Doc + ":" + strconv.Itoa(r.Chunk) }

// errRef says what a reference is.
var errRef = errors.New(`a reference is "kb:doc:chunk", as a search gives it`)

// ParseRef reads what Ref.String returns. The id of a document may hold colons.
func ParseRef(s string) (Ref, error) {
	first, last := strings.IndexByte(s, ':'), strings.LastIndexByte(s, ':')
	if first < 1 || last <= first+1 {
		return Ref{}, errRef
	}
	n, err := strconv.Atoi(s[last+1:])
	if err != nil || n < 0 || strconv.Itoa(n) != s[last+1:] {
		return Ref{}, errRef
	}
	return Ref{s[:first], s[first+1 : last], n}, nil
}

// A Hit is a chunk that a search found.
type Hit struct {
	Ref
	Name, Section string
	Snippet       string  // those sentences of its text that have most of the question
	Score         float64 // retrieval.Relevance: from 0 to 1, over all bases
}

// A Found is the answer to a search.
type Found struct {
	Hits    []Hit            // best first
	Reason  retrieval.Reason // why there is nothing, or why something is missing
	Partial bool             // a base was late or failed
}

// snippetBytes is how long a snippet is at most.
const snippetBytes = 320

// Search looks for topK chunks, at least 1. as is the caller's, without a text.
func (k *Knowledge) Search(ctx context.Context, as retrieval.Query, text string, topK int) (Found, error) {
	res, err := k.search(ctx, as, text, func(s *retrieval.Settings) { s.TopK = topK })
	found := Found{Hits: make([]Hit, len(res.Sources)), Reason: res.Reason, Partial: res.Partial}
	wanted := k.termsOf(text)
	for i := range res.Sources {
		s := &res.Sources[i]
		found.Hits[i] = Hit{
			Ref: Ref{s.Knowledge, s.Doc, s.Chunk}, Name: s.Name, Section: s.Section, Score: s.Relevance,
			Snippet: strings.Join(strings.Fields(k.window(withoutHeadings(s.Text), wanted, snippetBytes)), " "),
		}
	}
	return found, err
}

// withoutHeadings returns a text from behind the headings at its beginning, which name and section
// of a hit have; all of it where nothing else stands there.
func withoutHeadings(text string) string {
	for rest := text; ; {
		line, more, ok := strings.Cut(rest, "\n")
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return rest
		}
		if rest = more; !ok {
			return text
		}
	}
}

// search asks for what change makes of the caller's settings. A model asks by itself: nothing of
// a conversation joins its question, and nobody plans for it.
func (k *Knowledge) search(ctx context.Context, as retrieval.Query, text string, change func(*retrieval.Settings)) (retrieval.Result, error) {
	as.Text, as.Previous, as.Planning = text, nil, nil
	change(&as.Settings)
	as.Settings.NumCandidates = max(as.Settings.NumCandidates, as.Settings.TopK)
	res, err := k.Retriever.Retrieve(ctx, as)
	if err != nil {
		return res, fmt.Errorf("search: %w", err)
	}
	return res, nil
}

// termsOf returns the different terms of a text.
func (k *Knowledge) termsOf(text string) map[string]bool {
	terms := map[string]bool{}
	for _, term := range k.Terms(text) {
		terms[term] = true
	}
	return terms
}
