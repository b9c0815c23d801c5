package tools

import (
	"errors"
	"fmt"
)

// ErrNoRoom is the Err of a Result for which the caller has no room.
var ErrNoRoom = errors.New("no room is left for results in this conversation")

// fits tells whether the caller has room for a content.
func (c *Caller) fits(content string) bool {
	if c.Room == 0 {
		return true
	}
	n, _ := c.Counter.Count(content)
	return n <= c.Room
}

// most returns the content with as many of n things as fit, the first of them; ErrNoRoom if that
// is none of them.
func (c *Caller) most(n int, content func(n int) string) (string, error) {
	for least := min(n, 1); n >= least; n-- {
		if text := content(n); c.fits(text) {
			return text, nil
		}
	}
	return "", ErrNoRoom
}

// reading is what a model reads of sources. Where the references that are not among them, or not
// whole, have no room, their number stands for them.
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
