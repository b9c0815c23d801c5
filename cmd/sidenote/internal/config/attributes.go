package config

import (
	"encoding/json"

	"github.com/goccy/go-yaml/ast"
)

// Attributes are those that all documents of a base have: strings, numbers, true and
// false, and lists of strings.
type Attributes map[string]any

// attributes reads a map of them and notes where each stands.
func (d *decoder) attributes(key string, n ast.Node, to *Attributes) {
	if _, isMap := n.(ast.MapNode); !isMap {
		d.problem(n, key, "is a %s; it wants a map such as {audience: staff}", shape(n))
		return
	}
	before := len(*d.problems)
	text := d.json(key, n)
	if len(*d.problems) > before {
		return
	}
	if err := json.Unmarshal(text, (*map[string]any)(to)); err != nil {
		panic("BUG: what was checked is no JSON: " + err.Error())
	}
}
