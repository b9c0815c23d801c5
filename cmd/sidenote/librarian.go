package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/admin"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/store"
)

// A librarian manages the bases of a stack for the admin port. It changes what the
// state folder holds; what the configuration says stays as it is.
type librarian struct{ *stack }

// librarian is nil without a state folder.
func (s *stack) librarian() admin.Keeper {
	if s.kept == nil {
		return nil
	}
	return librarian{s}
}

// Bases returns all bases.
func (l librarian) Bases(ctx context.Context) ([]admin.Base, error) {
	stored, err := l.kept.StoredBases(ctx)
	if damaged := (*store.CorruptError)(nil); errors.As(err, &damaged) && len(stored) > 0 {
		l.tell(slog.LevelWarn, "state: "+err.Error()) // the others are listed
	} else if err != nil {
		return nil, l.refusal("", err)
	}
	byID := map[string]store.Base{}
	ids := texts(l.cfg.KnowledgeNames())
	for _, b := range stored {
		byID[b.ID] = b
		ids = append(ids, b.ID)
	}
	slices.Sort(ids)
	var bases []admin.Base
	for _, id := range slices.Compact(ids) {
		bases = append(bases, l.base(id, byID[id]))
	}
	return bases, nil
}

// Base returns one base.
func (l librarian) Base(ctx context.Context, id string) (admin.Base, error) {
	stored, err := l.kept.Stored(ctx, id)
	_, named := l.named(id)
	switch damaged := (*store.CorruptError)(nil); {
	case err == nil, named && (errors.Is(err, store.ErrNotFound) || errors.As(err, &damaged)):
		return l.base(id, stored), nil
	case l.kept.Standing() == knowledge.Apart:
		return admin.Base{}, l.unavailable()
	}
	return admin.Base{}, l.refusal(id, err)
}

func (l librarian) named(id string) (config.Knowledge, bool) {
	k, ok := l.cfg.Knowledge[config.Name(id)]
	return k, ok
}

// base describes a base; stored is the zero one where the state folder has none.
func (l librarian) base(id string, stored store.Base) admin.Base {
	k, named := l.named(id)
	b := admin.Base{
		ID: id, Object: "knowledge", Engine: cmp.Or(k.Engine, config.EngineEmbedded), Status: admin.StatusReady, Configured: named,
		Documents: stored.Documents, Chunks: stored.Chunks, Bytes: stored.Bytes, ChangedAt: admin.Unix(stored.Changed),
	}
	if b.Engine == config.EngineVectorStore {
		return l.elsewhere(b)
	}
	if c := l.kept.Base(id).Content(); c != nil { // what it answers from
		b.Generation, b.Documents, b.Chunks, b.Bytes = c.Generation(), c.Documents(), c.Chunks(), c.Bytes()
	} else {
		b.Status = admin.StatusIndexing
	}
	if readInPart(l.kept.Base(id).Content(), stored) {
		b.Status, b.Reason = admin.StatusPartial, inPart
	}
	if err := l.kept.Wrong(id); err != nil {
		b.Status, b.Reason = admin.StatusFailed, err.Error()
	}
	if l.kept.Standing() == knowledge.Apart {
		b.Status, b.Reason = admin.StatusFailed, l.stateLine()
	}
	b.Path, b.Rules = splitOrigin(stored.Origin)
	if k.Path != "" {
		b.Path, b.Rules = splitOrigin(l.cfg.Folder(config.Name(id)).Origin())
		b.Include, b.Exclude = texts(k.Include), texts(k.Exclude)
	}
	keeper := l.keepers[id]
	if keeper == nil || l.kept.Standing() != knowledge.Writing {
		return b
	}
	last := keeper.status()
	switch {
	case last.running && b.Generation != "" && b.Status != admin.StatusFailed:
		b.Status, b.Reason = admin.StatusIngesting, ""
	case last.running && b.Status != admin.StatusFailed:
		b.Status, b.Reason = admin.StatusIndexing, ""
	case last.err != nil:
		b.Status, b.Reason = admin.StatusFailed, last.trouble()
	}
	b.Ingest = last.wire()
	return b
}

// inPart is what is said of a base of whose folder only a part was read.
const inPart = "its folder was not read to its end"

// readInPart tells whether only a part of its folder is in a base, which answers from c
// unless that is nil.
func readInPart(c *knowledge.Content, stored store.Base) bool {
	if c != nil {
		return c.Part()
	}
	_, _, whole := store.ReadOrigin(stored.Origin)
	return !whole
}

// elsewhere completes a base that is kept in a vector store.
func (l librarian) elsewhere(b admin.Base) admin.Base {
	b.Status = admin.StatusIndexing
	remote := l.remote[b.ID]
	if remote == nil {
		return b // a command looks at the state folder only
	}
	if s, _ := l.library.Store(b.ID); s.Generation != "" {
		b.Status, b.Generation, b.Documents, b.Bytes, b.ChangedAt = admin.StatusReady, s.Generation, s.Files, s.Bytes, admin.Unix(s.Changed)
	}
	if len(remote.Trouble()) > 0 {
		b.Status = admin.StatusFailed
	}
	return b
}

// wire is an ingest in the words of the admin port.
func (i ingest) wire() *admin.Ingest {
	took := i.took
	if i.running {
		took = time.Since(i.began)
	}
	out := &admin.Ingest{
		Runs: i.runs, Running: i.running, Done: i.progress.Done, Files: i.progress.Files, Chunks: i.progress.Chunks,
		BeganAt: admin.Unix(i.began), TookMS: milliseconds(took),
	}
	if !i.running {
		out.Error = i.trouble()
	}
	if i.whole {
		out.Report = wireReport(i.report)
	}
	return out
}

// wireReport is a report in the words of the admin port.
func wireReport(r folder.Report) *admin.Report {
	out := &admin.Report{
		Files: r.Files, Chunks: r.Chunks, New: r.Added, Changed: r.Written - r.Added, Unchanged: r.Unchanged,
		Removed: r.Removed, RemovedDocuments: slices.Clone(r.Gone), SkippedTotal: len(r.Skipped), Skipped: []admin.Skipped{}, Notes: []admin.Note{},
	}
	if out.RemovedDocuments == nil {
		out.RemovedDocuments = []string{}
	}
	for _, n := range r.Notes {
		out.Notes = append(out.Notes, admin.Note{Document: n.Document, Reason: n.Reason})
	}
	for _, s := range r.Skipped {
		out.Skipped = append(out.Skipped, admin.Skipped{Path: s.Path, Kind: string(s.Kind), Reason: s.Reason})
	}
	return out
}

// CreateBase makes an empty base.
func (l librarian) CreateBase(ctx context.Context, id string) (created bool, err error) {
	if err := l.writable(id); err != nil {
		return false, err
	}
	if _, named := l.named(id); named {
		return false, nil // there from the start of the process on
	}
	_, err = l.kept.Stored(ctx, id)
	if err == nil {
		return false, nil
	}
	if errors.Is(err, store.ErrNotFound) {
		err = l.kept.CreateBase(ctx, id)
	}
	return err == nil, l.refusal(id, err)
}

// DeleteBase removes a base that the configuration does not name.
func (l librarian) DeleteBase(ctx context.Context, id string) error {
	if err := l.writable(id); err != nil {
		return err
	}
	if _, named := l.named(id); named {
		return &admin.Refusal{Status: http.StatusConflict, Code: "configured",
			Message: fmt.Sprintf("The configuration names the knowledge base %q, so it would be made again; take it out there first.", id)}
	}
	if _, err := l.kept.Stored(ctx, id); err != nil { // the library would remember any id that it is asked to change
		return l.refusal(id, err)
	}
	return l.refusal(id, l.kept.DeleteBase(ctx, id))
}

// Ingest has the folder of a base read.
func (l librarian) Ingest(ctx context.Context, id string, acceptDeletions bool) (run int, err error) {
	if err := l.writable(id); err != nil {
		return 0, err
	}
	if k := l.keepers[id]; k != nil {
		return k.ask(acceptDeletions), nil
	}
	if _, err := l.Base(ctx, id); err != nil {
		return 0, err
	}
	return 0, &admin.Refusal{Status: http.StatusConflict, Code: "no_folder",
		Message: fmt.Sprintf("This Sidenote keeps knowledge base %q with no folder, so there is nothing to read.", id)}
}

// writable refuses what only another process, or another machine, may change.
func (l librarian) writable(id string) error {
	if k, _ := l.named(id); k.Engine == config.EngineVectorStore {
		return &admin.Refusal{Status: http.StatusNotImplemented, Code: "kept_elsewhere",
			Message: fmt.Sprintf("Knowledge base %q is the vector store %s on %s; change it there.", id, k.ID, k.Upstream)}
	}
	switch {
	case l.kept.Standing() == knowledge.Writing:
		return nil
	case l.kept.Standing() == knowledge.Apart, l.amiss.why() != nil && !l.amiss.locked():
		return l.unavailable()
	}
	who := "another process"
	if w := store.Writer(l.cfg.State.Path); w != nil {
		who = fmt.Sprintf("process %d on %s", w.PID, w.Host)
		if w.Address != "" {
			who += ", at " + w.Address
		}
	}
	return &admin.Refusal{Status: http.StatusConflict, Code: "read_only",
		Message: fmt.Sprintf("This Sidenote only follows %s; it is written by %s. Ask that one.", l.cfg.State.Path, who)}
}

// unavailable refuses what needs the state folder.
func (l librarian) unavailable() error {
	return &admin.Refusal{Status: http.StatusServiceUnavailable, Code: "state_unavailable",
		Message: "The state folder cannot be used now: " + cmp.Or(l.stateLine(), "it is being opened") + ". It is tried again by itself."}
}

// refusal is the table from what goes wrong with the state folder to answers.
func (l librarian) refusal(id string, err error) error {
	var (
		own     *admin.Refusal
		corrupt *store.CorruptError
		segment *store.SegmentError
		foreign *store.ForeignError
	)
	as := func(status int, code, format string, args ...any) error {
		return &admin.Refusal{Status: status, Code: code, Message: fmt.Sprintf(format, args...), Err: err}
	}
	switch {
	case err == nil, errors.As(err, &own):
		return err
	case errors.Is(err, store.ErrNotFound):
		return as(http.StatusNotFound, "not_found", "There is no knowledge base %q.", id)
	case errors.Is(err, store.ErrReadOnly):
		return as(http.StatusConflict, "read_only", "The state folder is open for reading only.")
	case errors.Is(err, store.ErrFull):
		return as(http.StatusInsufficientStorage, "no_space", "%s. What was there before is as it was.", sentence(err))
	case errors.Is(err, context.DeadlineExceeded):
		return as(http.StatusServiceUnavailable, "busy", "Knowledge base %q is being changed by something else, such as the reading of its folder; try again.", id)
	case errors.Is(err, context.Canceled), errors.Is(err, knowledge.ErrNoLibrary):
		return as(http.StatusServiceUnavailable, "shutting_down", "This Sidenote is being stopped.")
	case errors.As(err, &corrupt), errors.As(err, &segment), errors.As(err, &foreign):
		l.tell(slog.LevelWarn, "state: "+err.Error())
		return as(http.StatusInternalServerError, "state_damaged", "%s.", sentence(err))
	}
	l.tell(slog.LevelWarn, "state: "+err.Error())
	return as(http.StatusInternalServerError, "state_failed", "%s.", sentence(err))
}

// sentence lets an error begin one.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// splitOrigin returns the folder in a base's origin, and the digest of the rules by
// which it is read; both are "" where there is none.
func splitOrigin(origin string) (path, rules string) {
	folder, _, _ := store.ReadOrigin(origin)
	if end := strings.LastIndexByte(folder, ' '); end > 0 {
		return folder[:end], folder[end+1:]
	}
	return "", ""
}
