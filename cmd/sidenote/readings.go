package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"sidenote/cmd/internal/console"
	"sidenote/cmd/sidenote/internal/engine"
	"sidenote/retrieval/knowledge/folder"
)

// An ingestAnswer is what --json prints.
type ingestAnswer struct {
	Object    string     `json:"object"` // "ingest"
	State     string     `json:"state"`
	Knowledge []ingested `json:"knowledge"`
	Unread    int        `json:"unread"` // files that should have been read and could not be
}

// print prints the report of all bases.
func (r *ingestion) print(asJSON bool) error {
	if asJSON {
		return printJSON(r.a.stdout, ingestAnswer{Object: "ingest", State: r.cfg.State.Path, Knowledge: append([]ingested{}, r.done...), Unread: r.unread()})
	}
	most := 0 // a report that goes to a file is whole
	if console.IsTerminal(r.a.stdout) {
		most = maxUnread
	}
	for _, done := range r.done {
		done.print(r.a.stdout, most)
	}
	return nil
}

// print prints the report of one base, with at most so many files in each list; 0 prints
// all.
func (i ingested) print(w io.Writer, most int) {
	took := time.Duration(i.TookMS * float64(time.Millisecond))
	fmt.Fprintf(w, "%s: %s, %s; %s new, %s changed, %s unchanged, %s removed (%.1f s)\n", i.ID, console.Plural(i.Files, "file"), console.Plural(i.Chunks, "chunk"),
		console.Thousands(i.New), console.Thousands(i.Changed), console.Thousands(i.Unchanged), console.Thousands(i.Removed), took.Seconds())
	why := map[string]string{}
	for _, s := range i.Skipped {
		why[s.Path] = s.Reason
	}
	var removed []string
	for _, id := range i.RemovedDocuments {
		reason, skipped := why[id]
		if !skipped {
			reason = "no longer among the files"
		}
		removed = append(removed, fileLine(id, reason))
	}
	list(w, "removed", removed, most)
	var unread, others []string
	for _, s := range i.Skipped {
		line := fileLine(s.Path, s.Reason)
		if unreadKind(folder.SkipKind(s.Kind)) {
			unread = append(unread, line)
		} else {
			others = append(others, line)
		}
	}
	list(w, "unread", unread, most)
	list(w, "skipped", others, most)
	var notes []string
	for _, n := range i.Notes {
		notes = append(notes, fileLine(n.Document, n.Reason))
	}
	list(w, "noted", notes, most)
}

// fileLine is what happened to one file; neither part is ours, so both are cleaned.
func fileLine(path, reason string) string { return console.Clean(path) + ": " + console.Clean(reason) }

// list prints what happened to some files, a line each.
func list(w io.Writer, what string, lines []string, most int) {
	rest := 0
	if most > 0 && len(lines) > most {
		lines, rest = lines[:most], len(lines)-most
	}
	for _, line := range lines {
		fmt.Fprintf(w, "  %-8s %s\n", what, line)
	}
	if rest > 0 {
		fmt.Fprintf(w, "  %-8s and %s more\n", what, console.Thousands(rest))
	}
}

// unread counts the files that should have been read and could not be.
func (r *ingestion) unread() (n int) {
	for _, done := range r.done {
		for _, skip := range done.Skipped {
			if unreadKind(folder.SkipKind(skip.Kind)) {
				n++
			}
		}
	}
	return n
}

// undone returns an error where files could not be read.
func (r *ingestion) undone() error {
	n := r.unread()
	if n == 0 {
		return nil
	}
	return partError{fmt.Errorf("done in part: %s could not be read; --allow-skipped takes that for done", console.Plural(n, "file"))}
}

// stopped returns the error of an ingest that was stopped, with what was done before.
func (r *ingestion) stopped() error {
	if r.reader != "" {
		return fmt.Errorf("stopped %s; the process at %s goes on reading", r.where, r.reader)
	}
	var names []string
	for _, folder := range r.pending {
		names = append(names, folder.ID)
	}
	return fmt.Errorf("stopped %s; what was read stays in %s, and the next ingest goes on from there (not done: %s)",
		r.where, r.cfg.State.Path, strings.Join(names, ", "))
}

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
	case folder.SkipUnsupported, folder.SkipSecret, folder.SkipHidden, folder.SkipVendored, folder.SkipGenerated, folder.SkipLink,
		folder.SkipAttributes:
		return false
	}
	return true
}
