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
	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/store"
)

// A reader is what turns documents into what the store and the index take.
type reader struct {
	deps knowledge.Deps
	name [knowledge.ReaderBytes]byte // see knowledge.Deps.Reader
}

// hash returns the identity of a document as it was read: the name of the reader, that of
// the rules for attributes (zero for one that Put wrote), and the digest of the document.
// A document whose hash is the same need not be read again.
func (r reader) hash(rules [folder.RulesBytes]byte, sum document.Sum) (hash [32]byte) {
	copy(hash[:], r.name[:])
	copy(hash[knowledge.ReaderBytes:], rules[:])
	copy(hash[knowledge.ReaderBytes+folder.RulesBytes:], sum[:])
	return hash
}

// stale returns what documents that another reader has cut add to the sum of a base: their
// chunks are not those that this reader would make, so the generation must differ.
func (r reader) stale(documents []store.Stamp) (sum document.Sum) {
	for _, d := range documents {
		if [knowledge.ReaderBytes]byte(d.Hash[:knowledge.ReaderBytes]) != r.name {
			sum = sum.Add(sha256.Sum256(document.Fields("stale", string(d.Hash[:]))))
		}
	}
	return sum
}

// cutAll cuts documents side by side.
func (r reader) cutAll(ctx context.Context, base string, documents []document.Document) ([]store.Document, error) {
	out := make([]store.Document, len(documents))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, d := range documents {
		g.Go(func() error {
			cut, err := r.deps.Cut(base, d)
			if err != nil {
				return fmt.Errorf("document %q: %w", d.ID, err)
			}
			out[i] = r.document(cut, folder.Rules{}.Name)
			return gctx.Err()
		})
	}
	return out, g.Wait()
}

// document returns a document in the form of the store; rules gave it its attributes.
func (r reader) document(cut knowledge.Cut, rules [folder.RulesBytes]byte) store.Document {
	d := store.Document{ID: cut.ID, Name: cut.Name, Kind: "text", Hash: r.hash(rules, cut.Sum), Attributes: cut.Attributes, Sum: cut.Sum}
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
	d := index.Document{Row: e.Row, ID: e.ID, Name: e.Name, Attributes: document.Encoded(e.Attributes), Chunks: make([]chunk.Chunk, len(e.Chunks))}
	for i, c := range e.Chunks {
		d.Chunks[i] = chunk.Chunk{Section: c.Section, Text: c.Text}
		if [knowledge.ReaderBytes]byte(e.Hash[:knowledge.ReaderBytes]) != r.name {
			continue
		}
		for _, encoding := range slices.Sorted(maps.Keys(c.Tokens)) {
			d.Chunks[i].Counts = append(d.Chunks[i].Counts, chunk.Count{Counter: chunk.CounterName(r.deps.Version, encoding), Tokens: c.Tokens[encoding]})
		}
	}
	return d
}
