package rewrite

import (
	"context"
	"fmt"

	"sidenote/rewrite/tokens"
)

// Debug tells whether each rewrite is counted anew.
const Debug = debug

// OneOfMany gives a Rewriter that serves one request a small cache of counts in place
// of a megabyte.
func OneOfMany(rw *Rewriter) *Rewriter {
	rw.costs.once.Do(func() { rw.costs.cache = tokens.NewCache(4) })
	return rw
}

// Recounted rewrites a request and counts the whole result anew.
func (rw *Rewriter) Recounted(ctx context.Context, p Policy, req *Request) (Result, error) {
	res := rw.Rewrite(ctx, p, req, Options{})
	return res, rw.recount(&job{policy: p, req: req, model: rw.Models.Model(req.Model)}, &res)
}

// The functions that look for the end of a string.
var (
	Inside      = inside
	InsideWords = insideWords
)

// The marks that they return.
const (
	MarkEscape = markEscape
	MarkWide   = markWide
	MarkTag    = markTag
)

// Marks are what stands in the text of strings.
type Marks = marks

// Outline returns what is known of each message: role, kind, content, and its text.
func (r *Request) Outline() (lines []string) {
	for _, m := range r.messages {
		lines = append(lines, fmt.Sprint(m.role, m.kind, string(m.content.of(r.Body)), m.last > 0, m.parts.end-m.parts.start))
	}
	for _, s := range r.spans {
		lines = append(lines, string(s.of(r.Body)))
	}
	return lines
}

// Question returns the first message's text as the search gets it; with whole, all of
// it is decoded.
func (r *Request) Question() (text, whole string) {
	return r.clipped(&r.messages[0]), clip(r.text(&r.messages[0]))
}

// AppTags returns the number of our tags in the messages.
func (r *Request) AppTags() int { return r.appTags() }

// Everything returns all that is known of a request.
func (r *Request) Everything() string { return fmt.Sprintf("%+v", *r) }
