// Package demo has the parts of the demo command: a small corpus,
// a stub upstream that answers only from the sources it is sent, and the
// screen. It knows nothing of the proxy between them.
package demo

import (
	"embed"
	"io/fs"
)

// Question is what the demo asks unless told otherwise.
const Question = "How many weeks of parental leave do I get?"

// SystemText is what the demo's app tells the model.
const SystemText = "You are the HR assistant."

//go:embed corpus
var corpus embed.FS

// Corpus is the handbook of an invented company: 14 Markdown files, one of them in French,
// one outdated and almost the same as a part of another.
func Corpus() fs.FS {
	sub, err := fs.Sub(corpus, "corpus")
	if err != nil {
		panic("BUG: the corpus is not embedded: " + err.Error())
	}
	return sub
}
