package knowledge

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"sidenote/retrieval/knowledge/bm25"
	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/mapped"
	"sidenote/retrieval/knowledge/store"
)

// refresh lets a base answer from what the store holds of it now. Where documents
// are on no shelf, a writer shelves them; a follower does so for itself, if force, or
// leaves the base as it is and notes that it waits, as it does while a folder is being
// read. b's turn is the caller's.
func (l *Library) refresh(ctx context.Context, b *shelved, force bool) error {
	err := l.look(ctx, b, force)
	if ctx.Err() == nil {
		l.mu.Lock()
		b.unshown = err
		l.mu.Unlock()
	}
	return err
}

func (l *Library) look(ctx context.Context, b *shelved, force bool) error {
	shelves, view, err := l.gather(ctx, b)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	_, settled, whole := store.ReadOrigin(view.Base.Origin)
	if err != nil || !settled || l.options.Wanted != nil && !l.options.Wanted(view.Base) {
		l.hide(b)
		b.behind, b.since = false, time.Time{}
		return nil
	}
	if (len(view.uncovered) > 0 || !whole) && !l.writes() && !force {
		if b.since.IsZero() {
			b.since = time.Now()
		}
		return nil
	}
	if len(view.uncovered) > 0 {
		own, err := l.ownShelves(ctx, b, view.uncovered)
		if err != nil {
			return err
		}
		shelves = append(shelves, own...)
	}
	if err := l.show(ctx, b, shelves, view, !whole); err != nil {
		return err
	}
	b.behind, b.since = false, time.Time{}
	return nil
}

// show swaps in a Content of shelves, unless it would be the same again. part says that
// its folder was not read to the end.
func (l *Library) show(ctx context.Context, b *shelved, shelves []placed, view view, part bool) error {
	is := generation(view.Base.Sum.Add(l.stale(view.Documents)), l.deps.Version)
	if c := b.Content(); c != nil && c.generation == is && c.part == part && slices.EqualFunc(c.shelves, shelves, func(x, y placed) bool { return x.live == y.live }) {
		return nil
	}
	c, err := newContent(ctx, shelves, is)
	if err != nil {
		return fmt.Errorf("index knowledge %s: %w", b.id, err)
	}
	c.version, c.part = l.deps.Version, part
	c.damaged = func(e *shelfError) { l.met(b, e) }
	b.Swap(c)
	l.options.Changed(b.id)
	return nil
}

// hide lets a base answer like one that is still to be indexed.
func (l *Library) hide(b *shelved) {
	if b.Content() != nil {
		b.Swap(nil)
		l.options.Changed(b.id)
	}
}

// stale returns what the documents that another version of the reader cut add to the
// sum of a base: such a base holds other chunks than its documents would have now,
// and must not be taken for one that does.
func (l *Library) stale(documents []store.Stamp) (sum document.Sum) {
	for _, d := range documents {
		if [readerBytes]byte(d.Hash[:readerBytes]) != l.reader {
			sum = sum.Add(sha256.Sum256(document.Fields("stale", string(d.Hash[:]))))
		}
	}
	return sum
}

// A view is what the store says of a base, and what its shelves lack.
type view struct {
	store.View
	uncovered []int64 // rows of documents that are on no shelf
}

// maxLooks is how often gather looks again because files went while it opened them.
const maxLooks = 10

// gather opens the shelves of a base, those of its Content again. In the end all
// documents are on shelves, but for those uncovered: a writer drops what is damaged
// and shelves what is uncovered, if there is room; a follower can do neither.
func (l *Library) gather(ctx context.Context, b *shelved) ([]placed, view, error) {
	covered := false
	for looks := 0; ; looks++ {
		v, err := l.truth().View(ctx, b.id)
		if err != nil {
			return nil, view{}, err
		}
		shelves, damage, err := l.open(ctx, b, v)
		if err != nil {
			return nil, view{}, err
		}
		if len(damage) > 0 && looks < maxLooks && l.lookAgain(ctx, b, v, damage) {
			continue
		}
		placed, uncovered := place(shelves, v, b.Content())
		if len(uncovered) == 0 || covered || !l.writes() {
			return placed, view{v, uncovered}, nil
		}
		covered = true
		if err := l.cover(ctx, b, uncovered, l.putShelf(ctx, b)); err != nil {
			if ctx.Err() != nil {
				return nil, view{}, err
			}
			l.report(b, "", err) // what is on no shelf gets one on the heap
		}
	}
}

// lookAgain tells whether a base with damaged shelves should be looked at again:
// because the writer, most likely, merged them away while this follower opened them,
// or because this is the writer and has dropped them.
func (l *Library) lookAgain(ctx context.Context, b *shelved, v store.View, damage map[string]error) bool {
	if !l.writes() && l.moved(ctx, v) {
		return true
	}
	for name, err := range damage {
		l.report(b, name, err)
	}
	if !l.writes() {
		return false
	}
	for name := range damage {
		if err := l.truth().DropSegment(ctx, b.id, name); err != nil && !errors.Is(err, store.ErrNotFound) {
			l.report(b, name, err) // such as for want of room: the next change tries again
			return false
		}
		delete(b.bad, name)
	}
	return true
}

// moved tells whether a base has other segments by now than a view says.
func (l *Library) moved(ctx context.Context, v store.View) bool {
	now, err := l.truth().View(ctx, v.Base.ID)
	names := func(v store.View) (names []string) {
		for _, seg := range v.Segments {
			names = append(names, seg.Name)
		}
		return append(names, v.Damaged...)
	}
	return err == nil && !slices.Equal(names(v), names(now))
}

// open opens the shelves that a view names; nil stands for one that is damaged. What
// the system says no to, for now, is an error: the shelf is not made again for it.
func (l *Library) open(ctx context.Context, b *shelved, v store.View) (shelves []*shelf, damage map[string]error, err error) {
	damage = map[string]error{}
	for _, name := range v.Damaged {
		damage[name] = errors.New("the list of its documents is damaged")
	}
	held := map[string]*shelf{}
	if c := b.Content(); c != nil {
		for _, s := range c.shelves {
			held[s.name] = s.shelf
		}
	}
	shelves = make([]*shelf, len(v.Segments))
	for i, seg := range v.Segments {
		s, err := held[seg.Name], b.bad[seg.Name]
		if s == nil && err == nil {
			s, err = l.openSegment(ctx, seg)
		}
		switch {
		case err == nil:
			shelves[i] = s
		case useless(err):
			damage[seg.Name] = err
		default:
			return nil, nil, fmt.Errorf("open shelf of knowledge %s: %w", b.id, err)
		}
	}
	return shelves, damage, nil
}

// useless tells whether an error is about a file that has to be made again.
func useless(err error) bool {
	var damaged *store.SegmentError
	return errors.Is(err, errShelf) || errors.Is(err, bm25.ErrDamaged) || errors.Is(err, bm25.ErrVersion) ||
		errors.Is(err, fs.ErrNotExist) || errors.Is(err, mapped.ErrNotAFile) || errors.Is(err, store.ErrNotFound) || errors.As(err, &damaged)
}

// openSegment opens the shelf in the file of a segment.
func (l *Library) openSegment(ctx context.Context, seg store.Segment) (*shelf, error) {
	var image []byte
	var owner *mapped.File
	var err error
	if seg.Path == "" {
		image, err = l.truth().Image(ctx, seg)
	} else if owner, err = mapped.Open(seg.Path); err == nil {
		image = owner.Bytes()
	}
	if err != nil {
		return nil, err
	}
	s, err := openShelf(seg.Name, image, owner)
	if err == nil && !slices.Equal(s.rows(), seg.Covers) {
		err = fmt.Errorf("open %s: %w: it holds other documents than it should", seg.Name, errShelf)
	}
	return s, err
}

// place finds out which documents on shelves are still in the base, and which of
// those in the base are on none. A nil shelf has none.
func place(shelves []*shelf, v store.View, before *Content) (out []placed, uncovered []int64) {
	held := map[*shelf]*placed{}
	if before != nil {
		for i := range before.shelves {
			held[before.shelves[i].shelf] = &before.shelves[i]
		}
	}
	found := make([]bool, len(v.Documents))
	for i, s := range shelves {
		if s == nil {
			continue
		}
		out = append(out, s.place(gone(s, v.Segments[i].Covers, v.Documents, found), held[s]))
	}
	for i, d := range v.Documents {
		if !found[i] {
			uncovered = append(uncovered, d.Row)
		}
	}
	return out, uncovered
}

// gone returns the documents of a shelf that are not in the base, and marks those
// that are as found. covers are the rows on the shelf, ascending as documents are.
func gone(s *shelf, covers []int64, documents []store.Stamp, found []bool) (gone bm25.Bitmap) {
	dead := map[int64]bool{}
	i := 0
	for _, row := range covers {
		for i < len(documents) && documents[i].Row < row {
			i++
		}
		if i == len(documents) || documents[i].Row != row || found[i] {
			dead[row] = true
			continue
		}
		found[i] = true
	}
	if len(dead) == 0 {
		return nil
	}
	for d := range s.texts.documents {
		if dead[s.texts.row(d)] {
			gone.Add(d)
		}
	}
	return gone
}
