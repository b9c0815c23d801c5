package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
)

// put writes the new and changed documents of the batch.
func (s *syncing) put(ctx context.Context) error {
	var documents []Document
	for i := range s.batch {
		f := &s.batch[i]
		for j := range f.documents {
			cut := &f.documents[j]
			if s.seen[cut.ID] && s.known[cut.ID].Source != f.name {
				s.account.Skip(folder.Duplicate(cut.ID))
				continue
			}
			s.seen[cut.ID] = true
			d, changed, err := s.document(f, cut)
			if err != nil {
				return err
			}
			if changed {
				documents = append(documents, d)
			}
		}
	}
	s.batch = nil
	if err := s.embed(ctx, documents); err != nil {
		return err
	}
	all := len(documents)
	documents = slices.DeleteFunc(documents, s.isStored)
	s.account.Report.Written += len(documents)
	s.account.Report.Unchanged += all - len(documents)
	if len(documents) == 0 {
		return nil
	}
	if err := s.lease.Put(ctx, documents, nil); err != nil {
		return err
	}
	s.note(documents)
	return nil
}

// document returns a document for the engine, and whether it has changed.
func (s *syncing) document(f *cutFile, cut *knowledge.Cut) (Document, bool, error) {
	was, known := s.known[cut.ID]
	if known && was.Sum == cut.Sum && s.whole(was) && was.Source == f.name {
		s.account.Report.Unchanged++
		return Document{}, false, nil
	}
	d := Document{ID: cut.ID, Name: cut.Name, Source: f.name, Stamp: s.stored(f.stamp), Sum: cut.Sum, Attributes: chunk.Encoded(cut.Attributes)}
	s.count(cut.Chunks)
	if err := s.analyser.document(&d, cut.Chunks); err != nil {
		return d, false, err
	}
	if !known {
		s.account.Report.Added++
	}
	return d, true, nil
}

// isStored reports whether a document is in the base already with all vectors that it got, as when no
// more of them can be made.
func (s *syncing) isStored(d Document) bool {
	was, known := s.known[d.ID]
	return known && was.Sum == d.Sum && was.Source == d.Source && d.embedded() == was.Embedded && (was.Embedded == 0 || markOf(was) == s.mark)
}

// embedded returns the number of chunks that have a vector.
func (d *Document) embedded() (n int) {
	for i := range d.Chunks {
		if d.Chunks[i].Vector != nil {
			n++
		}
	}
	return n
}

// count counts the tokens of chunks.
func (s *syncing) count(chunks []chunk.Chunk) {
	for i := range chunks {
		c := &chunks[i]
		for _, encoding := range slices.Sorted(maps.Keys(s.Deps.Encodings)) {
			if n, exact := s.Deps.Encodings[encoding].Count(c.Text); exact {
				c.Counts = append(c.Counts, chunk.Count{Counter: chunk.CounterName(s.Deps.Version, encoding), Tokens: n})
			}
		}
	}
}

// note records documents that were written.
func (s *syncing) note(documents []Document) {
	for i := range documents {
		d := &documents[i]
		s.sums[d.ID], s.embedded[d.ID], s.chunks[d.ID] = d.Sum, d.embedded(), len(d.Chunks)
	}
}

// removeRest deletes the documents of files that are gone, or yield them no more.
func (s *syncing) removeRest(ctx context.Context) error {
	var rest []string
	for id, k := range s.known {
		if (k.Source != "" || s.all) && !s.seen[id] {
			rest = append(rest, id)
		}
	}
	slices.Sort(rest)
	for ids := range slices.Chunk(rest, putFiles) {
		if err := s.lease.Put(ctx, nil, ids); err != nil {
			return err
		}
		for _, id := range ids {
			delete(s.sums, id)
			delete(s.embedded, id)
			delete(s.chunks, id)
		}
	}
	s.account.Report.Removed, s.account.Report.Gone = len(rest), rest
	return nil
}

// generation returns the generation of all documents, and the space of their vectors. The same
// documents, all embedded, have the same generation whoever writes them.
func (s *syncing) generation() (generation, space string) {
	var sum chunk.Sum
	embedded, chunks := 0, 0
	parts := []string{"sidenote engine", rankVersion}
	for id, own := range s.sums {
		sum = sum.Add(own)
		embedded, chunks = embedded+s.embedded[id], chunks+s.chunks[id]
	}
	if embedded > 0 {
		space = s.space
		parts = append(parts, space, s.mark)
		if embedded < chunks { // which of them have a vector differs
			for _, id := range slices.Sorted(maps.Keys(s.embedded)) {
				parts = append(parts, id, fmt.Sprint(s.embedded[id]))
			}
		}
	}
	return knowledge.Generation(sum, s.Deps.Version+" "+string(chunk.Fields(parts...))), space
}

// finish makes what was written visible, measures it, and removes what is not visible any more.
func (s *syncing) finish(ctx context.Context) error {
	generation, space := s.generation()
	states, err := s.Server.States(ctx, []string{s.Base})
	if err != nil {
		return err
	}
	if states[0].Generation != generation {
		if err := s.lease.Commit(ctx, generation, space); err != nil {
			return err
		}
		if states, err = s.Server.States(ctx, []string{s.Base}); err != nil {
			return err
		}
	}
	s.report(&states[0])
	if err := s.measure(ctx, states[0]); err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	for more := true; more; {
		if more, err = s.lease.Clean(ctx, graceTime); err != nil {
			return err
		}
	}
	return nil
}

// report completes the report.
func (s *syncing) report(state *State) {
	r := &s.account.Report
	r.Chunks, r.Bytes = state.Chunks, int(state.Bytes)
	r.Sort()
	s.Embedding.Chunks = state.Chunks
	s.Embedding.Had = max(0, state.Embedded-s.Embedding.Made)
	if s.Passages == nil {
		s.Embedding = Embedding{}
	}
	s.Embedding.Err = cmp.Or(s.stopped, s.Embedding.Err)
}
