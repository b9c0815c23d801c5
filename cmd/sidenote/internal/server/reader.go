package server

import (
	"context"
	"os"
	"path/filepath"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/extract/pdf"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
	"sidenote/rewrite/tags"
	"sidenote/rewrite/tokens"
)

// A Reader holds what reading documents takes: the tokenizer that measures chunks, and the PDF
// reader.
type Reader struct {
	encodings   *tokens.Set
	counter     retrieval.Counter // of chunks
	pdf         *pdf.Reader
	room        *folder.MemoryLimit
	apart       *folder.ChildReader
	neutralised func(base string, tags int) // told of escaped tags; may be nil
}

// ChunkEncoding is the encoding that measures chunks; models may count differently.
const ChunkEncoding = "o200k_base"

// NewReader returns a Reader. state is the state folder, or "" for none.
func NewReader(state string) (*Reader, error) {
	encodings := tokens.New()
	counter, err := encodings.Encoding(ChunkEncoding)
	code := codeFolder(state)
	return &Reader{encodings: encodings, counter: counter, pdf: pdf.New(code), room: folder.NewMemoryLimit(), apart: folder.NewChildReader(code)}, err
}

// codeFolder returns the folder for the compiled code of the PDF reader: in an existing state
// folder, else in the user's cache folder, as a command without a state would otherwise compile
// for seconds each time. It returns "" if there is neither.
func codeFolder(state string) string {
	if folder := store.CodeFolder(state); folder != "" {
		if _, err := os.Stat(state); err == nil {
			return folder
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	// No folder in between: if another user owned it, they could put in other code.
	return filepath.Join(cache, "sidenote")
}

// Deps returns what bases need for reading documents.
func (r *Reader) Deps() knowledge.Deps {
	return knowledge.Deps{Counter: r.counter, PDF: r.pdf, Memory: r.room, ChildReader: r.apart, Version: ChunkEncoding + " " + tokens.Version + " " + tags.Version, Neutralise: r.neutralise}
}

// neutralise escapes tags in a text of a base.
func (r *Reader) neutralise(base, text string) string {
	clean, n := tags.Vocabulary{}.Neutralise(text, false)
	if n > 0 && r.neutralised != nil {
		r.neutralised(base, n)
	}
	return clean
}

// stateDeps returns what a state folder is opened with. A writer counts the tokens of chunks once,
// in the encodings of current models.
func (r *Reader) stateDeps(writing bool) (knowledge.Deps, error) {
	deps := r.Deps()
	if !writing {
		return deps, nil
	}
	deps.Encodings = map[string]retrieval.Counter{}
	for _, name := range []string{ChunkEncoding, "cl100k_base"} {
		encoding, err := r.encodings.Encoding(name)
		if err != nil {
			return knowledge.Deps{}, err
		}
		deps.Encodings[name] = encoding
	}
	return deps, nil
}

// OpenLibrary opens a state folder for a command that does not serve.
func OpenLibrary(ctx context.Context, path string, options library.Options) (*library.Library, error) {
	reader, err := NewReader(path)
	if err != nil {
		return nil, err
	}
	deps, err := reader.stateDeps(!options.ReadOnly)
	if err != nil {
		return nil, err
	}
	return library.Open(ctx, path, deps, options)
}
