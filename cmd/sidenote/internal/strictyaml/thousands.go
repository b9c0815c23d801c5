package strictyaml

import (
	"cmp"

	"github.com/goccy/go-yaml/ast"
)

// torn reports numbers that a comma has split, and returns the nodes that are parts of them: {a:
// 2,000} is {a: 2} and a key 000 without a value.
func (d *Decoder) torn(key string, m ast.MapNode) map[ast.Node]bool {
	var pieces map[ast.Node]bool // nearly always nil
	var name, text string
	var value ast.Node // of name, if it may be the beginning of a number
	report := func() {
		if pieces[value] {
			write := cmp.Or(Ungrouped(text), "the number without one")
			d.Problem(value, Join(key, name), "%q has a comma, which ends a value within { }; write %s", text, write)
		}
	}
	for it := m.MapRange(); it.Next(); {
		word, _ := Text(it.Key())
		_, empty := it.Value().(*ast.NullNode)
		if value != nil && empty && BeginsWithDigit(word) {
			text += "," + word
			if pieces == nil {
				pieces = map[ast.Node]bool{}
			}
			pieces[value], pieces[it.Key()] = true, true
			continue
		}
		report()
		name, value = word, nil
		if text, _ = Text(it.Value()); BeginsWithDigit(text) {
			value = it.Value()
		}
	}
	report()
	return pieces
}
