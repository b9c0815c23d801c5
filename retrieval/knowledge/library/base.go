package library

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/store"
)

// A base is one base of a library. Its methods must be called while holding turn, except those of
// knowledge.Base, report, met, tidy and what tidy calls.
type base struct {
	*knowledge.Base
	state   *state
	turn    chan struct{} // a semaphore: full while the base is being changed
	merging atomic.Bool   // a merge of its segments is running
	deleted atomic.Bool   // documents were deleted whose texts are still in segments

	// Guarded by turn.
	bad    map[string]error // by file: damage found by searches
	looked map[string]bool  // segments whose vectors were looked up in the store

	badVectors map[string]bool // vector files found to be damaged

	verdicts *index.Verdicts // on twins; nil until needed

	listing *listing // of the last Sync; nil if it is not known to be true

	behind bool            // something was written that the Content may lack
	saved  map[string]bool // segments of the saved calibration; nil if unknown
	since  time.Time       // when a follower began to wait for a complete state; zero if it is not waiting

	// Guarded by the library's mu; see BaseError.
	refreshErr error // why the base does not show the state of the store
	damage     error // damage in its documents
	lost       int   // see LostVectors
}

// report reports a problem to Options.Trouble.
func (b *base) report(file string, err error) {
	b.state.options.Trouble(Trouble{Knowledge: b.ID(), File: file, Err: err})
}

// refresh makes a base answer from the current state of the store. If documents are in no segment,
// a writer makes one for them. A follower makes one on the heap if force is set; otherwise it
// leaves the base as it is and records since when it has been waiting for the writer. It also
// waits while a folder is being read.
func (b *base) refresh(ctx context.Context, force bool) error {
	err := b.update(ctx, force)
	if ctx.Err() == nil {
		b.state.mu.Lock()
		b.refreshErr = err
		b.state.mu.Unlock()
	}
	return err
}

func (b *base) update(ctx context.Context, force bool) error {
	segments, view, err := b.gather(ctx)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	_, settled, whole := store.ReadOrigin(view.Base.Origin)
	if err != nil || !settled || b.state.options.Wanted != nil && !b.state.options.Wanted(view.Base) {
		b.hide()
		b.behind, b.since = false, time.Time{}
		return nil
	}
	if (len(view.uncovered) > 0 || !whole) && !b.state.writes() && !force {
		if b.since.IsZero() {
			b.since = time.Now()
		}
		return nil
	}
	if len(view.uncovered) > 0 {
		// On the heap: a follower has documents for which the writer has no usable segment yet, or
		// a writer has no disk space.
		if err := b.cover(ctx, view.uncovered, segments.Take); err != nil {
			return err
		}
	}
	if segments, err = b.hideTwins(ctx, segments); err != nil {
		return err
	}
	for {
		if segments, err = b.withVectors(ctx, segments, view); err != nil {
			return err
		}
		err := b.show(ctx, segments, view, !whole)
		damage := (*index.DamageError)(nil)
		if errors.As(err, &damage) && damage.Vectors != nil && !b.badVectors[damage.Vectors.Name] {
			b.forgetVectors(damage)
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	b.behind, b.since = false, time.Time{}
	return nil
}

// hideTwins hides the twins in segments. Its verdicts are kept for the next process.
func (b *base) hideTwins(ctx context.Context, segments index.Segments) (shown index.Segments, err error) {
	if b.verdicts == nil {
		saved, _ := b.state.currentStore().Verdicts(ctx, b.ID()) // without them the documents are compared
		b.verdicts = index.OpenVerdicts(saved)
	}
	before := b.verdicts.Compared
	err = bm25.GuardMapped(func() error {
		shown = segments.WithoutTwins(b.verdicts)
		return nil
	})
	if damage := segments.Fault(err); damage != nil {
		return nil, damage
	}
	if err != nil || b.verdicts.Compared == before || !b.state.writes() {
		return shown, err
	}
	saved, err := b.verdicts.Save()
	if err == nil {
		err = b.state.currentStore().SetVerdicts(ctx, b.ID(), saved)
	}
	if err != nil && ctx.Err() == nil {
		b.report("", err)
	}
	return shown, nil
}

// ErrNoGain is the Err of a Trouble when the vectors of a base get no weight.
var ErrNoGain = errors.New("vectors find nothing that words miss, so they are not used; does the embedding model know the language?")

// weightless reports whether the vectors of a content were measured to add nothing to words.
func weightless(c *knowledge.Content) bool {
	if c == nil {
		return false
	}
	weight, measured := c.DenseWeight()
	return measured && weight == 0
}

// show makes the base answer from segments, unless it already does. part means that its folder was
// not read completely.
func (b *base) show(ctx context.Context, segments index.Segments, view view, part bool) error {
	version := b.state.reader.deps.Version
	is := knowledge.Generation(view.Base.Sum.Add(b.state.reader.stale(view.Others)), version)
	var probes, trials [][]float32
	if space, ok := b.state.spaceOf(b.ID()); ok && segments.Embeddings().Len() > 0 {
		probes, trials = b.state.questions(ctx, space, knowledge.Probes()), b.state.questions(ctx, space, knowledge.TrialTexts(segments))
		is = knowledge.EmbeddedGeneration(is, space, segments, probes, trials)
	}
	if c := b.Content(); c != nil && c.Generation() == is && c.Partial() == part && slices.EqualFunc(c.Segments(), segments, func(x, y index.Live) bool { return x.Postings == y.Postings && x.Dense == y.Dense }) {
		return nil
	}
	var saved []byte
	if b.Content() == nil {
		saved, _ = b.state.currentStore().Calibration(ctx, b.ID()) // without it the floor is measured from scratch
	}
	c, err := knowledge.NewContent(ctx, segments, knowledge.ContentOptions{
		Generation: is, Partial: part, Version: version, Damaged: b.met, Before: b.Content(), Saved: saved, Probes: probes, Trials: trials,
	})
	if err != nil {
		return fmt.Errorf("index knowledge %s: %w", b.ID(), err)
	}
	before := b.Content()
	b.Swap(c)
	b.state.options.Changed(b.ID())
	b.saveCalibration(ctx, c)
	if weightless(c) && !weightless(before) {
		b.state.options.Trouble(Trouble{Knowledge: b.ID(), Err: ErrNoGain})
	}
	return nil
}

// forgetVectors marks vectors as damaged, so that they are made again.
func (b *base) forgetVectors(e *index.DamageError) {
	b.report(e.Vectors.Name, e)
	b.badVectors[e.Vectors.Name] = true
	delete(b.looked, e.Segment.Name)
}

// savedPart is the divisor for the part of a base that may change before its calibration is saved
// again: measuring a fiftieth again takes little time.
const savedPart = 50

// saveCalibration saves the calibration of a large base for the next process, unless the saved one
// is nearly as good.
func (b *base) saveCalibration(ctx context.Context, c *knowledge.Content) {
	fresh, names := 0, map[string]bool{}
	for _, s := range c.Segments() {
		if names[s.Name] = true; !b.saved[s.Name] {
			fresh += s.Postings.Len()
		}
	}
	if !b.state.writes() || fresh*savedPart <= c.Chunks() {
		return
	}
	state := c.Calibration()
	if state == nil {
		return
	}
	if err := b.state.currentStore().SetCalibration(ctx, b.ID(), state); err != nil {
		if ctx.Err() == nil {
			b.report("", err)
		}
		return
	}
	b.saved = names
}

// hide makes a base answer as if it were not indexed yet.
func (b *base) hide() {
	if b.Content() != nil {
		b.Swap(nil)
		b.state.options.Changed(b.ID())
	}
}
