package library

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/store"
)

// A view is the stored state of a base, with the documents that its segments lack.
type view struct {
	store.View
	uncovered []int64 // rows of documents that are in no segment
}

// maxLooks is how often gather starts again because files were removed while it opened them.
const maxLooks = 10

// gather opens the segments of a base, reusing those of its Content. A writer drops damaged
// segments and, if there is disk space, makes new ones for documents that are in none; a follower
// can do neither. The view lists the documents that are still in no segment.
func (b *base) gather(ctx context.Context) (index.Segments, view, error) {
	covered := false
	for looks := 0; ; looks++ {
		v, err := b.state.currentStore().View(ctx, b.ID(), b.state.reader.names()...)
		if err != nil {
			return nil, view{}, err
		}
		segments, damage, err := b.open(ctx, v)
		if err != nil {
			return nil, view{}, err
		}
		if len(damage) > 0 && looks < maxLooks && b.lookAgain(ctx, v, damage) {
			continue
		}
		live, uncovered := match(segments, v, b.Content())
		if len(uncovered) == 0 || covered || !b.state.writes() {
			return live, view{v, uncovered}, nil
		}
		covered = true
		if err := b.cover(ctx, uncovered, b.putSegment(ctx)); err != nil {
			if ctx.Err() != nil {
				return nil, view{}, err
			}
			b.report("", err) // the caller makes segments on the heap
		}
	}
}

// lookAgain reports whether gather should start again because of damaged segments: in a follower
// if the writer has changed the list of segments meanwhile, most likely by a merge; in a writer if
// it has dropped them.
func (b *base) lookAgain(ctx context.Context, v store.View, damage map[string]error) bool {
	if !b.state.writes() && b.state.moved(ctx, v) {
		return true
	}
	others := 0
	for name, err := range damage {
		if errors.Is(err, bm25.ErrVersion) {
			others++
			continue
		}
		b.report(name, err)
	}
	if others > 0 { // after an upgrade this is every segment
		b.report("", fmt.Errorf("%d segments are made again: %w", others, bm25.ErrVersion))
	}
	if !b.state.writes() {
		return false
	}
	for name := range damage {
		if err := b.state.currentStore().DropSegments(ctx, b.ID(), name); err != nil && !errors.Is(err, store.ErrNotFound) {
			b.report(name, err) // for example, no disk space: the next change tries again
			return false
		}
		delete(b.bad, name)
	}
	return true
}

// moved reports whether the segments of a base have changed since the view was made.
func (l *state) moved(ctx context.Context, v store.View) bool {
	now, err := l.currentStore().View(ctx, v.Base.ID, l.reader.names()...)
	same := func(a, b store.Segment) bool { return a.Name == b.Name }
	return err == nil && !(slices.EqualFunc(v.Segments, now.Segments, same) && slices.Equal(v.Damaged, now.Damaged))
}

// open opens the segments of a view; a damaged one is nil. If the system refuses to open a file
// for now, that is an error, because the file need not be made again.
func (b *base) open(ctx context.Context, v store.View) (segments []*index.Segment, damage map[string]error, err error) {
	damage = map[string]error{}
	for _, name := range v.Damaged {
		damage[name] = errors.New("the list of its documents is damaged")
	}
	held := map[string]*index.Segment{}
	if c := b.Content(); c != nil {
		for _, s := range c.Segments() {
			held[s.Name] = s.Segment
		}
	}
	segments = make([]*index.Segment, len(v.Segments))
	for i, seg := range v.Segments {
		s, err := held[seg.Name], b.bad[seg.Name]
		if s == nil && err == nil {
			s, err = b.state.openSegment(ctx, seg)
		}
		switch {
		case err == nil:
			segments[i] = s
		case useless(err):
			damage[seg.Name] = err
		default:
			return nil, nil, fmt.Errorf("open segment of knowledge %s: %w", b.ID(), err)
		}
	}
	return segments, damage, nil
}

// useless reports whether an error means that the file must be made again.
func useless(err error) bool {
	var damaged *store.SegmentError
	return errors.Is(err, index.ErrDamaged) || errors.Is(err, bm25.ErrDamaged) || errors.Is(err, bm25.ErrVersion) ||
		errors.Is(err, fs.ErrNotExist) || errors.Is(err, bm25.ErrNotAFile) || errors.Is(err, store.ErrNotFound) || errors.As(err, &damaged)
}

// openSegment opens a stored segment.
func (l *state) openSegment(ctx context.Context, seg store.Segment) (*index.Segment, error) {
	var image []byte
	var owner *bm25.MappedFile
	var err error
	if seg.Path == "" {
		image, err = l.currentStore().Image(ctx, seg)
	} else if owner, err = bm25.OpenMapped(seg.Path); err == nil {
		image = owner.Bytes()
	}
	if err != nil {
		return nil, err
	}
	s, err := index.Open(seg.Name, image, owner)
	if err == nil && !slices.Equal(s.Rows(), seg.Covers) {
		err = fmt.Errorf("open %s: %w: it holds other documents than it should", seg.Name, index.ErrDamaged)
	}
	return s, err
}

// match determines which documents of segments are still in the base, and which documents of the
// base are in no segment. A nil segment has none.
func match(segments []*index.Segment, v store.View, before *knowledge.Content) (live index.Segments, uncovered []int64) {
	held := map[*index.Segment]*index.Live{}
	if before != nil {
		for i, s := range before.Segments() {
			held[s.Segment] = &before.Segments()[i]
		}
	}
	found := make([]bool, len(v.Rows))
	for i, s := range segments {
		if s != nil {
			live = append(live, s.Without(gone(s, v.Segments[i].Covers, v.Rows, found), held[s]))
		}
	}
	for i, row := range v.Rows {
		if !found[i] {
			uncovered = append(uncovered, row)
		}
	}
	return live, uncovered
}

// gone returns the documents of a segment that are not in the base, and marks the others as found.
// covers are the rows in the segment; covers and documents are in ascending order.
func gone(s *index.Segment, covers, documents []int64, found []bool) bm25.Bitmap {
	dead := map[int64]bool{}
	i := 0
	if len(covers) > 0 { // most segments hold consecutive documents
		i, _ = slices.BinarySearch(documents, covers[0])
	}
	for _, row := range covers {
		for i < len(documents) && documents[i] < row {
			i++
		}
		if i == len(documents) || documents[i] != row || found[i] {
			dead[row] = true
			continue
		}
		found[i] = true
	}
	if len(dead) == 0 {
		return nil
	}
	return s.WithRows(dead)
}

// entriesPage is how many documents are read from the store at a time; entriesLimited applies if
// memory is limited, since each may be large.
const (
	entriesPage    = 256
	entriesLimited = 8
)

// segmentMemory returns the memory that making a segment may take, 0 for no limit.
func (l *state) segmentMemory() int64 {
	if free := l.reader.deps.Memory; free.Limited() {
		return free.Segment()
	}
	return 0
}

// takeSegment waits for the memory to make a segment, for callers that hold no grant, and returns
// a function that releases it. If there is not enough although nobody else holds any, the segment
// is made anyway, so that what was written can be found.
func (l *state) takeSegment(ctx context.Context) (done func(), err error) {
	memory := l.reader.deps.Memory.Segment()
	grant, err := l.reader.deps.Memory.Take(ctx, memory, memory)
	if errors.Is(err, folder.ErrNotEnoughMemory) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	return grant.Release, nil
}

// cover makes segments of stored documents.
func (b *base) cover(ctx context.Context, rows []int64, emit func(image []byte, rows []int64) error) error {
	done, err := b.state.takeSegment(ctx)
	if err != nil {
		return err
	}
	defer done()
	writer := index.Writer{Emit: emit, Memory: b.state.segmentMemory()}
	size := entriesPage
	if writer.Memory > 0 {
		size = entriesLimited
	}
	for page := range slices.Chunk(rows, size) {
		entries, err := b.state.currentStore().Entries(ctx, b.ID(), page)
		if err != nil {
			return err
		}
		for i := range entries {
			if err := writer.Add(b.state.reader.indexed(&entries[i])); err != nil {
				return fmt.Errorf("index knowledge %s: %w", b.ID(), err)
			}
		}
	}
	return writer.Flush()
}

// putSegment returns a function that writes segments of a base to the folder.
func (b *base) putSegment(ctx context.Context) func(image []byte, rows []int64) error {
	return func(image []byte, rows []int64) error {
		_, err := b.state.currentStore().PutSegment(ctx, b.ID(), image, rows)
		return err
	}
}

// met handles damage found by a search that failed. The segment is made again in the background,
// once for each file.
func (b *base) met(e *index.DamageError) {
	b.state.inBackground(func(ctx context.Context) {
		err := b.state.change(ctx, b.ID(), func(b *base) error {
			c := b.Content()
			if c == nil || !slices.ContainsFunc(c.Segments(), func(s index.Live) bool { return s.Segment == e.Segment && s.Vectors == cmp.Or(e.Vectors, s.Vectors) }) {
				return nil // done
			}
			if e.Vectors != nil {
				b.forgetVectors(e)
			} else {
				b.bad[e.Segment.Name] = e
			}
			return b.refresh(ctx, true)
		})
		if err != nil && ctx.Err() == nil {
			b.report(e.Segment.Name, err)
		}
	})
}
