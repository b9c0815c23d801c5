package main

import (
	"embed"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"
)

//go:embed completion.bash completion.zsh completion.fish
var completionScripts embed.FS

// A completed is a node of the grammar as the scripts take it.
type completed struct {
	Path  string // "/knowledge/create", "" for the program itself
	Subs  []completion
	Flags []completion
}

// A completion is a name that may be completed, with its description.
type completion struct {
	Name, Help string
	Takes      bool     // a flag that takes a value
	Values     []string // all values; nil: any, or a file
}

// writeCompletion writes the completion script of a shell: bash, zsh or fish.
func writeCompletion(w io.Writer, app *kong.Application, shell string) error {
	script, err := template.New("completion."+shell).Funcs(template.FuncMap{
		"quote": func(s string) string { return strings.ReplaceAll(s, "'", `'\''`) },
		"fish":  func(s string) string { return strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) },
		"join":  strings.Join,
	}).ParseFS(completionScripts, "completion."+shell)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	commands := completedBy(app.Node, "", nil)
	return script.Execute(w, map[string]any{"Name": app.Name, "Commands": commands})
}

// completedBy returns a node and those below it. The flags of the nodes above are also theirs.
func completedBy(n *kong.Node, path string, above []*kong.Flag) (all []completed) {
	flags := slices.Concat(n.Flags, above)
	c := completed{Path: path}
	for _, f := range flags {
		if !f.Hidden {
			one := completion{Name: f.Name, Help: firstLine(f.Help), Takes: !f.IsBool()}
			if f.Enum != "" {
				one.Values = f.EnumSlice()
			}
			c.Flags = append(c.Flags, one)
		}
	}
	for _, p := range n.Positional {
		if p.Enum != "" {
			for _, value := range p.EnumSlice() {
				c.Subs = append(c.Subs, completion{Name: value})
			}
		}
	}
	var below []completed
	for _, child := range n.Children {
		if !child.Hidden && child.Type == kong.CommandNode {
			c.Subs = append(c.Subs, completion{Name: child.Name, Help: firstLine(child.Help)})
			below = append(below, completedBy(child, path+"/"+child.Name, flags)...)
		}
	}
	return append([]completed{c}, below...)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
