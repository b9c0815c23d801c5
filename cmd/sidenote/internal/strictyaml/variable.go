package strictyaml

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Variables resolve {env: NAME, default: x} in place of a scalar.
type Variables struct {
	Lookup func(name string) (string, bool)
	Refuse func(key string) // reports the use of a variable; nil if the file may use them
}

// IsVariable reports whether a node is meant as a variable.
func IsVariable(n ast.Node) bool {
	m, ok := n.(ast.MapNode)
	if !ok {
		return false
	}
	for it := m.MapRange(); it.Next(); {
		if word, _ := Text(it.Key()); word == "env" || word == "default" {
			return true
		}
	}
	return false
}

// Variable returns the text that {env: NAME, default: x} stands for, and describes its source. It
// reports a map that is invalid or has no value.
func (d *Decoder) Variable(key string, n ast.Node) (text, from string, ok bool) {
	before := len(*d.Problems)
	var name, fallback string
	d.Entries(key, n, func(word string, wordNode, val ast.Node) {
		at := Join(key, word)
		if word != "env" && word != "default" {
			d.Problem(wordNode, at, "unknown key; here stands one value, or {env: NAME, default: VALUE}")
			return
		}
		if !d.Readable(at, val) {
			return
		}
		text, scalar := Text(val)
		switch {
		case !scalar:
			d.Problem(val, at, "expected one value, got a %s", Shape(val))
		case word == "env":
			name = text
		default:
			fallback = text
		}
	})
	if len(*d.Problems) > before {
		return "", "", false
	}
	if name == "" {
		d.Problem(n, Join(key, "env"), "is missing")
		return "", "", false
	}
	if d.Variables.Refuse != nil {
		d.Variables.Refuse(Join(key, "env"))
		return "", "", false
	}
	m := d.Marks[key]
	m.Env = name
	d.Marks[key] = m
	if value, set := d.Variables.Lookup(name); set && strings.TrimSpace(value) != "" {
		return strings.TrimSpace(value), "the value of env " + name, true
	}
	if fallback == "" {
		d.Problem(n, key, "%s is not set in the environment, and there is no default", name)
		return "", "", false
	}
	return fallback, fmt.Sprintf("%q, the default of env %s,", fallback, name), true
}
