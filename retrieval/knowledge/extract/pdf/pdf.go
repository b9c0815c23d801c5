// Package pdf reads PDF with pdfium, the library of Chromium, compiled to WebAssembly. That code
// has no access to files, the network or other memory, so a malicious file can only use the time
// and memory that it is given.
//
// Nothing is compiled or allocated before the first file is read.
package pdf

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"

	"sidenote/retrieval/knowledge/extract"
)

// Version must be changed if anything here, or in pdfium, yields another text for the same file.
const Version = "pdfium 2"

// The limits for one file.
const (
	maxTime   = 3 * time.Minute // for the whole file
	maxMemory = 256 << 20       // pdfium's memory in bytes, including the file
	maxPages  = 50_000
)

const (
	// overhead is the memory for reading a file in addition to pdfium's: its machine code, and the
	// text.
	overhead = 56 << 20
	// leastMemory is the least memory of pdfium with which reading is attempted.
	leastMemory = 24 << 20
	// compileMemory is the memory for compiling pdfium.
	compileMemory = 330 << 20
)

const (
	// maxWorkers is how many files are read concurrently.
	maxWorkers = 2
	// idleTime is how long an idle worker is kept.
	idleTime = 30 * time.Second
)

// A Reader reads PDF files. It is safe for concurrent use.
type Reader struct {
	// Limit is the time limit for one file; 0 is three minutes.
	Limit time.Duration
	// Memory is the total memory in bytes for reading one file; 0 is no limit. It must not be
	// changed after files have been read.
	Memory int64

	cache string
	slots chan struct{} // a semaphore for workers

	mu       sync.Mutex
	idle     []*worker
	since    *time.Timer             // closes idle workers; nil before the first
	compiled wazero.CompilationCache // nil before the first worker
}

// New returns a Reader that caches pdfium's machine code in the folder cache, which it creates:
// compiling takes seconds, loading a tenth of one. The folder must be accessible to its owner
// only; otherwise, and if cache is "", each process that reads PDF compiles the code once.
func New(cache string) *Reader {
	return &Reader{cache: cache, slots: make(chan struct{}, maxWorkers)}
}

// ErrMemory is the error for a file that needs more than Reader.Memory.
var ErrMemory = errors.New("reading it takes more memory than is free")

var (
	errTooLong   = extract.Brokenf("reading it takes too long")
	errTooLarge  = extract.Brokenf("reading it takes too much memory")
	errGaveUp    = extract.Brokenf("the PDF library failed on it")
	errNoPDF     = extract.Brokenf("it is no PDF, or broken")
	errProtected = extract.Brokenf("it is protected by a password")
	errNoText    = extract.Brokenf("there is no text in it")
	errScanned   = extract.Brokenf("there is no text in it: its pages are scanned")
)

// scannedPages ends the message about pages that are images.
const scannedPages = ": scanned"

// IsScanned reports whether the text of an error of Read means that pages are images without text.
// It takes the text because that is stored with a file, unlike the error.
func IsScanned(reason string) bool {
	return reason == errScanned.Error() || strings.Contains(reason, scannedPages)
}

// IsProtected reports whether the text of an error of Read means that a password is needed.
func IsProtected(reason string) bool { return reason == errProtected.Error() }

// Read returns the document in raw as Markdown. For a partly broken file, such as one with scanned
// pages, it returns what could be read and an *extract.Broken. Other errors are that of ctx, or
// mean that pdfium could not be started.
func (r *Reader) Read(ctx context.Context, raw []byte) (extract.Document, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return extract.Document{}, ctx.Err()
	}
	w, err := r.take()
	if errors.Is(err, ErrMemory) {
		return extract.Document{}, err
	}
	if err != nil {
		return extract.Document{}, fmt.Errorf("start pdfium: %w", err)
	}
	limit := r.Limit
	if limit == 0 {
		limit = maxTime
	}
	limited, cancel := context.WithTimeoutCause(ctx, limit, errTooLong)
	defer cancel()
	interrupted := context.AfterFunc(limited, w.cancel)
	c := content{}
	err = w.read(raw, &c)
	whole := err == nil || isBroken(err)
	if w.memory.most < maxMemory && w.memory.refused.Load() {
		err, whole = ErrMemory, false // with more memory the text might be different, whatever the result
	}
	if inTime := interrupted(); !inTime || !whole {
		err = reason(ctx, limited, w, err)
		w.close() // it was interrupted, so the state of its memory is undefined
	} else {
		r.give(w)
	}
	if ctx.Err() != nil {
		return extract.Document{}, ctx.Err()
	}
	return c.document(err)
}

// reason returns why a worker did not finish a file.
func reason(ctx, limited context.Context, w *worker, err error) error {
	switch {
	case err == nil || isBroken(err) || errors.Is(err, ErrMemory):
		return err // the time was over just after that
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		return errTooLong
	case w.memory.used() > maxMemory/2:
		return errTooLarge
	}
	return errGaveUp
}

func isBroken(err error) bool {
	broken := (*extract.Broken)(nil)
	return errors.As(err, &broken)
}

// take returns an idle worker, or a new one.
func (r *Reader) take() (*worker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.idle); n > 0 {
		w := r.idle[n-1]
		r.idle = r.idle[:n-1]
		return w, nil
	}
	most := r.most()
	if most < leastMemory || r.compiled == nil && r.Memory > 0 && r.Memory < compileMemory && !compiledIn(r.cache) {
		return nil, ErrMemory
	}
	if r.compiled == nil {
		r.compiled = openCache(r.cache)
	}
	w, err := start(r.compiled, most)
	if err != nil && r.cache != "" { // the folder may be damaged, or the disk full
		_ = r.compiled.Close(context.Background())
		clearCache(r.cache)
		if r.Memory > 0 && r.Memory < compileMemory {
			r.compiled = nil
			return nil, ErrMemory
		}
		r.compiled = wazero.NewCompilationCache()
		w, err = start(r.compiled, most)
	}
	return w, err
}

// most returns the limit of pdfium's memory.
func (r *Reader) most() int64 {
	if r.Memory == 0 {
		return maxMemory
	}
	return min(maxMemory, r.Memory-overhead)
}

// give returns a worker that has finished a file.
func (r *Reader) give(w *worker) {
	if w.memory.used() > maxMemory/4 {
		w.close() // memory of WebAssembly never shrinks
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = append(r.idle, w)
	if r.since == nil {
		r.since = time.AfterFunc(idleTime, r.Rest)
	}
	r.since.Reset(idleTime)
}

// Rest frees the memory of idle workers. The Reader can still be used.
func (r *Reader) Rest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.idle {
		w.close()
	}
	r.idle = nil
	if r.since != nil {
		r.since.Stop()
	}
}

// document returns what was read of a file; err is why the rest was not.
func (c *content) document(err error) (extract.Document, error) {
	if errors.Is(err, ErrMemory) {
		return extract.Document{}, err // with more memory there is more of it
	}
	text := c.markdown()
	if text == "" {
		switch {
		case err != nil:
			return extract.Document{}, err
		case len(c.scanned) > 0:
			return extract.Document{}, errScanned
		}
		return extract.Document{}, errNoText
	}
	var why []string
	if err != nil {
		why = append(why, fmt.Sprintf("after page %d: %v", len(c.pages), err))
	}
	if len(c.scanned) > 0 && !c.covers() {
		why = append(why, "no text on "+ranges(c.scanned)+scannedPages)
	}
	if len(c.damaged) > 0 {
		why = append(why, fmt.Sprintf("%s cannot be read", ranges(c.damaged)))
	}
	d := extract.Document{Name: c.title, Text: text, Form: extract.Markdown, By: Version}
	if len(why) > 0 {
		return d, extract.Brokenf("%s", strings.Join(why, "; "))
	}
	return d, nil
}

// covers reports whether the pages that are images are the first or the last of a document with
// as many pages of text or more: its covers.
func (c *content) covers() bool {
	text := 0
	for _, p := range c.pages {
		if len(p.lines) > 0 {
			text++
		}
	}
	for _, n := range c.scanned {
		if n != 1 && n != c.pages[len(c.pages)-1].number {
			return false
		}
	}
	return text >= len(c.scanned)
}
