package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/console"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
)

// indexed is what became of reading one base.
type indexed struct {
	id     string
	report folder.Report
	took   time.Duration
	store  string // of a base that is kept elsewhere: all that there is to say
}

// index reads all bases, one after the other, so that start-up leaves a core to
// the requests; each answers from when it is whole, and until then from what the
// state folder holds of it. Bases that are kept elsewhere are not read. tell hears of
// each. Who keeps bases in a state folder goes on where one cannot be read, for whoever
// watches its folder reads it again.
func (s *stack) index(ctx context.Context, tell func(indexed)) error {
	if s.kept != nil {
		if err := s.load(ctx); err != nil {
			return err
		}
	}
	for _, name := range s.cfg.KnowledgeNames() {
		if s.embedded[string(name)] == nil {
			continue
		}
		done, err := s.indexOne(ctx, name)
		if err != nil {
			return err
		}
		if tell != nil {
			tell(done)
		}
	}
	return nil
}

// indexOne reads a base, unless it has no folder.
func (s *stack) indexOne(ctx context.Context, name config.Name) (indexed, error) {
	id := string(name)
	if k := s.keepers[id]; k != nil && s.kept.Standing() == knowledge.Writing {
		done := k.read(ctx, s.kept.Sync)
		if done.err != nil && ctx.Err() == nil {
			s.tell(slog.LevelWarn, done.trouble())
			return indexed{id: id, store: s.heldLine(id)}, nil
		}
		return indexed{id: id, report: done.report, took: done.took}, done.err
	}
	if s.cfg.Knowledge[name].Path == "" || s.home.keep {
		return indexed{id: id, store: s.heldLine(id)}, nil
	}
	start := time.Now()
	content, report, err := knowledge.Load(ctx, s.cfg.Folder(name), s.reading())
	if err != nil {
		return indexed{}, err
	}
	s.swap(id, content, report)
	return indexed{id: id, report: report, took: time.Since(start)}, nil
}

// heldLine says what the state folder holds of a base.
func (s *stack) heldLine(id string) string {
	c := s.kept.Base(id).Content()
	if c == nil && s.home.keep {
		return id + ": " + s.waitsFor(id)
	}
	if c == nil {
		return id + ": nothing yet, in " + s.cfg.State.Path
	}
	line := fmt.Sprintf("%s: %s, %s, in %s", id, console.Plural(c.Documents(), "document"), console.Plural(c.Chunks(), "chunk"), s.cfg.State.Path)
	if c.Part() {
		line += "; " + inPart
	}
	return line
}

// swap puts content that is not kept into a base, whole.
func (s *stack) swap(id string, content *knowledge.Content, report folder.Report) {
	s.embedded[id].Swap(content)
	s.library.noteChange(id)
	s.metrics.Knowledge(id, content.Documents(), content.Chunks(), content.Bytes(), time.Now())
	s.count(id, report, true)
}

// String is the line of serve about a base.
func (i indexed) String() string {
	if i.store != "" {
		return "knowledge  " + i.store
	}
	line := fmt.Sprintf("knowledge  %s: %s, %s, lexical only (no embeddings)", i.id, console.Plural(i.report.Files, "file"), console.Plural(i.report.Chunks, "chunk"))
	line = fmt.Sprintf("%-80s  %.1f s", line, i.took.Seconds())
	lines := []string{line}
	if skipped := i.report.Summary(); skipped != "" {
		lines = append(lines, skipped)
	}
	return strings.Join(append(lines, i.unread()...), "\n           ")
}

// maxUnread is how many files unread names.
const maxUnread = 10

// unread names the files that should have been read and could not be, or not all
// of them, with the reason; those that nobody wants read are only counted.
func (i indexed) unread() (lines []string) {
	n := 0
	for _, skip := range i.report.Skipped {
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

// unreadKind tells whether what was skipped for that reason should have been read.
// What nobody wants read is listed, so that a new way to fail counts as one.
func unreadKind(kind folder.SkipKind) bool {
	switch kind {
	case folder.SkipUnsupported, folder.SkipSecret, folder.SkipHidden, folder.SkipVendored, folder.SkipLink,
		folder.SkipAttributes:
		return false
	}
	return true
}
