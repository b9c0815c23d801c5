package rewrite

import (
	"context"
	"fmt"

	"sidenote/rewrite/tokens"
)

// Debug tells whether each rewrite is recounted.
const Debug = debug

// OneOfMany gives a Rewriter that lives for one request a memory of costs for as much,
// not of a megabyte.
func OneOfMany(rw *Rewriter) *Rewriter {
	rw.costs.once.Do(func() { rw.costs.cache = tokens.NewCache(4) })
	return rw
}

// Recounted rewrites a request and counts anew, whole, what became of it.
func (rw *Rewriter) Recounted(ctx context.Context, p Policy, req *Request) (Result, error) {
	res := rw.Rewrite(ctx, p, req, Options{})
	return res, rw.recount(&job{policy: p, req: req, model: rw.Models.Model(req.Model)}, &res)
}

// What looks for the end of a string.
var (
	Inside      = inside
	InsideWords = insideWords
)

// What it sees in a text.
const (
	MarkEscape = markEscape
	MarkWide   = markWide
	MarkTag    = markTag
)

// Marks are what stands in the text of strings.
type Marks = marks

// Outline is what is known of each message: role, kind, content, and its text.
func (r *Request) Outline() (lines []string) {
	for _, m := range r.messages {
		lines = append(lines, fmt.Sprint(m.role, m.kind, string(m.content.of(r.Body)), m.last > 0, m.parts.end-m.parts.start))
	}
	for _, s := range r.spans {
		lines = append(lines, string(s.of(r.Body)))
	}
	return lines
}

// Question is the first message's text as it is searched with; whole decodes all of
// it.
func (r *Request) Question() (text, whole string) {
	return r.clipped(&r.messages[0]), clip(r.text(&r.messages[0]))
}

// AppTags is how many tags of ours stand in the messages already.
func (r *Request) AppTags() int { return r.appTags() }

// Everything is all that is known of a request.
func (r *Request) Everything() string { return fmt.Sprintf("%+v", *r) }
