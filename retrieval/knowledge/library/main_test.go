package library_test

import (
	"testing"

	"sidenote/retrieval/knowledge/knowledgetest"
)

func TestMain(m *testing.M) {
	knowledgetest.ShortChecks(6)
	knowledgetest.Main(m, children())
}

// fatal is a test, benchmark or rapid test.
type fatal interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
