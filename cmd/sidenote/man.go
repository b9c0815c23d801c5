package main

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// manPages returns a page of section 1 for the program and for each command, by the name of its
// file, as "sidenote-usage.1". They hold no date, so that the same program has the same pages.
// The macros are those of man(7).
func manPages(app *kong.Application, version string) map[string][]byte {
	pages := map[string][]byte{}
	addManPages(pages, app, app.Node, version)
	return pages
}

func addManPages(to map[string][]byte, app *kong.Application, n *kong.Node, version string) {
	name := manPageName(app, n)
	to[name+".1"] = manPage(app, n, name, version)
	for _, child := range n.Children {
		if !child.Hidden {
			addManPages(to, app, child, version)
		}
	}
}

// manPageName returns the name of a command's page: "sidenote-knowledge-create".
func manPageName(app *kong.Application, n *kong.Node) string {
	if n.Parent == nil {
		return app.Name
	}
	return manPageName(app, n.Parent) + "-" + n.Name
}

func manPage(app *kong.Application, n *kong.Node, name, version string) []byte {
	summary, description, _ := strings.Cut(n.Help, "\n\n")
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"%s %s\" \"%s\"\n", strings.ToUpper(roff(name)), app.Name, roff(version), app.Name)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(strings.TrimSuffix(summary, ".")))
	usage := n.Summary()
	if n.Parent == nil {
		usage = "<command> [flags]"
	}
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s %s\n", app.Name, roff(usage))
	if text := cmp.Or(n.Detail, description, summary); text != "" {
		b.WriteString(".SH DESCRIPTION\n")
		for i, paragraph := range strings.Split(text, "\n\n") {
			if i > 0 {
				b.WriteString(".PP\n")
			}
			fmt.Fprintln(&b, roffLines(paragraph))
		}
	}
	manCommands(&b, n, name)
	manOptions(&b, app, n)
	if n.Parent == nil {
		b.WriteString(".SH EXIT STATUS\n.TP\n.B 0\ndone\n.TP\n.B 1\nfailed\n.TP\n.B 2\nwrong usage or configuration\n.TP\n.B 3\npartly done\n")
		return b.Bytes()
	}
	fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff(manPageName(app, n.Parent)))
	return b.Bytes()
}

// manCommands lists the commands below a command.
func manCommands(b *bytes.Buffer, n *kong.Node, name string) {
	for i, child := range n.Children {
		if i == 0 {
			b.WriteString(".SH COMMANDS\n")
		}
		if !child.Hidden {
			fmt.Fprintf(b, ".TP\n.BR %s (1)\n%s\n", roff(name+"-"+child.Name), roffLines(child.Help))
		}
	}
}

// manOptions lists the arguments and flags of a command, and the flags of all commands.
func manOptions(b *bytes.Buffer, app *kong.Application, n *kong.Node) {
	b.WriteString(".SH OPTIONS\n")
	for _, p := range n.Positional {
		fmt.Fprintf(b, ".TP\n.I %s\n%s\n", roff(p.Summary()), roffLines(p.Help))
	}
	flags := n.Flags
	if n.Parent != nil {
		flags = append(flags[:len(flags):len(flags)], app.Flags...)
	}
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		head := `\fB` + roff("--"+f.Name) + `\fR`
		if f.Short != 0 {
			head = `\fB` + roff("-"+string(f.Short)) + `\fR, ` + head
		}
		if !f.IsBool() {
			head += `=\fI` + roff(f.FormatPlaceHolder()) + `\fR`
		}
		fmt.Fprintf(b, ".TP\n%s\n%s\n", head, roffLines(f.Help))
	}
}

// roff writes text so that roff prints it as it is.
func roff(s string) string {
	return strings.NewReplacer(`\`, `\e`, `-`, `\-`, `"`, `\(dq`, "\n", " ").Replace(s)
}

// roffLines escapes text line by line: one that begins with a dot or a quote would be a request.
func roffLines(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		line = roff(strings.TrimSpace(line))
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n.br\n")
}
