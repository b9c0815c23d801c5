package config

import (
	"cmp"

	"github.com/goccy/go-yaml/ast"

	"sidenote/cmd/sidenote/internal/config/spelling"
)

// torn reports numbers that a comma has cut in two, and returns the nodes that are
// pieces of them: {a: 2,000} is {a: 2} and a key 000 without a value.
func (d *decoder) torn(key string, m ast.MapNode) map[ast.Node]bool {
	pieces := map[ast.Node]bool{}
	var name, text string
	var value ast.Node // that name has, if it may be the beginning of a number
	report := func() {
		if pieces[value] {
			write := cmp.Or(spelling.Ungrouped(text), "the number without one")
			d.problem(value, join(key, name), "%q has a comma, which ends a value within { }; write %s", text, write)
		}
	}
	for it := m.MapRange(); it.Next(); {
		word, _ := scalarText(it.Key())
		_, empty := it.Value().(*ast.NullNode)
		if value != nil && empty && beginsWithDigit(word) {
			text += "," + word
			pieces[value], pieces[it.Key()] = true, true
			continue
		}
		report()
		name, value = word, nil
		if text, _ = scalarText(it.Value()); beginsWithDigit(text) {
			value = it.Value()
		}
	}
	report()
	return pieces
}

func beginsWithDigit(text string) bool {
	return text != "" && text[0] >= '0' && text[0] <= '9'
}
