// Package tools holds the tools that a model can call: it searches knowledge bases, reads around
// what was found, finds files and recalls passages. It decodes the arguments that models write, as
// JSON or XML, and encodes the results for them.
//
// All tools act for a caller: their Query has the tenant, the bases, the filter, the settings and
// the encoding of the caller's policy. What the caller may not see is reported in the same words
// as what does not exist.
package tools

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sidenote/retrieval"
)

// Knowledge runs the searches of tools. All fields are required; it is safe for concurrent use.
type Knowledge struct {
	Retriever retrieval.Retriever // the same as for requests
	Reader    retrieval.Reader
	Terms     func(text string) []string // content terms of a text, by the analyser of the bases
}

// A Ref names a chunk.
type Ref struct {
	Knowledge, Doc string
	Chunk          int
}

// String returns "kb:doc:chunk".
func (r Ref) String() string { return r.Knowledge + ":" + r.Doc + ":" + strconv.Itoa(r.Chunk) }

// errRef says what a reference looks like.
var errRef = errors.New(`a reference is "kb:doc:chunk", as a search gives it`)

// ParseRef parses what Ref.String returns. A document id may contain colons.
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

// A Hit is a chunk found by a search.
type Hit struct {
	Ref
	Name, Section string
	Date          string  // if it is one of several versions of a document
	Snippet       string  // the sentences of its text that match the question best
	Score         float64 // retrieval.Relevance, from 0 to 1, comparable between bases
}

// A SearchResult is the result of a search.
type SearchResult struct {
	Hits    []Hit            // best first
	Reason  retrieval.Reason // why it is empty or incomplete
	Partial bool             // a base was late or failed
}

// snippetBytes is the maximum length of a snippet.
const snippetBytes = 320

// Search returns up to topK chunks; topK is at least 1. as is the caller's query, without a text.
func (k *Knowledge) Search(ctx context.Context, as retrieval.Query, text string, topK int) (SearchResult, error) {
	res, err := k.search(ctx, as, text, func(s *retrieval.Settings) { s.TopK = topK })
	found := SearchResult{Hits: make([]Hit, len(res.Sources)), Reason: res.Reason, Partial: res.Partial}
	wanted := k.termsOf(text)
	for i := range res.Sources {
		s := &res.Sources[i]
		found.Hits[i] = Hit{
			Ref: Ref{s.Knowledge, s.Doc, s.Chunk}, Name: s.Name, Section: s.Section, Date: s.Date, Score: s.Relevance,
			Snippet: strings.Join(strings.Fields(k.window(withoutHeadings(s.Text), wanted, snippetBytes)), " "),
		}
	}
	return found, err
}

// withoutHeadings removes the headings at the beginning of a text, which Name and Section of a hit
// repeat; it returns a text of nothing but headings unchanged.
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

// search searches with settings modified by change. Model queries are self-contained: no earlier
// turns join, and no planner runs.
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

// termsOf returns the distinct terms of a text.
func (k *Knowledge) termsOf(text string) map[string]bool {
	terms := map[string]bool{}
	for _, term := range k.Terms(text) {
		terms[term] = true
	}
	return terms
}
