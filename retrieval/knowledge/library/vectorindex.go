package library

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/index/dense"
	"sidenote/retrieval/knowledge/store"
)

// vectorsPage is how many vectors are read from the store at a time.
const vectorsPage = 1024

// IndexVectors makes a base searchable by the vectors of its passages that are in the store, and
// returns how many chunks have one. It writes only segments that have gained vectors.
func (l *Library) IndexVectors(ctx context.Context, id string) (embedded, of int, err error) {
	b := l.base(id)
	space, ok := l.spaceOf(id)
	if !ok || b.Content() == nil {
		return 0, 0, nil
	}
	if l.writes() {
		embedMeasures(ctx, l.state, space, b.Content().Segments())
	}
	// A merge meanwhile leaves segments that have not been looked at.
	seen, missed := map[string]bool{}, true
	for looks := 0; missed && looks < maxLooks; looks++ {
		if err := l.putAllVectors(ctx, id, space, seen); err != nil {
			return 0, 0, fmt.Errorf("index vectors of knowledge %s: %w", id, err)
		}
		if err := l.change(ctx, id, func(b *base) error { return b.refresh(ctx, true) }); err != nil {
			return 0, 0, err
		}
		c := b.Content()
		if c == nil {
			return 0, 0, nil
		}
		embedded, of = c.Embedded()
		missed = slices.ContainsFunc(c.Segments(), func(s index.Live) bool { return s.Name != "" && !seen[s.Name] })
	}
	return embedded, of, nil
}

// putAllVectors writes the vector files of a base's segments, except those in seen, and adds them
// to seen.
func (l *Library) putAllVectors(ctx context.Context, id string, space retrieval.Space, seen map[string]bool) error {
	c := l.base(id).Content()
	if c == nil || !l.writes() {
		return nil
	}
	for _, s := range c.Segments() {
		if s.Name == "" || seen[s.Name] {
			continue
		}
		seen[s.Name] = true
		err := c.Guard(func() error { return putVectors(ctx, l.state, id, s, space) })
		if damage := (*index.DamageError)(nil); errors.As(err, &damage) {
			l.base(id).met(damage) // it will be made again
		} else if err != nil {
			return err
		}
	}
	return nil
}

// WithVectors returns c, which is not in the library, with the vectors of its passages that are in
// the store. It is for commands that read documents themselves.
func (l *Library) WithVectors(ctx context.Context, id string, c *knowledge.Content) (*knowledge.Content, error) {
	space, ok := l.spaceOf(id)
	if !ok {
		return c, nil
	}
	if l.writes() {
		embedMeasures(ctx, l.state, space, c.Segments())
	}
	segments := slices.Clone(c.Segments())
	for i, s := range segments {
		image, err := makeVectors(ctx, l.state, s, space)
		if err != nil {
			return nil, fmt.Errorf("read vectors of knowledge %s: %w", id, err)
		}
		if image == nil {
			continue
		}
		v, err := index.OpenVectors("", image, nameOf(space), nil)
		if err != nil {
			return nil, err
		}
		if segments[i], err = s.WithVectors(v); err != nil {
			return nil, err
		}
	}
	return knowledge.WithVectors(ctx, c, segments, space, l.questions(ctx, space, knowledge.Probes()), l.questions(ctx, space, knowledge.TrialTexts(segments)))
}

// nameOf returns the name of a space in vector files.
func nameOf(s retrieval.Space) string {
	return fmt.Sprintf("%q %d %q", s.Model, s.Dimensions, s.Input)
}

func (l *state) spaceOf(base string) (retrieval.Space, bool) {
	if l.options.Space == nil {
		return retrieval.Space{}, false
	}
	return l.options.Space(base)
}

// putVectors writes the vector file of a segment, if there are more vectors than it has.
func putVectors(ctx context.Context, l *state, base string, s index.Live, space retrieval.Space) error {
	image, err := makeVectors(ctx, l, s, space)
	if err != nil || image == nil {
		return err
	}
	_, err = store.VectorFilesOf(l.currentStore()).Put(ctx, base, s.Name, image)
	if errors.Is(err, store.ErrNotFound) { // the segment was dropped meanwhile
		return nil
	}
	return err
}

// makeVectors returns the image of the vectors of a segment, nil if there are no more than it has.
// Existing vectors are not looked up again.
func makeVectors(ctx context.Context, l *state, s index.Live, space retrieval.Space) ([]byte, error) {
	if s.Dense.Len() == s.Postings.Len() {
		return nil, nil
	}
	kept, texts, keys := map[int][]byte{}, []int{}, []store.VectorKey{}
	read := func() error {
		found, err := store.VectorsOf(l.currentStore()).Get(ctx, keys...)
		for i, key := range keys {
			if v := found[key]; v != nil {
				kept[texts[i]] = v
			}
		}
		texts, keys = texts[:0], keys[:0]
		return err
	}
	for ref, passage := range (index.Segments{s}).Passages() {
		if passage == "" || s.Dense.Has(ref.Text) {
			continue
		}
		texts, keys = append(texts, ref.Text), append(keys, space.Key(passage))
		if len(keys) == vectorsPage {
			if err := read(); err != nil {
				return nil, err
			}
		}
	}
	if err := read(); err != nil || len(kept) == 0 {
		return nil, err
	}
	if err := s.KeptVectors(kept); err != nil {
		return nil, err
	}
	return s.MakeVectors(nameOf(space), kept)
}

// withVectors returns the segments of a view with their vectors. Those of a new segment are looked up
// in the store once; after that IndexVectors does it. A writer may have written some since the view.
func (b *base) withVectors(ctx context.Context, segments index.Segments, of view) (index.Segments, error) {
	space, wanted := b.state.spaceOf(b.ID())
	o := vectorOpener{base: b, space: space, view: of.View, files: of.Vectors}
	if wanted && b.state.writes() {
		var err error
		if o.files, err = store.VectorFilesOf(b.state.currentStore()).Of(ctx, b.ID()); err != nil {
			return nil, err
		}
	}
	out, looked, lost := make(index.Segments, len(segments)), map[string]bool{}, 0
	for i, l := range segments {
		var v *index.Vectors
		var err error
		if wanted {
			if v, err = o.of(ctx, l); err != nil {
				return nil, err
			}
			if _, is := o.files[l.Name]; is && v == nil && !b.state.writes() {
				lost++
			}
		}
		if out[i], err = l.WithVectors(v); err != nil {
			b.report(v.Name, err) // made for another segment: treated as missing
		}
		looked[l.Name] = true
	}
	b.looked = looked
	b.state.mu.Lock()
	b.lost = lost
	b.state.mu.Unlock()
	return out, nil
}

// LostVectors returns how many segments of a base have vector files according to the state folder
// that are missing or unusable. A writer makes them again; a follower finds these chunks by words
// only.
func LostVectors(l *Library, id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.bases[id]; b != nil {
		return b.lost
	}
	return 0
}

// A vectorOpener opens the vectors of a base's segments, and makes missing ones.
type vectorOpener struct {
	base  *base
	space retrieval.Space
	view  store.View
	files map[string]store.VectorFile // by segment name
}

// of returns the vectors of a segment, nil if it has none.
func (o vectorOpener) of(ctx context.Context, l index.Live) (*index.Vectors, error) {
	b := o.base
	if file, is := o.files[l.Name]; is && !b.badVectors[file.Name] {
		v, err := o.open(l, file)
		if err == nil {
			return v, nil
		}
		// After a change of the model every file has another version; after a merge a follower finds the
		// new files by its next look.
		merged := errors.Is(err, fs.ErrNotExist) && !b.state.writes() && b.state.moved(ctx, o.view)
		if !merged && !errors.Is(err, dense.ErrVersion) {
			b.report(file.Name, err)
		}
	}
	if l.Name != "" && (b.looked[l.Name] || !b.state.writes()) {
		return nil, nil
	}
	bare, err := l.WithVectors(nil)
	if err != nil {
		return nil, err
	}
	image, err := makeVectors(ctx, b.state, bare, o.space)
	if err != nil || image == nil {
		return nil, err
	}
	if l.Name != "" {
		file, err := store.VectorFilesOf(b.state.currentStore()).Put(ctx, b.ID(), l.Name, image)
		if err == nil {
			return o.open(bare, file)
		}
		if ctx.Err() != nil {
			return nil, err
		}
		b.report("", err) // for example, no disk space: they stay on the heap
	}
	return index.OpenVectors("", image, nameOf(o.space), nil)
}

// open opens a vector file, reusing the one that the base's Content has open.
func (o vectorOpener) open(l index.Live, file store.VectorFile) (*index.Vectors, error) {
	if v := l.Vectors; v != nil && v.Name == file.Name && v.Space() == nameOf(o.space) {
		return v, nil
	}
	if file.Path == "" {
		image, err := store.VectorFilesOf(o.base.state.currentStore()).Image(file)
		if err != nil {
			return nil, err
		}
		return index.OpenVectors(file.Name, image, nameOf(o.space), nil)
	}
	owner, err := bm25.OpenMapped(file.Path)
	if err != nil {
		return nil, err
	}
	return index.OpenVectors(file.Name, owner.Bytes(), nameOf(o.space), owner)
}
