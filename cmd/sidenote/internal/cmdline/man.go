package cmdline

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// ManPages returns a page of section 1 for the program and for each command, by the name of its
// file, as "sidenote-usage.1". They hold no date, so that the same program has the same pages.
// The macros are those of man(7).
func ManPages(app *kong.Application, version string) map[string][]byte {
	pages := map[string][]byte{}
	addPages(pages, app, app.Node, version)
	return pages
}

func addPages(to map[string][]byte, app *kong.Application, n *kong.Node, version string) {
	name := pageName(app, n)
	to[name+".1"] = page(app, n, name, version)
	for _, child := range n.Children {
		if !child.Hidden {
			addPages(to, app, child, version)
		}
	}
}

// pageName returns the name of a command's page: "sidenote-knowledge-create".
func pageName(app *kong.Application, n *kong.Node) string {
	if n.Parent == nil {
		return app.Name
	}
	return pageName(app, n.Parent) + "-" + n.Name
}

func page(app *kong.Application, n *kong.Node, name, version string) []byte {
	summary, description, _ := strings.Cut(n.Help, "\n\n")
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"%s %s\" \"%s\"\n", strings.ToUpper(escape(name)), app.Name, escape(version), app.Name)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(name), escape(strings.TrimSuffix(summary, ".")))
	usage := n.Summary()
	if n.Parent == nil {
		usage = "<command> [flags]"
	}
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s %s\n", app.Name, escape(usage))
	if text := cmp.Or(n.Detail, description, summary); text != "" {
		b.WriteString(".SH DESCRIPTION\n")
		for i, paragraph := range strings.Split(text, "\n\n") {
			if i > 0 {
				b.WriteString(".PP\n")
			}
			fmt.Fprintln(&b, lines(paragraph))
		}
	}
	commands(&b, n, name)
	options(&b, app, n)
	if n.Parent == nil {
		b.WriteString(".SH EXIT STATUS\n.TP\n.B 0\ndone\n.TP\n.B 1\nfailed\n.TP\n.B 2\nwrong usage or configuration\n.TP\n.B 3\npartly done\n")
		return b.Bytes()
	}
	fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", escape(pageName(app, n.Parent)))
	return b.Bytes()
}

// commands lists the commands below a command.
func commands(b *bytes.Buffer, n *kong.Node, name string) {
	for i, child := range n.Children {
		if i == 0 {
			b.WriteString(".SH COMMANDS\n")
		}
		if !child.Hidden {
			fmt.Fprintf(b, ".TP\n.BR %s (1)\n%s\n", escape(name+"-"+child.Name), lines(child.Help))
		}
	}
}

// options lists the arguments and flags of a command, and the flags of all commands.
func options(b *bytes.Buffer, app *kong.Application, n *kong.Node) {
	b.WriteString(".SH OPTIONS\n")
	for _, p := range n.Positional {
		fmt.Fprintf(b, ".TP\n.I %s\n%s\n", escape(p.Summary()), lines(p.Help))
	}
	flags := n.Flags
	if n.Parent != nil {
		flags = append(flags[:len(flags):len(flags)], app.Flags...)
	}
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		head := `\fB` + escape("--"+f.Name) + `\fR`
		if f.Short != 0 {
			head = `\fB` + escape("-"+string(f.Short)) + `\fR, ` + head
		}
		if !f.IsBool() {
			head += `=\fI` + escape(f.FormatPlaceHolder()) + `\fR`
		}
		fmt.Fprintf(b, ".TP\n%s\n%s\n", head, lines(f.Help))
	}
}

// escape writes text so that roff prints it as it is.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\e`, `-`, `\-`, `"`, `\(dq`, "\n", " ").Replace(s)
}

// lines escapes text line by line: one that begins with a dot or a quote would be a request.
func lines(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		line = escape(strings.TrimSpace(line))
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n.br\n")
}
