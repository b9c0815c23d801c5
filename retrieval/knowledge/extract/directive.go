package extract

import (
	"regexp"
	"strings"
)

// explicit writes a directive or a footnote; other explicit markup, such as targets and comments,
// is left out.
func (w *writer) explicit(lines []string, prefix string, depth int) int {
	inner, more := indented(lines[1:])
	first := strings.TrimSpace(strings.TrimPrefix(lines[0], ".."))
	if note, text, ok := strings.Cut(first, "] "); ok && strings.HasPrefix(note, "[") {
		w.line(prefix, inline(note+"] "+text))
		w.body(inner, prefix, depth+1)
		return 1 + more
	}
	name, argument, ok := strings.Cut(first, "::")
	if !ok || !directiveName(name) {
		return 1 + more
	}
	w.directive(name, strings.TrimSpace(argument), inner, prefix, depth)
	return 1 + more
}

// directiveName reports whether a name can be that of a directive.
func directiveName(name string) bool {
	return name != "" && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_:.+") == ""
}

// directive writes the content of a directive. An unknown one is treated as the description of its
// argument, such as a function.
func (w *writer) directive(name, argument string, inner []string, prefix string, depth int) {
	arguments, body := []string{argument}, inner
	for len(body) > 0 && body[0] != "" && !strings.HasPrefix(body[0], ":") && argument != "" {
		arguments, body = append(arguments, strings.TrimSpace(body[0])), body[1:]
	}
	for len(body) > 0 && strings.HasPrefix(body[0], ":") { // options
		body = body[1:]
	}
	switch name {
	case "toctree", "contents", "image", "index", "include", "raw", "meta", "highlight", "currentmodule", "module", "py:module", "py:currentmodule",
		"sectionauthor", "moduleauthor", "codeauthor", "testsetup", "testcleanup", "rst-class", "tabularcolumns", "default-role", "role",
		"literalinclude", "program", "audit-event", "replace", "class-only":
		return
	case "code", "code-block", "sourcecode", "parsed-literal", "doctest", "testcode", "testoutput", "productionlist", "math", "prompt":
		lang := argument
		if !isLanguage(lang) {
			lang = ""
		}
		w.listing(lang, body, prefix)
		return
	case "only", "ifconfig", "container", "figure", "epigraph", "list-table", "csv-table", "table", "impl-detail", "tab-set":
		arguments = nil
	case "versionadded", "versionchanged", "deprecated", "deprecated-removed", "versionremoved":
		arguments[0] = changes(name) + " " + argument + ":"
	case "note", "warning", "tip", "important", "caution", "danger", "error", "hint", "attention", "seealso":
		label := strings.ToUpper(name[:1]) + name[1:]
		if name == "seealso" {
			label = "See also"
		}
		arguments = append([]string{label + ":"}, arguments...)
	}
	w.gap()
	for _, a := range arguments {
		if a != "" {
			w.line(prefix, markdownLiteral(inline(a)))
		}
	}
	for len(arguments) > 0 && len(body) > 0 && body[0] == "" {
		body = body[1:] // a definition directly follows its term
	}
	w.body(body, prefix, depth+1)
	w.gap()
}

// changes returns the text for a version change directive.
func changes(name string) string {
	switch name {
	case "versionadded":
		return "New in version"
	case "versionchanged":
		return "Changed in version"
	case "versionremoved":
		return "Removed in version"
	}
	return "Deprecated since version"
}

// inline removes the markup of a line: literals become code, roles and references become their
// text.
func inline(line string) string {
	if !strings.ContainsAny(line, "`\\") {
		return line
	}
	line = literalPattern.ReplaceAllString(line, "\x00$1\x00")
	line = rolePattern.ReplaceAllStringFunc(line, func(s string) string {
		role, text, _ := strings.Cut(strings.TrimRight(s, "_"), "`")
		text = strings.TrimSuffix(text, "`")
		if i := strings.LastIndex(text, " <"); i > 0 && strings.HasSuffix(text, ">") {
			text = text[:i]
		}
		text = strings.TrimLeft(text, "~!")
		if role != "" {
			return "\x00" + text + "\x00"
		}
		return text
	})
	return strings.ReplaceAll(line, "\x00", "`")
}

var (
	literalPattern = regexp.MustCompile("``([^\x00]+?)``")
	rolePattern    = regexp.MustCompile("(?::[A-Za-z0-9:+.-]+:)?`[^`\x00]+`_{0,2}")
)
