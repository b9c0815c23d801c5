package screen

import (
	"fmt"
	"io"
	"strings"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/retrieval/knowledge/folder"
)

// FileLine describes what happened to a file; both parts are untrusted and cleaned.
func FileLine(path, reason string) string {
	return terminal.Clean(path) + ": " + terminal.Clean(reason)
}

// Files prints what happened to files, a line each, at most the given number; 0 means all.
func Files(w io.Writer, what string, lines []string, most int) {
	rest := 0
	if most > 0 && len(lines) > most {
		lines, rest = lines[:most], len(lines)-most
	}
	for _, line := range lines {
		fmt.Fprintf(w, "  %-8s %s\n", what, line)
	}
	if rest > 0 {
		fmt.Fprintf(w, "  %-8s and %s more\n", what, terminal.Thousands(rest))
	}
}

// IndexedLines returns the lines of serve about a base that was read.
func IndexedLines(i server.Indexed) string {
	if i.Line != "" {
		return "knowledge  " + i.Line
	}
	means := "lexical only (no embeddings)"
	if i.Model != "" {
		means = "embedded by " + i.Model
	}
	line := fmt.Sprintf("knowledge  %s: %s, %s, %s", i.ID, terminal.Plural(i.Report.Files, "file"), terminal.Plural(i.Report.Chunks, "chunk"), means)
	line = fmt.Sprintf("%-80s  %.1f s", line, i.Took.Seconds())
	lines := []string{line}
	for n, text := range i.Report.SkippedLines() {
		if n == 0 {
			text = "skipped " + text
		} else {
			text = "        " + text
		}
		lines = append(lines, text)
	}
	return strings.Join(append(lines, Unread(i.Report)...), "\n           ")
}

// MaxUnread limits the files that Unread names.
const MaxUnread = 10

// Unread names the files that should have been read but could not be, or only in part, with the
// reason. It leaves out files skipped on purpose.
func Unread(r folder.Report) (lines []string) {
	n := 0
	for _, skip := range r.Skipped {
		if skip.Kind.OnPurpose() {
			continue
		}
		if n++; n <= MaxUnread {
			lines = append(lines, terminal.Clean(skip.Path+": "+skip.Reason))
		}
	}
	if n > MaxUnread {
		lines = append(lines, fmt.Sprintf("and %d more", n-MaxUnread))
	}
	return lines
}
