package engine

import (
	"context"
	"os"
	"os/exec"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/extract/child"
	"sidenote/retrieval/knowledge/library"
	"sidenote/rewrite/tags"
	"sidenote/rewrite/tokens"
)

// A Reader has what documents are read with: the tokenizer that measures chunks, and the
// child processes that read PDF and DOCX.
type Reader struct {
	encodings   *tokens.Set
	counter     retrieval.Counter // of chunks
	children    *child.Runner
	neutralised func(base string, tags int) // hears of tags that were made harmless; may be nil
}

// ChunkEncoding measures chunks; the models that read them may count otherwise.
const ChunkEncoding = "o200k_base"

// NewReader returns what reads documents.
func NewReader() (*Reader, error) {
	encodings := tokens.New()
	counter, err := encodings.Encoding(ChunkEncoding)
	return &Reader{encodings: encodings, counter: counter, children: children()}, err
}

// Deps are what bases are read with.
func (r *Reader) Deps() knowledge.Deps {
	return knowledge.Deps{Counter: r.counter, Child: r.children, Version: ChunkEncoding + " " + tokens.Version + " " + tags.Version, Neutralise: r.neutralise}
}

// neutralise makes tags in a text of a base harmless.
func (r *Reader) neutralise(base, text string) string {
	clean, n := tags.Vocabulary{}.Neutralise(text, false)
	if n > 0 && r.neutralised != nil {
		r.neutralised(base, n)
	}
	return clean
}

// stateDeps are what a state folder is opened with. Where it is written, the tokens of
// chunks are counted once, in the encodings of today's models.
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
	reader, err := NewReader()
	if err != nil {
		return nil, err
	}
	deps, err := reader.stateDeps(!options.ReadOnly)
	if err != nil {
		return nil, err
	}
	return library.Open(ctx, path, deps, options)
}

// ChildCommand is the argument with which this program starts itself to read one file. It
// is not for people, and in no help.
const ChildCommand = "extract-child"

// children runs this very program, even if its file was replaced since the start, and
// pdftotext where that is installed.
func children() *child.Runner {
	self := "/proc/self/exe"
	if _, err := os.Stat(self); err != nil {
		if self, err = os.Executable(); err != nil {
			return nil
		}
	}
	pdfToText, err := exec.LookPath("pdftotext")
	if err != nil {
		pdfToText = ""
	}
	return child.New([]string{self, ChildCommand}, pdfToText)
}
