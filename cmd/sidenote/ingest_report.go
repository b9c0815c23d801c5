package main

import (
	"fmt"
	"io"
	"strings"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/retrieval/knowledge/folder"
)

// An answer is what --json prints.
type ingestAnswer struct {
	Object    string         `json:"object"` // "ingest"
	State     string         `json:"state"`
	Knowledge []ingestedBase `json:"knowledge"`
	Unread    int            `json:"unread"` // files that should have been read but could not be
	Embedded  []embeddedBase `json:"embedded,omitempty"`
}

// Answer returns the report of all bases for JSON.
func (r *ingestion) Answer() any {
	return ingestAnswer{Object: "ingest", State: r.Config.State.Path, Knowledge: append([]ingestedBase{}, r.Done...), Unread: r.unread(), Embedded: r.Embedded}
}

// Print prints the report of all bases.
func (r *ingestion) Print(w io.Writer) {
	most := 0 // a report into a file is complete
	if terminal.IsTerminal(w) {
		most = screen.MaxUnread
	}
	for _, done := range r.Done {
		screen.Ingested(w, done.ID, done.TookMS, &done.IngestReport, most)
	}
	for _, e := range r.Embedded {
		printEmbedded(w, e)
	}
}

// unread counts the files that should have been read but could not be.
func (r *ingestion) unread() (n int) {
	for _, done := range r.Done {
		for _, skip := range done.Skipped {
			if !folder.SkipKind(skip.Kind).OnPurpose() {
				n++
			}
		}
	}
	return n
}

// Unembedded returns an error where chunks have no vector that should have one.
func (r *ingestion) Unembedded() error {
	if r.unembedded == nil {
		return nil
	}
	return fmt.Errorf("partly done: %w; they are found by words alone, and the next ingest goes on from there", r.unembedded)
}

// Incomplete returns an error where files could not be read.
func (r *ingestion) Incomplete() error {
	n := r.unread()
	if n == 0 {
		return nil
	}
	return fmt.Errorf("partly done: %s could not be read (use --allow-skipped to accept)", terminal.Plural(n, "file"))
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
		r.where, r.Config.State.Path, strings.Join(names, ", "))
}
