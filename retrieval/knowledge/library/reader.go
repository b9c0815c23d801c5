package library

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/store"
)

// A reader is what turns documents into what the store and the index take.
type reader struct {
	deps    knowledge.Deps
	readers knowledge.Readers
}

// names returns those of the readers as hashes begin with them.
func (r reader) names() []store.Reader {
	names := make([]store.Reader, len(r.readers))
	for i, name := range r.readers {
		names[i] = store.Reader(name)
	}
	return names
}

// read says how a document is read. For one that Put writes, rules is zero.
type read struct {
	reader knowledge.ReaderName    // of the format of its file
	rules  [folder.RulesBytes]byte // for its attributes
}

// prefix begins the hashes of documents that are read so. Where it changes, the file has to
// be read again.
func (r read) prefix() []byte { return slices.Concat(r.reader[:], r.rules[:]) }

// put is how documents are read that Put writes.
func (r reader) put() read { return read{reader: r.readers.OfPut()} }

// hash returns the identity of a document as it was read: its prefix and the digest of the
// document. A document whose hash is the same need not be read again.
func (r read) hash(sum chunk.Sum) (hash [32]byte) {
	copy(hash[:], r.prefix())
	copy(hash[knowledge.ReaderBytes+folder.RulesBytes:], sum[:])
	return hash
}

// current tells whether a document of this hash was cut as this process would cut it.
func (r reader) current(hash [32]byte) bool {
	return r.readers.Has(knowledge.ReaderName(hash[:knowledge.ReaderBytes]))
}

// stale returns what documents that another reader has cut add to the sum of a base: their
// chunks are not those that this reader would make, so the generation must differ.
func (r reader) stale(others []store.Stamp) (sum chunk.Sum) {
	for _, d := range others {
		sum = sum.Add(sha256.Sum256(chunk.Fields("stale", string(d.Hash[:]))))
	}
	return sum
}

// cutAll cuts documents side by side.
func (r reader) cutAll(ctx context.Context, base string, documents []chunk.Document) ([]store.Document, error) {
	out := make([]store.Document, len(documents))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
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

// document returns a document that was read so in the form of the store.
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

// indexed returns a document of the store as it goes into the index. What another reader
// counted is left out, as this one may count otherwise.
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
