package price

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNone: no row of the table has a price for a model. It is for the policy to refuse the
// request, or to take a price that its owner states.
var ErrNone = errors.New("no price")

// A Row has the prices of the models that a pattern matches: a name, or a prefix that ends
// in '*'. Letter case does not count.
type Row struct {
	Match string
	Prices
}

// A Table has the prices of models; the first row that matches counts. Nil has none: prices
// change, so none are built in.
type Table []Row

// Of returns the prices of a model, or an error that wraps ErrNone and names it. A model may
// have several names, such as those with and without its vendor's: the first that any row
// matches counts.
func (t Table) Of(names ...string) (Prices, error) {
	if p, ok := t.Find(names...); ok {
		return p, nil
	}
	shown := ""
	if len(names) > 0 {
		shown = names[0]
	}
	return Prices{}, fmt.Errorf("model %.128q: %w", shown, ErrNone)
}

// Find is Of for those who can do without a price: ok is false if there is none.
func (t Table) Find(names ...string) (p Prices, ok bool) {
	for _, name := range names {
		for i := range t {
			if t[i].matches(name) {
				return t[i].Prices, true
			}
		}
	}
	return Prices{}, false
}

func (r *Row) matches(name string) bool {
	prefix, open := strings.CutSuffix(r.Match, "*")
	return len(name) >= len(prefix) && (open || len(name) == len(prefix)) && strings.EqualFold(name[:len(prefix)], prefix)
}
