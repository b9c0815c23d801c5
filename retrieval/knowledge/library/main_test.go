package library_test

import (
	"flag"
	"testing"

	"sidenote/retrieval/knowledge/knowledgetest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); testing.Short() && f.Value.String() == f.DefValue {
		if err := f.Value.Set("30"); err != nil { // of which rapid runs a fifth
			panic(err)
		}
	}
	knowledgetest.Main(m, children())
}

// fatal is a test, benchmark or rapid test.
type fatal interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
