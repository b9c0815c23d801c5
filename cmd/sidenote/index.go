package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"sidenote/cmd/sidenote/internal/console"
	"sidenote/retrieval/knowledge"
)

// indexed is what became of reading one base.
type indexed struct {
	id     string
	report knowledge.Report
	took   time.Duration
	store  string // of a base that is kept elsewhere: all that there is to say
}

// index reads all bases, one after the other, so that start-up leaves a core to
// the requests; each answers from when it is whole. Bases that are kept elsewhere
// are not read. tell hears of each.
func (s *stack) index(ctx context.Context, tell func(indexed)) error {
	for _, name := range s.cfg.KnowledgeNames() {
		k := s.cfg.Knowledge[name]
		if s.embedded[string(name)] == nil {
			continue
		}
		start := time.Now()
		var neutralised atomic.Int64
		content, report, err := knowledge.Load(ctx, knowledge.Folder{
			ID: string(name), Path: k.Path, Include: texts(k.Include), Exclude: texts(k.Exclude),
		}, s.reading(&neutralised))
		if err != nil {
			return err
		}
		s.swap(string(name), content, report, int(neutralised.Load()))
		if tell != nil {
			tell(indexed{id: string(name), report: report, took: time.Since(start)})
		}
	}
	s.lookAtStores(ctx, tell)
	return nil
}

// swap puts new content into a base, whole.
func (s *stack) swap(id string, content *knowledge.Content, report knowledge.Report, neutralised int) {
	s.embedded[id].Swap(content)
	s.library.noteChange(id)
	s.metrics.Knowledge(id, content.Documents(), content.Chunks(), int64(report.Bytes), time.Now())
	s.metrics.Ingested(id, "indexed", report.Files, neutralised)
	skipped := map[knowledge.SkipKind]int{}
	for _, skip := range report.Skipped {
		skipped[skip.Kind]++
	}
	for kind, n := range skipped {
		s.metrics.Ingested(id, string(kind), n, 0)
	}
}

// String is the line of serve about a base.
func (i indexed) String() string {
	if i.store != "" {
		return "knowledge  " + i.store
	}
	line := fmt.Sprintf("knowledge  %s: %s, %s, lexical only (no embeddings)", i.id, plural(i.report.Files, "file"), plural(i.report.Chunks, "chunk"))
	line = fmt.Sprintf("%-80s  %.1f s", line, i.took.Seconds())
	lines := []string{line}
	if skipped := i.report.Summary(); skipped != "" {
		lines = append(lines, skipped)
	}
	return strings.Join(append(lines, i.unread()...), "\n           ")
}

// maxUnread is how many files unread names.
const maxUnread = 10

// unread names the files that should have been read and could not be, with the
// reason; those that nobody wants read are only counted.
func (i indexed) unread() (lines []string) {
	n := 0
	for _, skip := range i.report.Skipped {
		if skip.Kind != knowledge.SkipUnreadable && skip.Kind != knowledge.SkipNotText {
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

// plural writes a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return thousands(n) + " " + thing + "s"
}
