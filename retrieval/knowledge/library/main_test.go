package library_test

import (
	"testing"

	"sidenote/retrieval/knowledge/knowledgetest"
)

func TestMain(m *testing.M) { knowledgetest.Main(m, children()) }

// fatal is what tests, benchmarks and rapid have in common.
type fatal interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
