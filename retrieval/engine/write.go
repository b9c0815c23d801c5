package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/services"
)

const (
	// leaseTime is how long a writer may be silent before another one takes the base over.
	leaseTime = 30 * time.Second
	// graceTime is how long removed rows stay for searches that began before.
	graceTime = 2 * time.Minute
	// putChunks is about how many chunks are written in one transaction, and putFiles how many files
	// are read for it at most.
	putChunks = 1000
	putFiles  = 256
	// filesAtOnce is how many files are read at a time.
	filesAtOnce = 4
	// settled is how old a file's time must be to identify its version: two versions written within
	// one tick of the file system's clock have the same time.
	settled = 2 * time.Second
)

// Passages makes vectors of passages, see services.Embedder.
type Passages interface {
	Space() retrieval.Space
	Fit(passages []string) (n, tokens int)
	Passages(ctx context.Context, passages []string) (services.Passages, error)
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// WriterOptions configure a Writer. Server, Base and Owner are required.
type WriterOptions struct {
	Server   Server
	Base     string
	Owner    string         // who writes, for people: host and process
	Deps     knowledge.Deps // Counter is required
	Passages Passages       // nil: the base has no vectors
	// Spend, if not nil, is called before tokens are sent to be embedded; an error stops embedding
	// until the next Sync.
	Spend func(ctx context.Context, tokens int) error
}

// A Writer keeps a base in an engine the same as a folder. Several processes may have a Writer of
// one base: only the one that has the lease writes, and another takes over when it dies. A Writer is
// not safe for concurrent use.
type Writer struct {
	WriterOptions
	lease  Lease
	held   context.Context         // ends when the lease is lost; its cause is ErrLeaseLost
	drop   func()                  // ends the renewals
	stamps map[string]string       // of files that this process has read, by name
	skips  map[string]*folder.Skip // what of them was not read
	// Embedding reports the last Sync.
	Embedding Embedding
}

// An Embedding says how many chunks of a base have vectors.
type Embedding struct {
	Chunks, Had, Made, Refused int   // those that may work another time are not refused
	Tokens                     int   // sent
	Err                        error // why some have none; nil if all have one
}

// NewWriter returns a Writer.
func NewWriter(o WriterOptions) *Writer {
	return &Writer{WriterOptions: o, stamps: map[string]string{}, skips: map[string]*folder.Skip{}}
}

// Close gives the lease back.
func (w *Writer) Close(ctx context.Context) error {
	if w.lease == nil {
		return nil
	}
	w.drop()
	err := w.lease.Release(ctx)
	if err != nil && !errors.Is(err, ErrLeaseLost) {
		return err
	}
	w.lease = nil
	return nil
}

// Sync makes the base hold what is in a folder. What is written becomes visible all at once when it
// is complete; if Sync fails half-way, the next one continues, whichever process it runs in. The
// error wraps ErrLeaseTaken if another process writes the base. The report is like that of a library,
// see package library. Documents that say the same as another one in another format are not written.
func (w *Writer) Sync(ctx context.Context, f folder.Folder, progress func(folder.Progress)) (report folder.Report, err error) {
	s := &syncing{Writer: w, folder: f, progress: progress}
	if err := w.run(ctx, s.run); err != nil {
		return report, err
	}
	return s.account.Report, nil
}

// Fill makes the base hold exactly some documents, like Sync. An id that is empty or occurs twice is
// an error, and so is an attribute that chunk.Attribute rejects.
func (w *Writer) Fill(ctx context.Context, documents []chunk.Document) (folder.Report, error) {
	s := &syncing{Writer: w, all: true}
	if err := w.run(ctx, func(ctx context.Context) error { return s.fill(ctx, documents) }); err != nil {
		return folder.Report{}, err
	}
	return s.account.Report, nil
}

// run calls do while the Writer holds the lease.
func (w *Writer) run(ctx context.Context, do func(ctx context.Context) error) error {
	if err := w.hold(ctx); err != nil {
		return fmt.Errorf("knowledge %s: %w", w.Base, err)
	}
	w.Embedding = Embedding{}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.held, func() { cancel(context.Cause(w.held)) })()
	if err := do(ctx); err != nil {
		clear(w.stamps) // some of what was read may not have been written
		if cause := context.Cause(ctx); errors.Is(cause, ErrLeaseLost) {
			err = cause
		}
		if errors.Is(err, ErrLeaseLost) {
			w.drop()
			w.lease = nil
		}
		if gone := (*folder.GoneError)(nil); errors.As(err, &gone) {
			return err
		}
		return fmt.Errorf("write knowledge %s: %w", w.Base, err)
	}
	return nil
}

// Update is Sync for a folder in which something has probably changed.
func (w *Writer) Update(ctx context.Context, f folder.Folder, progress func(folder.Progress)) (folder.Report, error) {
	return w.Sync(ctx, f, progress)
}

// Look is folder.Look with the PDF reader of the Writer.
func (w *Writer) Look(ctx context.Context, f folder.Folder, enter func(dir string)) (digest uint64) {
	return folder.Look(ctx, f, w.Deps.PDF, enter)
}

// hold acquires the lease, unless the Writer has it. It is renewed until Close, so that one process
// stays the writer as long as it lives.
func (w *Writer) hold(ctx context.Context) (err error) {
	if w.lease != nil && w.held.Err() == nil {
		if err = w.lease.Renew(ctx); !errors.Is(err, ErrLeaseLost) {
			return err
		}
	}
	if err = w.Close(ctx); err != nil { // a lease that has ended here may be valid in the engine
		return err
	}
	lease, err := w.Server.Acquire(ctx, w.Base, w.Owner, leaseTime)
	if err != nil {
		return err
	}
	held, cancel := context.WithCancelCause(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		renew(held, lease, cancel)
	}()
	w.lease, w.held, w.drop = lease, held, func() { cancel(nil); <-ended }
	clear(w.stamps) // another Writer may have deleted what this one had read
	return nil
}

// renew renews a lease until ctx ends, and cancels it if the lease is lost, or has ended because the
// engine does not answer.
func renew(ctx context.Context, lease Lease, cancel context.CancelCauseFunc) {
	again := time.NewTicker(leaseTime / 3)
	defer again.Stop()
	renewed := time.Now()
	for {
		select {
		case <-again.C:
			sent := time.Now()
			err := lease.Renew(ctx)
			switch {
			case err == nil:
				renewed = sent
			case errors.Is(err, ErrLeaseLost):
				cancel(err)
				return
			case time.Since(renewed) >= leaseTime:
				cancel(fmt.Errorf("%w: it was not renewed for %v: %w", ErrLeaseLost, leaseTime, err))
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
