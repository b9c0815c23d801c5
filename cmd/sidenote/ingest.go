package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sidenote/cmd/internal/console"
	"sidenote/cmd/sidenote/internal/adminclient"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/engine"
	"sidenote/proxy/admin"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

type ingestCmd struct {
	Knowledge       []string `sep:"none" placeholder:"[NAME=]PATH" help:"Folder of documents. Repeat for more; SIDENOTE_KNOWLEDGE has commas between."`
	Config          string   `placeholder:"FILE" help:"Configuration, YAML: whose folders are read unless --knowledge names some."`
	State           string   `placeholder:"DIR" help:"Where bases are kept ($XDG_STATE_HOME/sidenote)."`
	AdminTokenFile  string   `placeholder:"FILE" help:"Token of the admin port of the process that keeps the bases ($SIDENOTE_ADMIN_TOKEN)."`
	AcceptDeletions bool     `help:"Let documents go even if most files of their folder are gone, as of a volume that is not mounted."`
	AllowSkipped    bool     `help:"End with 0 even if files could not be read."`
	JSON            bool     `name:"json" help:"Print the report as JSON, with every file that was removed or skipped."`
	shownFlags
}

// Help shows how ingest is used.
func (ingestCmd) Help() string {
	return "Reads folders into the state folder; files that have not changed are not read again. " +
		"While a serve writes that folder, it does the reading for the bases that it keeps with the same folders; otherwise ingest waits.\n\n" +
		"A folder that all files are gone from, or more than half and at least twenty, since all of it was last looked at leaves its base as it was, unless --accept-deletions.\n\n" +
		"Ends with 0 when all is read, with 3 when files that should have been could not be, as they are damaged, too large, or the system says no.\n\n" +
		"sidenote ingest --knowledge handbook=./docs --knowledge ./faq\n\nsidenote ingest --config sidenote.yaml --json"
}

// Run reads the folders.
func (c *ingestCmd) Run(a *app) error {
	cfg, err := configFlags{Config: c.Config, Flags: config.Flags{Knowledge: c.Knowledge, State: c.State, AdminTokenFile: c.AdminTokenFile}}.load(a, true)
	if err != nil {
		return err
	}
	show, stop := newProgress(a)
	defer stop()
	r := &ingestion{a: a, cfg: cfg, shown: c.certificate(cfg), show: show, where: "before it began"}
	if err := r.choose(c.AcceptDeletions); err != nil {
		return err
	}
	err = r.run(a.ctx)
	r.show.Clear()
	if a.ctx.Err() != nil && len(r.pending) > 0 {
		err = r.stopped()
	}
	if perr := r.print(c.JSON); perr != nil {
		return cmp.Or(err, perr)
	}
	err = cmp.Or(err, r.failure())
	if err == nil && !c.AllowSkipped {
		err = r.undone()
	}
	return err
}

// An ingestion is one run of ingest.
type ingestion struct {
	a     *app
	cfg   *config.Config
	shown *adminclient.Certificate // to the process that writes the state folder
	show  *console.Progress

	pending []folder.Folder // still to be read
	done    []ingested
	failed  map[string]error // why others could not be, by base
	where   string           // how far it has come, for the message when it is stopped
	reader  string           // address of the process that reads now; "" is this process

	mu    sync.Mutex          // guards the lists while bases are read side by side; held while a message is printed
	under map[string]progress // by base, of those that are being read
}

// A progress says how far the reading of a base has come.
type progress struct{ done, files, chunks int }

// An ingested is a base whose folder was read.
type ingested struct {
	ID         string  `json:"id"`
	Path       string  `json:"path"`
	HandedOver string  `json:"handed_over_to,omitempty"` // address of the process that read it
	TookMS     float64 `json:"took_ms"`
	admin.Report
}

// choose finds the folders to read.
func (r *ingestion) choose(acceptDeletions bool) error {
	for _, name := range r.cfg.KnowledgeNames() {
		k := r.cfg.Knowledge[name]
		switch {
		case k.MustExist:
			return usageError{fmt.Errorf("--knowledge: %s has no folder to read; write %s=PATH, or ./%s for a folder of that name", name, name, name)}
		case k.Engine == config.EngineEmbedded && k.Path != "":
			folder := r.cfg.Folder(name)
			folder.AcceptDeletions = folder.AcceptDeletions || acceptDeletions
			r.pending = append(r.pending, folder)
		}
	}
	if len(r.pending) == 0 {
		return usageError{errors.New("there is nothing to read; name a folder by --knowledge NAME=PATH, or a --config")}
	}
	if r.cfg.State.Path == store.Memory {
		return usageError{errors.New("nothing would be kept: the state is in memory; name a folder by --state")}
	}
	return r.cfg.CheckFolders(nil)
}

// run reads the pending folders as soon as this process can write the state folder, or
// hands them over to the process that writes it.
func (r *ingestion) run(ctx context.Context) error {
	asked := store.LockedError{}
	for {
		kept, err := engine.OpenLibrary(ctx, r.cfg.State.Path, library.Options{
			Trouble: func(t library.Trouble) { r.say("state: %v", t.Err) },
		})
		var locked *store.LockedError
		switch {
		case err == nil:
			return r.readAll(ctx, kept)
		case !errors.As(err, &locked):
			return fmt.Errorf("state: %w", err)
		}
		if *locked != asked && locked.PID != 0 { // else it was asked already, or is just starting
			asked = *locked
			whyNot, err := r.handOver(ctx, locked)
			if err != nil || len(r.pending) == 0 {
				return err
			}
			r.where = "while it waited for the state folder"
			r.say("waiting: %v; %s", locked, console.Clean(whyNot))
		}
		if err := engine.Pause(ctx, engine.LockEvery); err != nil {
			return err
		}
	}
}

// say prints a message above the progress bar.
func (r *ingestion) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.show.Clear()
	fmt.Fprintf(r.a.stderr, format+"\n", args...)
}

// readAll reads the pending folders in this process, side by side.
func (r *ingestion) readAll(ctx context.Context, kept *library.Library) (err error) {
	defer func() { err = cmp.Or(err, kept.Close()) }()
	r.where = "before " + r.pending[0].ID + " was read"
	var work errgroup.Group
	work.SetLimit(engine.ReadAtOnce)
	for _, f := range slices.Clone(r.pending) {
		work.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			start := time.Now()
			report, err := kept.Sync(ctx, f, func(p folder.Progress) {
				r.progress(p.Knowledge, p.Done, p.Files, p.Chunks)
			})
			switch {
			case ctx.Err() != nil:
				return err
			case err != nil:
				r.fail(f, engine.WithRemedy(err))
			default:
				r.finish(ingested{ID: f.ID, Path: f.Path, TookMS: console.Milliseconds(time.Since(start)), Report: *engine.WireReport(report)})
			}
			return nil
		})
	}
	err = work.Wait()
	names := r.cfg.KnowledgeNames()
	place := func(i ingested) int { return slices.Index(names, config.Name(i.ID)) }
	slices.SortStableFunc(r.done, func(a, b ingested) int { return cmp.Compare(place(a), place(b)) })
	return err
}

// progress shows how far all bases that are being read have come together.
func (r *ingestion) progress(id string, done, files, chunks int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.where = fmt.Sprintf("after %s of %s", console.Thousands(done), console.Plural(files, "file")+" of "+id)
	if r.under == nil {
		r.under = map[string]progress{}
	}
	r.under[id] = progress{done, files, chunks}
	var all progress
	for _, p := range r.under {
		all = progress{all.done + p.done, all.files + p.files, all.chunks + p.chunks}
	}
	r.show.Show(console.Work{Name: strings.Join(slices.Sorted(maps.Keys(r.under)), ", "), Done: all.done, Total: all.files, Unit: "files", Note: console.Plural(all.chunks, "chunk")})
}

// finish notes that a base is read.
func (r *ingestion) finish(done ingested) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.show.Clear()
	r.done = append(r.done, done)
	r.forget(done.ID)
}

// fail notes that a base could not be read; the others are read nevertheless.
func (r *ingestion) fail(unread folder.Folder, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = map[string]error{}
	}
	r.failed[unread.ID] = err
	r.forget(unread.ID)
}

// forget notes that a base is not read any more.
func (r *ingestion) forget(id string) {
	delete(r.under, id)
	r.pending = slices.DeleteFunc(r.pending, func(f folder.Folder) bool { return f.ID == id })
}

// failure returns an error that says what could not be read; nil if nothing.
func (r *ingestion) failure() error {
	var err error
	for _, name := range r.cfg.KnowledgeNames() {
		failed := r.failed[string(name)]
		switch {
		case failed == nil:
		case err == nil:
			err = failed
		default:
			err = fmt.Errorf("%w; %w", err, failed)
		}
	}
	if err != nil && len(r.done) > 0 {
		return partError{err}
	}
	return err
}

// handOver asks the process that writes the state folder to read the pending folders that it
// has too, and says why it does not read the others.
func (r *ingestion) handOver(ctx context.Context, to *store.LockedError) (whyNot string, err error) {
	client, err := adminclient.ToWriter(ctx, to, r.cfg.Admin.Token.Value.Reveal(), r.shown)
	if err != nil {
		return err.Error(), nil
	}
	for _, folder := range slices.Clone(r.pending) {
		why, err := r.handOverOne(ctx, client, to.Address, folder)
		if err != nil {
			return "", err
		}
		whyNot = cmp.Or(whyNot, why)
	}
	return whyNot, nil
}

// pollEvery is how often the progress of the other process is asked for.
const pollEvery = 150 * time.Millisecond

// handOverOne hands one base over, or says why not. A process that does not answer may just
// be ending, so that is a reason to wait and not an error.
func (r *ingestion) handOverOne(ctx context.Context, client *adminclient.Client, address string, folder folder.Folder) (whyNot string, err error) {
	b, err := client.Base(ctx, folder.ID)
	if err != nil {
		return err.Error(), nil
	}
	if why := differs(b, folder); why != "" {
		return why, nil
	}
	var begun admin.Accepted
	if err := client.Do(ctx, http.MethodPost, adminclient.KnowledgePath(folder.ID, "ingest"), admin.AskedIngest{AcceptDeletions: folder.AcceptDeletions}, &begun); err != nil {
		return err.Error(), nil
	}
	r.say("%s: handed over to the process at %s", folder.ID, address)
	r.reader = address
	defer func() {
		if ctx.Err() == nil {
			r.reader = ""
		}
	}()
	for {
		b, err := client.Base(ctx, folder.ID)
		switch i := b.Ingest; {
		case err != nil:
			return err.Error(), nil
		case i == nil:
			return "it no longer keeps " + folder.ID + " with a folder", nil
		case i.Runs < begun.Run:
			r.progress(folder.ID, i.Done, i.Files, i.Chunks)
		case i.Error != "":
			r.fail(folder, fmt.Errorf("the process at %s: %s", address, i.Error))
			return "", nil
		case i.Report != nil:
			r.finish(ingested{ID: folder.ID, Path: folder.Path, HandedOver: address, TookMS: i.TookMS, Report: *i.Report})
			return "", nil
		}
		if err := engine.Pause(ctx, pollEvery); err != nil {
			return "", err
		}
	}
}

// differs says how the folder of a base of the other process differs from the one here.
func differs(b admin.Base, folder folder.Folder) string {
	switch path, rules := engine.SplitOrigin(folder.Origin()); {
	case b.Ingest == nil:
		return "it keeps " + folder.ID + " with no folder"
	case b.Path != path:
		return fmt.Sprintf("it keeps %s with %s", folder.ID, b.Path)
	case b.Rules != rules:
		return fmt.Sprintf("it reads %s by other rules (include, exclude, attributes)", folder.ID)
	}
	return ""
}
