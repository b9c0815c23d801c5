package library

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/store"
)

// A reader converts documents for the store and the index.
type reader struct {
	deps    knowledge.Deps
	readers knowledge.Readers
}

// names returns the reader names as they begin document hashes.
func (r reader) names() []store.Reader {
	names := make([]store.Reader, len(r.readers))
	for i, name := range r.readers {
		names[i] = store.Reader(name)
	}
	return names
}

// read identifies how a document is read. rules is zero for a document written by Put.
type read struct {
	reader knowledge.ReaderName    // for the format of its file
	rules  [folder.RulesBytes]byte // for its attributes
}

// prefix returns the beginning of the hashes of documents that are read this way. If it changes,
// the file must be read again.
func (r read) prefix() []byte { return slices.Concat(r.reader[:], r.rules[:]) }

// put is how documents written by Put are read.
func (r reader) put() read { return read{reader: r.readers.OfPut()} }

// hash returns the identity of a document as it was read: its prefix and digest. A document with
// the same hash need not be read again.
func (r read) hash(sum chunk.Sum) (hash [32]byte) {
	copy(hash[:], r.prefix())
	copy(hash[knowledge.ReaderBytes+folder.RulesBytes:], sum[:])
	return hash
}

// isPut reports whether a stored document, zero for none, is d as Put writes it.
func (r reader) isPut(k store.Known, d chunk.Document) bool {
	return k.ID == d.ID && k.Source == "" && k.Hash == r.put().hash(d.Digest())
}

// current reports whether a document with this hash was cut by a reader of this process.
func (r reader) current(hash [32]byte) bool {
	return r.readers.Has(knowledge.ReaderName(hash[:knowledge.ReaderBytes]))
}

// stale returns the contribution to the sum of a base of documents cut by other readers: this
// reader would make different chunks, so the generation must differ.
func (r reader) stale(others []store.Stamp) (sum chunk.Sum) {
	for _, d := range others {
		sum = sum.Add(sha256.Sum256(chunk.Fields("stale", string(d.Hash[:]))))
	}
	return sum
}

// cutAll cuts documents in parallel.
func (r reader) cutAll(ctx context.Context, base string, documents []chunk.Document) ([]store.Document, error) {
	out := make([]store.Document, len(documents))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(r.deps.Parallel())
	for i, d := range documents {
		g.Go(func() error {
			cut, err := r.deps.Cut(base, d)
			if err != nil {
				return fmt.Errorf("document %q: %w", d.ID, err)
			}
			out[i] = r.document(cut, r.put())
			return gctx.Err()
		})
	}
	return out, g.Wait()
}

// document returns a document in the form of the store.
func (r reader) document(cut knowledge.Cut, as read) store.Document {
	d := store.Document{ID: cut.ID, Name: cut.Name, Kind: "text", Hash: as.hash(cut.Sum), Attributes: cut.Attributes, Sum: cut.Sum}
	if cut.Markdown {
		d.Kind = "markdown"
	}
	d.Chunks = make([]store.Chunk, len(cut.Chunks))
	for i, p := range cut.Chunks {
		d.Chunks[i] = store.Chunk{Section: p.Section, Text: p.Text, Tokens: make(map[string]int, len(r.deps.Encodings))}
		for encoding, counter := range r.deps.Encodings {
			if n, exact := counter.Count(p.Text); exact {
				d.Chunks[i].Tokens[encoding] = n
			}
		}
	}
	return d
}

// indexed returns a stored document in the form for the index. Token counts by another reader are
// left out, as this one may count differently.
func (r reader) indexed(e *store.Entry) index.Document {
	counted := r.current(e.Hash)
	d := index.Document{Row: e.Row, ID: e.ID, Name: e.Name, Attributes: chunk.Encoded(e.Attributes), Chunks: make([]chunk.Chunk, len(e.Chunks))}
	for i, c := range e.Chunks {
		d.Chunks[i] = chunk.Chunk{Section: c.Section, Text: c.Text}
		if !counted {
			continue
		}
		for _, encoding := range slices.Sorted(maps.Keys(c.Tokens)) {
			d.Chunks[i].Counts = append(d.Chunks[i].Counts, chunk.Count{Counter: chunk.CounterName(r.deps.Version, encoding), Tokens: c.Tokens[encoding]})
		}
	}
	return d
}
