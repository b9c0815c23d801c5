package screen

import (
	"fmt"
	"io"

	"sidenote/cmd/internal/terminal"
	"sidenote/proxy/explain"
	"sidenote/retrieval/knowledge/folder"
)

// Ingested prints the report of one base, with at most the given number of files in each list; 0
// means all.
func Ingested(w io.Writer, id string, tookMS float64, i *explain.IngestReport, most int) {
	fmt.Fprintf(w, "%s: %s, %s; %s new, %s changed, %s unchanged, %s removed (%.1f s)\n", id, terminal.Plural(i.Files, "file"), terminal.Plural(i.Chunks, "chunk"),
		terminal.Thousands(i.New), terminal.Thousands(i.Changed), terminal.Thousands(i.Unchanged), terminal.Thousands(i.Removed), tookMS/1e3)
	why := map[string]string{}
	for _, s := range i.Skipped {
		why[s.Path] = s.Reason
	}
	var removed []string
	for _, doc := range i.RemovedDocuments {
		reason, skipped := why[doc]
		if !skipped {
			reason = "no longer among the files"
		}
		removed = append(removed, FileLine(doc, reason))
	}
	Files(w, "removed", removed, most)
	var unread, others []string
	for _, s := range i.Skipped {
		line := FileLine(s.Path, s.Reason)
		if !folder.SkipKind(s.Kind).OnPurpose() {
			unread = append(unread, line)
		} else if most == 0 { // on a terminal they are summarized by kind

			others = append(others, line)
		}
	}
	Files(w, "unread", unread, most)
	Files(w, "skipped", others, most)
	for n, line := range i.SkippedLines {
		what := ""
		if n == 0 {
			what = "in short"
		}
		fmt.Fprintf(w, "  %-8s %s\n", what, terminal.Fit(line, 79-11))
	}
	var notes []string
	for _, n := range i.Notes {
		notes = append(notes, FileLine(n.Document, n.Reason))
	}
	Files(w, "noted", notes, most)
}
