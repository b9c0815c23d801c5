// Package cmdline writes the grammar of the command line as shell completions and as man pages.
package cmdline

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"
)

//go:embed completion.*
var scripts embed.FS

// Shells returns the shells that Completion knows.
func Shells() []string { return []string{"bash", "zsh", "fish"} }

// A command is a node of the grammar as the scripts take it.
type command struct {
	Path  string // "/knowledge/create", "" for the program itself
	Subs  []word
	Flags []word
}

// A word is a name that may be completed, with its description.
type word struct {
	Name, Help string
	Takes      bool     // a flag that takes a value
	Values     []string // all values; nil: any, or a file
}

// Completion writes the completion script of one of the Shells.
func Completion(w io.Writer, app *kong.Application, shell string) error {
	if !slices.Contains(Shells(), shell) {
		return fmt.Errorf("%q is no shell that is known; write %s", shell, strings.Join(Shells(), ", "))
	}
	script, err := template.New("completion."+shell).Funcs(template.FuncMap{
		"quote": func(s string) string { return strings.ReplaceAll(s, "'", `'\''`) },
		"fish":  func(s string) string { return strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) },
		"join":  strings.Join,
	}).ParseFS(scripts, "completion."+shell)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	commands := commandsOf(app.Node, "", nil)
	return script.Execute(w, map[string]any{"Name": app.Name, "Commands": commands})
}

// commandsOf returns a node and those below it. The flags of the nodes above are also theirs.
func commandsOf(n *kong.Node, path string, above []*kong.Flag) (all []command) {
	flags := slices.Concat(n.Flags, above)
	c := command{Path: path}
	for _, f := range flags {
		if !f.Hidden {
			one := word{Name: f.Name, Help: firstLine(f.Help), Takes: !f.IsBool()}
			if f.Enum != "" {
				one.Values = f.EnumSlice()
			}
			c.Flags = append(c.Flags, one)
		}
	}
	for _, p := range n.Positional {
		if p.Enum != "" {
			for _, value := range p.EnumSlice() {
				c.Subs = append(c.Subs, word{Name: value})
			}
		}
	}
	var below []command
	for _, child := range n.Children {
		if !child.Hidden && child.Type == kong.CommandNode {
			c.Subs = append(c.Subs, word{Name: child.Name, Help: firstLine(child.Help)})
			below = append(below, commandsOf(child, path+"/"+child.Name, flags)...)
		}
	}
	return append([]command{c}, below...)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
