package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// variables are what {env: NAME, default: x} in the place of a scalar is read from.
type variables struct {
	lookup func(name string) (string, bool)
	refuse func(key string) // reports the use of a variable; nil where the file may use them
}

// variablesOf returns the variables of a file. An included file may only use them where it
// may read secrets, because the environment holds these.
func (c delegation) variablesOf(file string) variables {
	v := variables{lookup: c.env}
	if !c.allows(file, maySecrets) {
		v.refuse = func(key string) { c.forbidden(key, maySecrets, "is not for an included file to read") }
	}
	return v
}

// isVariable tells whether a node is meant as a variable.
func isVariable(n ast.Node) bool {
	m, ok := n.(ast.MapNode)
	if !ok {
		return false
	}
	for it := m.MapRange(); it.Next(); {
		if word, _ := scalarText(it.Key()); word == "env" || word == "default" {
			return true
		}
	}
	return false
}

// variable returns the text that {env: NAME, default: x} stands for, and describes where it
// is from. It reports a map that is none or stands for nothing.
func (d *decoder) variable(key string, n ast.Node) (text, from string, ok bool) {
	before := len(*d.problems)
	var name, fallback string
	d.entries(key, n, func(word string, wordNode, val ast.Node) {
		at := join(key, word)
		if word != "env" && word != "default" {
			d.problem(wordNode, at, "unknown key; here stands one value, or {env: NAME, default: VALUE}")
			return
		}
		if !d.readable(at, val) {
			return
		}
		text, scalar := scalarText(val)
		switch {
		case !scalar:
			d.problem(val, at, "is a %s; it wants one value", shape(val))
		case word == "env":
			name = text
		default:
			fallback = text
		}
	})
	if len(*d.problems) > before {
		return "", "", false
	}
	if name == "" {
		d.problem(n, join(key, "env"), "is missing")
		return "", "", false
	}
	if d.variables.refuse != nil {
		d.variables.refuse(join(key, "env"))
		return "", "", false
	}
	m := d.places[key]
	m.env = name
	d.places[key] = m
	if value, set := d.variables.lookup(name); set && strings.TrimSpace(value) != "" {
		return strings.TrimSpace(value), "the value of env " + name, true
	}
	if fallback == "" {
		d.problem(n, key, "%s is not set in the environment, and there is no default", name)
		return "", "", false
	}
	return fallback, fmt.Sprintf("%q, the default of env %s,", fallback, name), true
}

// sourced says in a problem of a value where that is from. What the environment holds may be
// a secret that was named by mistake, so it is not repeated.
func sourced(reason, text, from string) string {
	if from == "" {
		return reason
	}
	for _, value := range []string{strconv.Quote(text), text} {
		if rest, cut := strings.CutPrefix(reason, value); cut {
			return from + rest
		}
	}
	if strings.Contains(reason, text) {
		return from + " is refused"
	}
	return from + ": " + reason
}

// Written returns where the value of a key stands, and the variable that it was read from,
// if any; false where nobody wrote it.
func Written(c *Config, key string) (at Place, env string, ok bool) {
	m, ok := c.places[key]
	return m.Place, m.env, ok
}

// text is the scalar at a mark, as it was written.
func (m mark) text() string {
	text, _ := scalarText(m.node)
	return text
}
