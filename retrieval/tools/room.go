package tools

import (
	"errors"
	"fmt"
)

// ErrNoRoom is the error of a CallResult that does not fit into the caller's token budget.
var ErrNoRoom = errors.New("no room is left for results in this conversation")

// fits reports whether a content fits into the caller's token budget.
func (c *Caller) fits(content string) bool {
	if c.MaxTokens == 0 {
		return true
	}
	n, _ := c.Counter.Count(content)
	return n <= c.MaxTokens
}

// most returns the content for the largest number of items, up to n, that fits; ErrNoRoom if not
// even one item fits.
func (c *Caller) most(n int, content func(n int) string) (string, error) {
	for least := min(n, 1); n >= least; n-- {
		if text := content(n); c.fits(text) {
			return text, nil
		}
	}
	return "", ErrNoRoom
}

// reading returns the text of sources for a model. If the list of missing and cut references does
// not fit, their number is given instead.
func (c *Caller) reading(r Reading) string {
	blocks := c.Policy.SourceBlocks(r.Sources, c.FirstID)
	whole, short := blocks, blocks
	for _, of := range []struct {
		what string
		refs []Ref
	}{{"Not found", r.Missing}, {"Cut to fit", r.Cut}} {
		for _, ref := range of.refs {
			whole += of.what + ": " + c.line(ref.String()) + "\n"
		}
		if n := len(of.refs); n > 0 {
			short += fmt.Sprintf("%s: %d of the refs\n", of.what, n)
		}
	}
	if c.fits(whole) {
		return whole
	}
	return short
}
