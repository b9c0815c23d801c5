package config

import (
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"sidenote/cmd/sidenote/internal/strictyaml"
)

// commandOff is the text that stands for no command.
const commandOff = "off"

// A command is a program and its arguments; nil is none.
type command []string

// DecodeYAML reads a list; a text is short for the list of its words.
func (c *command) DecodeYAML(d *strictyaml.Decoder, key string, n ast.Node) {
	if strictyaml.Shape(n) == "list" {
		d.List(key, n, reflect.ValueOf(c).Elem(), "")
		return
	}
	var text string
	d.Scalar(key, n, reflect.ValueOf(&text).Elem(), "")
	if *c = strings.Fields(text); text == commandOff {
		*c = nil
	}
}
