package retrieval_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"sidenote/retrieval"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// words is the analyser of these tests, simple enough to apply by eye.
func words(text string) []string { return strings.Fields(strings.ToLower(text)) }

func hasWords(text string) bool { return len(words(text)) > 0 }

// catalog maps ids to generations.
type catalog map[string]string

func (c catalog) Ref(id string) (retrieval.Ref, bool) {
	generation, ok := c[id]
	return retrieval.Ref{Knowledge: id, Generation: generation}, ok
}

func refs(ids ...string) []retrieval.Ref {
	var list []retrieval.Ref
	for _, id := range ids {
		list = append(list, retrieval.Ref{Knowledge: id})
	}
	return list
}
