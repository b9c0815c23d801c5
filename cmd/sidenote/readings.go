package main

import (
	"fmt"
	"strings"

	"sidenote/cmd/internal/console"
	"sidenote/cmd/sidenote/internal/screen"
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
		most = screen.MaxUnread
	}
	for _, done := range r.done {
		screen.Ingested(r.a.stdout, done.ID, done.TookMS, &done.Report, most)
	}
	return nil
}

// unread counts the files that should have been read and could not be.
func (r *ingestion) unread() (n int) {
	for _, done := range r.done {
		for _, skip := range done.Skipped {
			if !folder.SkipKind(skip.Kind).OnPurpose() {
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
