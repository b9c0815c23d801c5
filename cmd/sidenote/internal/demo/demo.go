// Package demo provides the parts of the demo command: a small corpus, a stub upstream that
// answers only from the sources it is sent, and the screen. It is independent of the proxy between
// them.
package demo

import (
	"embed"
	"io/fs"
)

// Question is the default question of the demo.
const Question = "How many weeks of parental leave do I get?"

// SystemText is the system prompt of the demo's app.
const SystemText = "You are the HR assistant."

//go:embed corpus
var corpus embed.FS

// Corpus returns the handbook of an invented company: 14 Markdown files, one in French, and one
// outdated and nearly a duplicate of a part of another.
func Corpus() fs.FS {
	sub, err := fs.Sub(corpus, "corpus")
	if err != nil {
		panic("BUG: the corpus is not embedded: " + err.Error())
	}
	return sub
}
