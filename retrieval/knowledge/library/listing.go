package library

import (
	"context"
	"slices"
	"time"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/store"
)

// listedFiles limits the files of a base of which a listing is kept, at some 150 bytes each.
const listedFiles = 50_000

// A listing is which documents a base had after a Sync, by file. While it is true, the next Sync
// reads only the documents of files that have changed from the store.
type listing struct {
	version int64 // of the base
	sum     chunk.Sum
	files   map[string]listed
}

// listed is what the documents of a file were read from.
type listed struct {
	documents int
	mixed     bool // they are not all of the same version of the file
	size      int64
	modified  time.Time
	mark      int64
	as        read
}

// add adds a document of the file.
func (l listed) add(k store.Known) listed {
	is := listed{size: k.Size, modified: k.Modified, mark: k.Mark}
	copy(is.as.reader[:], k.Hash[:])
	copy(is.as.rules[:], k.Hash[len(is.as.reader):])
	is.documents, is.mixed = l.documents+1, l.mixed || l.documents > 0 && !l.same(is)
	return is
}

func (l listed) same(o listed) bool {
	return l.size == o.size && l.modified.Equal(o.modified) && l.mark == o.mark && l.as == o.as
}

// is reports whether the documents, if there are any, are those of this version of the file.
func (l listed) is(f *syncFile) bool {
	return l.documents == 0 || !l.mixed && l.same(f.listed())
}

// listed returns what is listed once the documents of the file are written.
func (f *syncFile) listed() listed {
	return listed{documents: f.held, size: f.size, modified: f.modified, mark: f.changed, as: f.as}
}

// list finds out which documents the base has. Those of files that have not changed need not be
// known if the base is as the last Sync left it.
func (s *syncing) list(ctx context.Context, was store.Base) error {
	last := s.b.listing
	s.b.listing = nil // until this Sync ends well
	if last != nil && !s.anew && last.version == was.Version && last.sum == was.Sum {
		s.listed, s.partly = last.files, true
		return nil
	}
	s.listed = map[string]listed{}
	for k, err := range s.l.currentStore().Known(ctx, s.b.ID()) {
		if err != nil {
			return err
		}
		s.ids[k.ID] = k
		if k.Source != "" {
			s.listed[k.Source] = s.listed[k.Source].add(k)
		}
	}
	return nil
}

// holdChanged reads which documents come from files that have changed or are gone.
func (s *syncing) holdChanged(ctx context.Context, files []*syncFile) error {
	if !s.partly {
		return nil
	}
	var sources []string
	for _, f := range files {
		if !f.unchanged && s.listed[f.name].documents > 0 {
			sources = append(sources, f.name)
		}
	}
	for name := range s.listed {
		if !s.names[name] && !s.kept[name] {
			sources = append(sources, name)
		}
	}
	if len(sources) == 0 {
		return nil
	}
	known, err := s.l.currentStore().KnownOf(ctx, s.b.ID(), sources)
	for _, k := range known {
		s.ids[k.ID] = k
	}
	return err
}

// hold reads those documents of other files that have the id of one of these.
func (s *syncing) hold(ctx context.Context, documents []chunk.Document) error {
	if !s.partly {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var unknown []string
	for _, d := range documents {
		if _, ok := s.ids[d.ID]; !ok {
			unknown = append(unknown, d.ID)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	known, err := s.l.currentStore().Lookup(ctx, s.b.ID(), unknown...)
	for id, k := range known {
		s.ids[id] = k
	}
	return err
}

// held returns the document with an id that the base had before.
func (s *syncing) held(id string) (store.Known, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.ids[id]
	return k, ok
}

// taken reports whether a document with this id is in a file that was looked at before.
func (s *syncing) taken(id string) bool {
	if s.seen[id] {
		return true
	}
	k, ok := s.held(id)
	return ok && s.kept[k.Source]
}

// keepListing keeps the listing for the next Sync.
func (s *syncing) keepListing(is store.Base) {
	if !s.moved && len(s.next) <= listedFiles {
		s.b.listing = &listing{version: is.Version, sum: is.Sum, files: s.next}
	}
}

// touch notes the times of documents that have not changed. Until then their file counts as
// changed, so it can be done when the base already answers from what has.
func (s *syncing) touch(ctx context.Context) error {
	for part := range slices.Chunk(s.touched, touchDocuments) {
		if err := s.l.currentStore().Touch(ctx, s.b.ID(), part); err != nil {
			return err
		}
	}
	s.touched = nil
	return nil
}

// differs reports whether a document in the store has other times or another hash.
func differs(old, k store.Known) bool {
	return old.Size != k.Size || !old.Modified.Equal(k.Modified) || old.Mark != k.Mark || old.Hash != k.Hash
}
