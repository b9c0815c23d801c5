package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/proxy/record"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// A manager manages knowledge bases for the admin port. It changes the content of the state
// folder, never the configuration.
type manager struct {
	cfg     *config.Config
	state   *stateFolder
	made    *atomic.Pointer[madeBases] // nil in a command
	stores  map[string]remoteBase      // nil in a command
	writers map[string]*indexer        // likewise
	view    *storeView
	monitor Monitor

	explained *explain.Ring    // nil if no requests are kept
	records   *record.Recorder // nil in a command
}

// NewManager returns a manager for a command that opened the state folder itself. Problems are
// only reported in its responses.
func NewManager(cfg *config.Config, library *library.Library) admin.Manager {
	running := new(atomic.Pointer[config.Config])
	running.Store(cfg)
	return &manager{cfg: cfg, state: &stateFolder{cfg: running, library: library}, monitor: Monitor{Log: func(slog.Level, string) {}}}
}

// Bases returns all bases.
func (m *manager) Bases(ctx context.Context) ([]explain.Base, error) {
	stored, err := m.state.library.StoredBases(ctx)
	if damaged := (*store.CorruptError)(nil); errors.As(err, &damaged) && len(stored) > 0 {
		m.monitor.Log(slog.LevelWarn, "state: "+err.Error()) // list the undamaged ones
	} else if err != nil {
		return nil, m.refusal("", err)
	}
	byID := map[string]store.Base{}
	ids := config.Texts(m.cfg.KnowledgeNames())
	for _, b := range stored {
		byID[b.ID] = b
		ids = append(ids, b.ID)
	}
	slices.Sort(ids)
	var bases []explain.Base
	for _, id := range slices.Compact(ids) {
		bases = append(bases, m.base(id, byID[id]))
	}
	return bases, nil
}

// Base returns one base.
func (m *manager) Base(ctx context.Context, id string) (explain.Base, error) {
	stored, err := m.state.library.Stored(ctx, id)
	_, named := m.named(id)
	switch damaged := (*store.CorruptError)(nil); {
	case err == nil, named && (errors.Is(err, store.ErrNotFound) || errors.As(err, &damaged)):
		return m.base(id, stored), nil
	case m.state.library.Standing() == library.NotOpen:
		return explain.Base{}, m.unavailable()
	}
	return explain.Base{}, m.refusal(id, err)
}

// indexer returns the indexer of a base, or nil.
func (m *manager) indexer(id string) *indexer {
	if m.made == nil {
		return nil
	}
	return m.made.Load().indexers[id]
}

func (m *manager) named(id string) (config.Knowledge, bool) {
	k, ok := m.cfg.Knowledge[config.Name(id)]
	return k, ok
}

// base describes a base; stored is zero if the state folder has none.
func (m *manager) base(id string, stored store.Base) explain.Base {
	k, named := m.named(id)
	b := explain.Base{
		ID: id, Object: "knowledge", Engine: cmp.Or(k.Engine, config.EngineEmbedded), Status: explain.StatusReady, Configured: named,
		Documents: stored.Documents, Chunks: stored.Chunks, Bytes: stored.Bytes, ChangedAt: admin.Unix(stored.Changed),
	}
	if b.Engine != config.EngineEmbedded {
		return m.elsewhere(b)
	}
	_, _, whole := store.ReadOrigin(stored.Origin)
	if c := m.state.library.Base(id).Content(); c != nil { // what it currently serves
		b.Generation, b.Documents, b.Chunks, b.Bytes = c.Generation(), c.Documents(), c.Chunks(), c.Bytes()
		whole = !c.Partial()
	} else {
		b.Status = explain.StatusIndexing
	}
	if !whole {
		b.Status, b.Reason = explain.StatusPartial, inPart
	}
	if err := m.state.library.BaseError(id); err != nil {
		b.Status, b.Reason = explain.StatusFailed, err.Error()
	}
	if m.state.library.Standing() == library.NotOpen {
		b.Status, b.Reason = explain.StatusFailed, m.state.problem()
	}
	b.Embeddings = embeddingsOf(m.state, id)
	b.Path, b.Rules = SplitOrigin(stored.Origin)
	if k.Path != "" {
		b.Path, b.Rules = SplitOrigin(m.cfg.Folder(config.Name(id)).Origin())
		b.Include, b.Exclude = config.Texts(k.Include), config.Texts(k.Exclude)
	}
	x := m.indexer(id)
	if x == nil || m.state.library.Standing() != library.Writing {
		return b
	}
	x.status().describe(&b)
	x.describeSource(&b)
	return b
}

// describeSource adds the state of fetching to the description of a base.
func (x *indexer) describeSource(b *explain.Base) {
	if x.fetcher == nil {
		return
	}
	b.Source = x.fetcher.wire()
	if why := x.fetchProblems(); b.Reason == "" {
		b.Reason = strings.Join(why, "; ")
	}
}

// describe adds the state of reading the folder to the description of a base.
func (i indexing) describe(b *explain.Base) {
	switch {
	case i.running && b.Generation != "" && b.Status != explain.StatusFailed:
		b.Status, b.Reason = explain.StatusIngesting, ""
	case i.running && b.Status != explain.StatusFailed:
		b.Status, b.Reason = explain.StatusIndexing, ""
	case i.err != nil:
		b.Status, b.Reason = explain.StatusFailed, i.problem()
	}
	b.Ingest = i.wire()
}

// elsewhere completes the description of a base in a vector store or an engine.
func (m *manager) elsewhere(b explain.Base) explain.Base {
	b.Status = explain.StatusIndexing
	if m.stores == nil { // a command only reads the state folder
		if name := config.Name(b.ID); m.cfg.Knowledge[name].Remote() {
			b.Reason = "in " + m.cfg.EnginePlace(name) + "; only a running serve asks it"
		}
		return b
	}
	if s, _ := m.view.Store(b.ID); s.Generation != "" {
		b.Status, b.Generation, b.Documents, b.Chunks, b.Bytes, b.ChangedAt = explain.StatusReady, s.Generation, s.Files, s.Chunks, s.Bytes, admin.Unix(s.Changed)
	}
	b.Status, b.Reason = troubled(m.stores[b.ID], b.Status)
	if x := m.writers[b.ID]; x != nil {
		b.Path, b.Rules = SplitOrigin(m.cfg.Folder(config.Name(b.ID)).Origin())
		last := x.status()
		last.describe(&b)
		x.describeSource(&b)
		if b.Reason == "" && last.late() != nil {
			b.Reason = last.unembedded(b.ID)
		}
	}
	return b
}

// troubled returns the status of a base elsewhere, and what does not work or is skipped. A base in an
// engine may answer without all that it could do, as without an index.
func troubled(store remoteBase, status explain.Status) (explain.Status, string) {
	why := store.Trouble()
	e, ok := store.(*engine.Base)
	if len(why) > 0 && !(ok && e.Answers()) {
		status = explain.StatusFailed
	}
	if ok {
		why = append(why, e.Remarks()...)
	}
	return status, strings.Join(why, "; ")
}

// wire converts an indexing for the admin port.
func (i indexing) wire() *explain.Ingest {
	took := i.took
	if i.running {
		took = time.Since(i.began)
	}
	out := &explain.Ingest{
		Runs: i.runs, Running: i.running, Done: i.progress.Done, Files: i.progress.Files, Chunks: i.progress.Chunks,
		BeganAt: admin.Unix(i.began), TookMS: terminal.Milliseconds(took),
	}
	if !i.running {
		if out.Error = i.problem(); errors.Is(i.err, context.Canceled) {
			out.Error = "the run was stopped before it was complete"
		}
	}
	if i.whole {
		out.Report = WireReport(i.report)
	}
	return out
}

// WireReport converts a report for the admin port.
func WireReport(r folder.Report) *explain.IngestReport {
	out := &explain.IngestReport{
		Files: r.Files, Chunks: r.Chunks, New: r.Added, Changed: r.Written - r.Added, Unchanged: r.Unchanged,
		Removed: r.Removed, RemovedDocuments: append([]string{}, r.Gone...), SkippedTotal: len(r.Skipped), Skipped: []explain.Skipped{}, Notes: []explain.LookupNote{},
		SkippedKinds: []explain.SkippedKind{}, SkippedLines: append([]string{}, r.SkippedLines()...),
	}
	for _, g := range r.SkippedGroups() {
		out.SkippedKinds = append(out.SkippedKinds, explain.SkippedKind{Kind: string(g.Kind), Files: g.Files, What: g.What, Why: g.Why, Cure: g.Remedy, First: g.First})
	}
	for _, n := range r.Notes {
		out.Notes = append(out.Notes, explain.LookupNote{Document: n.Document, Reason: n.Reason})
	}
	for _, s := range r.Skipped {
		out.Skipped = append(out.Skipped, explain.Skipped{Path: s.Path, Kind: string(s.Kind), Reason: s.Reason})
	}
	return out
}

// CreateBase creates an empty base.
func (m *manager) CreateBase(ctx context.Context, id string) (created bool, err error) {
	if err := m.writable(id); err != nil {
		return false, err
	}
	if _, named := m.named(id); named {
		return false, nil // it exists since the process started
	}
	_, err = m.state.library.Stored(ctx, id)
	if err == nil {
		return false, nil
	}
	if errors.Is(err, store.ErrNotFound) {
		err = m.state.library.CreateBase(ctx, id)
	}
	return err == nil, m.refusal(id, err)
}

// DeleteBase deletes a base that is not in the configuration.
func (m *manager) DeleteBase(ctx context.Context, id string) error {
	if err := m.writable(id); err != nil {
		return err
	}
	if _, named := m.named(id); named {
		return admin.Refuse(http.StatusConflict, "configured", "The configuration names the knowledge base %q, so it would be made again; take it out there first.", id)
	}
	if _, err := m.state.library.Stored(ctx, id); err != nil { // the library would add an unknown id
		return m.refusal(id, err)
	}
	return m.refusal(id, m.state.library.DeleteBase(ctx, id))
}

// Ingest starts to read the folder of a base.
func (m *manager) Ingest(ctx context.Context, id string, acceptDeletions bool) (run int, err error) {
	if x := m.writers[id]; x != nil {
		return x.ask(acceptDeletions), nil
	}
	if err := m.writable(id); err != nil {
		return 0, err
	}
	if x := m.indexer(id); x != nil {
		return x.ask(acceptDeletions), nil
	}
	if _, err := m.Base(ctx, id); err != nil {
		return 0, err
	}
	return 0, admin.Refuse(http.StatusConflict, "no_folder", "This Sidenote keeps knowledge base %q with no folder, so there is nothing to read.", id)
}

// WebhookSecret returns the secret with which a forge signs its calls for a base.
func (m *manager) WebhookSecret(id string) string { return m.cfg.WebhookSecret(config.Name(id)) }

// writable refuses bases that only another process or service may change.
func (m *manager) writable(id string) error {
	k, named := m.named(id)
	if named && k.Remote() {
		return admin.Refuse(http.StatusNotImplemented, "kept_elsewhere", "Knowledge base %q is in %s; it is changed by its folder or by who writes it there.", id, m.cfg.EngineText(config.Name(id)))
	}
	if k.Engine == config.EngineVectorStore {
		return admin.Refuse(http.StatusNotImplemented, "kept_elsewhere", "Knowledge base %q is the vector store %s on %s; change it there.", id, k.ID, k.Upstream)
	}
	switch {
	case m.state.library.Standing() == library.Writing:
		return nil
	case m.state.library.Standing() == library.NotOpen, m.state.obstacle.why() != nil && !m.state.obstacle.locked():
		return m.unavailable()
	}
	who := "another process"
	if w := store.Writer(m.cfg.State.Path); w != nil {
		who = fmt.Sprintf("process %d on %s", w.PID, w.Host)
		if w.Address != "" {
			who += ", at " + w.Address
		}
	}
	return admin.Refuse(http.StatusConflict, "read_only", "This Sidenote only follows %s; it is written by %s. Ask that one.", m.cfg.State.Path, who)
}

// unavailable returns the refusal for a state folder that cannot be used.
func (m *manager) unavailable() error {
	return &admin.Refusal{Status: http.StatusServiceUnavailable, Code: "state_unavailable",
		Message: "The state folder cannot be used now: " + cmp.Or(m.state.problem(), "it is being opened") + ". It is tried again by itself."}
}

// refusal converts an error of the state folder for the admin port.
func (m *manager) refusal(id string, err error) error {
	_, own := errors.AsType[*admin.Refusal](err)
	_, corrupt := errors.AsType[*store.CorruptError](err)
	_, segment := errors.AsType[*store.SegmentError](err)
	_, foreign := errors.AsType[*store.ForeignError](err)
	as := func(status int, code, format string, args ...any) error {
		return &admin.Refusal{Status: status, Code: code, Message: fmt.Sprintf(format, args...), Err: err}
	}
	switch {
	case err == nil, own:
		return err
	case errors.Is(err, store.ErrNotFound):
		return as(http.StatusNotFound, "not_found", "There is no knowledge base %q.", id)
	case errors.Is(err, store.ErrReadOnly):
		return as(http.StatusConflict, "read_only", "The state folder is open for reading only.")
	case errors.Is(err, store.ErrFull):
		return as(http.StatusInsufficientStorage, "no_space", "%s. What was there before is as it was.", sentence(err))
	case errors.Is(err, context.DeadlineExceeded):
		return as(http.StatusServiceUnavailable, "busy", "Knowledge base %q is being changed by something else, such as the reading of its folder; try again.", id)
	case errors.Is(err, context.Canceled), errors.Is(err, library.ErrClosed):
		return as(http.StatusServiceUnavailable, "shutting_down", "This Sidenote is being stopped.")
	case corrupt, segment, foreign:
		m.monitor.Log(slog.LevelWarn, "state: "+err.Error())
		return as(http.StatusInternalServerError, "state_damaged", "%s.", sentence(err))
	}
	m.monitor.Log(slog.LevelWarn, "state: "+err.Error())
	return as(http.StatusInternalServerError, "state_failed", "%s.", sentence(err))
}

// sentence returns the text of an error with a capital letter.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}
