package main

import (
	"fmt"
	"strings"

	"sidenote/cmd/internal/console"
	"sidenote/cmd/sidenote/internal/engine"
	"sidenote/retrieval/knowledge/folder"
)

// indexedLines are the lines of serve about a base that was read.
func indexedLines(i engine.Indexed) string {
	if i.Line != "" {
		return "knowledge  " + i.Line
	}
	line := fmt.Sprintf("knowledge  %s: %s, %s, lexical only (no embeddings)", i.ID, console.Plural(i.Report.Files, "file"), console.Plural(i.Report.Chunks, "chunk"))
	line = fmt.Sprintf("%-80s  %.1f s", line, i.Took.Seconds())
	lines := []string{line}
	if skipped := i.Report.Summary(); skipped != "" {
		lines = append(lines, skipped)
	}
	return strings.Join(append(lines, unread(i.Report)...), "\n           ")
}

// maxUnread is how many files unread names.
const maxUnread = 10

// unread names the files that should have been read and could not be, or only in part, with
// the reason. Files that are skipped on purpose are not among them.
func unread(r folder.Report) (lines []string) {
	n := 0
	for _, skip := range r.Skipped {
		if !unreadKind(skip.Kind) {
			continue
		}
		if n++; n <= maxUnread {
			lines = append(lines, console.Clean(skip.Path+": "+skip.Reason))
		}
	}
	if n > maxUnread {
		lines = append(lines, fmt.Sprintf("and %d more", n-maxUnread))
	}
	return lines
}

// unreadKind tells whether a file that was skipped for that reason should have been read.
// The kinds that are skipped on purpose are listed, so that a new kind counts as a failure.
func unreadKind(kind folder.SkipKind) bool {
	switch kind {
	case folder.SkipUnsupported, folder.SkipSecret, folder.SkipHidden, folder.SkipVendored, folder.SkipLink,
		folder.SkipAttributes:
		return false
	}
	return true
}
