package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"sidenote/cmd/internal/console"
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
