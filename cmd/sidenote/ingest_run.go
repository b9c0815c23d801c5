package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/client"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy/audit"
	"sidenote/proxy/explain"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/remote"
	"sidenote/retrieval/knowledge/store"
	"sidenote/retrieval/services"
)

// A ingestion is one run of ingest.
type ingestion struct {
	Config *config.Config
	Shown  *client.Certificate // presented to the process that writes the state folder
	Show   *terminal.Progress
	Stderr io.Writer
	Audit  *audit.Log // gets what this process reads; may be nil

	Done     []ingestedBase // bases that were read
	Embedded []embeddedBase // bases that were embedded

	pending    []folder.Folder  // still to be read
	engines    []folder.Folder  // of bases in engines elsewhere
	failed     map[string]error // why others could not be read, by base
	unfetched  map[string]error // why others were not fetched, or in part, by base
	unembedded error            // why some chunks have no vector
	where      string           // the progress, for the message when it is stopped
	reader     string           // address of the process that is reading; "" is this process

	mu    sync.Mutex                // guards the lists while bases are read concurrently; held while printing
	under map[string]ingestProgress // of the bases being read, by id
}

// A progress is the progress of reading a base.
type ingestProgress struct{ done, files, chunks int }

// An ingestedBase is the result of reading the folder of a base.
type ingestedBase struct {
	ID         string  `json:"id"`
	Path       string  `json:"path"`
	HandedOver string  `json:"handed_over_to,omitempty"` // address of the process that read it
	TookMS     float64 `json:"took_ms"`
	explain.IngestReport
}

// Choose finds the folders to read. Its errors are usage errors.
func (r *ingestion) Choose(acceptDeletions bool) error {
	var unwritten []string
	for _, name := range r.Config.KnowledgeNames() {
		k := r.Config.Knowledge[name]
		switch {
		case k.MustExist:
			return fmt.Errorf("--knowledge: %s has no folder to read; write %s=PATH, or ./%s for a folder of that name", name, name, name)
		case k.Engine == config.EngineEmbedded && k.Path != "":
			folder := r.Config.Folder(name)
			folder.AcceptDeletions = folder.AcceptDeletions || acceptDeletions
			r.pending = append(r.pending, folder)
		case k.Remote() && k.Path == "":
			unwritten = append(unwritten, string(name))
		case k.Remote():
			folder := r.Config.Folder(name)
			folder.AcceptDeletions = folder.AcceptDeletions || acceptDeletions
			r.engines = append(r.engines, folder)
		}
	}
	if len(r.pending) == 0 && len(r.engines) > 0 {
		return r.Config.CheckFolders(nil)
	}
	if len(r.pending) == 0 && len(unwritten) > 0 {
		return fmt.Errorf("there is nothing to read: knowledge %s has no path, so others write it", strings.Join(unwritten, ", "))
	}
	if len(r.pending) == 0 {
		return errors.New("there is nothing to read; name a folder by --knowledge NAME=PATH, or a --config")
	}
	if r.Config.State.Path == store.Memory {
		return errors.New("nothing would be kept: the state is in memory; name a folder by --state")
	}
	return r.Config.CheckFolders(nil)
}

// Do reads the pending folders once this process can write the state folder, or hands them over to
// the process that writes it. If it is stopped, the error says what was done.
func (r *ingestion) Do(ctx context.Context) error {
	r.where = "before it began"
	err := r.do(ctx)
	r.Show.Clear()
	if ctx.Err() != nil && len(r.pending) > 0 {
		return r.stopped()
	}
	return err
}

func (r *ingestion) do(ctx context.Context) error {
	client, err := newIngestEmbedder(r)
	if err != nil {
		return err
	}
	if client != nil {
		defer client.Close()
	}
	if err := r.writeEngines(ctx, client); err != nil || len(r.pending) == 0 {
		return err
	}
	if len(config.Embedded(r.Config)) == 0 {
		client = nil // no vectors are kept in the state folder
	}
	asked := store.LockedError{}
	for {
		options := library.Options{Trouble: func(t library.Trouble) { r.say("state: %v", t.Err) }}
		if client != nil {
			options.Space, options.Questions = server.SpaceOf(r.Config, client), client
		}
		kept, err := server.OpenLibrary(ctx, r.Config.State.Path, options)
		var locked *store.LockedError
		switch {
		case err == nil:
			return r.fill(ctx, client, kept)
		case !errors.As(err, &locked):
			return fmt.Errorf("state: %w", err)
		}
		if *locked != asked && locked.PID != 0 { // otherwise it was asked already, or is starting up
			asked = *locked
			whyNot, err := r.handOver(ctx, locked)
			if err != nil || len(r.pending) == 0 {
				return err
			}
			r.where = "while it waited for the state folder"
			r.say("waiting: %v; %s", locked, terminal.Clean(whyNot))
		}
		if err := server.Pause(ctx, server.LockEvery); err != nil {
			return err
		}
	}
}

// say prints a message above the progress bar.
func (r *ingestion) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Show.Clear()
	fmt.Fprintf(r.Stderr, format+"\n", args...)
}

// fill reads the pending folders in this process, and embeds their bases if configured.
func (r *ingestion) fill(ctx context.Context, client *services.Embedder, kept *library.Library) (err error) {
	defer func() { err = cmp.Or(err, kept.Close()) }()
	if err := r.readAll(ctx, kept); err != nil || client == nil {
		return err
	}
	return embedAll(ctx, r, client, kept)
}

// readAll reads the pending folders concurrently.
func (r *ingestion) readAll(ctx context.Context, kept *library.Library) error {
	r.where = "before " + r.pending[0].ID + " was read"
	var work errgroup.Group
	work.SetLimit(server.ReadAtOnce)
	for _, f := range slices.Clone(r.pending) {
		work.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			start := time.Now()
			report, err := r.sync(ctx, f, kept.Sync)
			switch {
			case ctx.Err() != nil:
				return err
			case err != nil:
				r.fail(f, server.WithRemedy(err))
			default:
				r.finish(ingestedBase{ID: f.ID, Path: f.Place(), TookMS: terminal.Milliseconds(time.Since(start)), IngestReport: *server.WireReport(report)})
			}
			return nil
		})
	}
	err := work.Wait()
	names := r.Config.KnowledgeNames()
	place := func(i ingestedBase) int { return slices.Index(names, config.Name(i.ID)) }
	slices.SortStableFunc(r.Done, func(a, b ingestedBase) int { return cmp.Compare(place(a), place(b)) })
	return err
}

// sync fetches a base that is fetched from elsewhere, and makes it the same as its folder. What a failed fetch
// left is read all the same.
func (r *ingestion) sync(ctx context.Context, f folder.Folder, sync func(context.Context, folder.Folder, func(folder.Progress)) (folder.Report, error)) (folder.Report, error) {
	if fetcher := server.NewFetcher(r.Config, config.Name(f.ID), server.Monitor{Log: func(slog.Level, string) {}}); fetcher != nil {
		defer func() { _ = fetcher.Close() }()
		fetched := fetcher.Fetch(ctx, func(p remote.Progress) { r.fetching(f.ID, p) })
		mirror, err := fetcher.Folder(f)
		if err != nil || fetched != nil && !fetcher.Started() {
			return folder.Report{}, cmp.Or(fetched, err)
		}
		f = mirror
		r.noteFetch(f.ID, fetcher)
	}
	return sync(ctx, f, func(p folder.Progress) { r.progress(p.Knowledge, p.Done, p.Files, p.Chunks) })
}

// noteFetch says what a fetch left out, and records what failed.
func (r *ingestion) noteFetch(id string, fetcher *server.Fetcher) {
	for _, note := range fetcher.Notes() {
		r.say("%s: %s", id, terminal.Clean(note))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Show.Clear()
	if why := fetcher.Problem(); why != "" {
		if r.unfetched == nil {
			r.unfetched = map[string]error{}
		}
		r.unfetched[id] = errors.New(terminal.Clean(why))
	}
}

// fetching shows the progress of a fetch.
func (r *ingestion) fetching(id string, p remote.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.where = fmt.Sprintf("while %s was fetched", id)
	r.Show.Show(terminal.Work{Name: id, Done: p.Done, Total: p.Files, Unit: "files fetched", Note: fmt.Sprintf("%.1f MB", float64(p.Bytes)/1e6)})
}

// progress shows the total progress of all bases being read.
func (r *ingestion) progress(id string, done, files, chunks int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.where = fmt.Sprintf("after %s of %s", terminal.Thousands(done), terminal.Plural(files, "file")+" of "+id)
	if r.under == nil {
		r.under = map[string]ingestProgress{}
	}
	r.under[id] = ingestProgress{done, files, chunks}
	var all ingestProgress
	for _, p := range r.under {
		all = ingestProgress{all.done + p.done, all.files + p.files, all.chunks + p.chunks}
	}
	r.Show.Show(terminal.Work{Name: strings.Join(slices.Sorted(maps.Keys(r.under)), ", "), Done: all.done, Total: all.files, Unit: "files", Note: terminal.Plural(all.chunks, "chunk")})
}

// finish records that a base was read.
func (r *ingestion) finish(done ingestedBase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Show.Clear()
	r.Done = append(r.Done, done)
	r.forget(done.ID)
	r.record(audit.Event{Object: done.ID, Result: audit.OK})
}

// fail records that a base could not be read; the others are read nevertheless.
func (r *ingestion) fail(unread folder.Folder, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = map[string]error{}
	}
	r.failed[unread.ID] = err
	r.forget(unread.ID)
	r.record(audit.Event{Object: unread.ID, Result: audit.Failed, Reason: err.Error()})
}

// record records that a base was read. Another process records what it reads itself.
func (r *ingestion) record(e audit.Event) {
	if r.reader == "" {
		e.Action = audit.Ingest
		r.Audit.Record(e)
	}
}

// forget records that a base is no longer being read.
func (r *ingestion) forget(id string) {
	delete(r.under, id)
	r.pending = slices.DeleteFunc(r.pending, func(f folder.Folder) bool { return f.ID == id })
}

// Failure returns an error that names what could not be read, or nil; part reports whether
// something was read.
func (r *ingestion) Failure() (err error, part bool) {
	for _, name := range r.Config.KnowledgeNames() {
		failed := cmp.Or(r.failed[string(name)], r.unfetched[string(name)])
		switch {
		case failed == nil:
		case err == nil:
			err = failed
		default:
			err = fmt.Errorf("%w; %w", err, failed)
		}
	}
	return err, len(r.Done) > 0
}
