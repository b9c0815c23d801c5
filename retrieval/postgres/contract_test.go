package postgres_test

import (
	"path/filepath"
	"testing"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
)

// opener returns an Opener of Servers of a new database for each prefix.
func opener(t *testing.T) enginetest.Opener {
	t.Helper()
	databases := map[string]string{}
	return func(inner *testing.T, prefix string) engine.Server {
		address, ok := databases[inner.Name()+prefix]
		if !ok {
			address = enginetest.Database(inner)
			databases[inner.Name()+prefix] = address
		}
		return open(inner, address, nil)
	}
}

func TestContract(t *testing.T) { enginetest.Run(t, opener(t)) }

// Words are ranked as in an embedded base.
func TestRanking(t *testing.T) {
	step := map[string]int{"cranfield": 3, "drcd": 70, "scifact": 4}
	for _, collection := range enginetest.Collections() {
		t.Run(collection, func(t *testing.T) {
			enginetest.Ranking(t, opener(t), filepath.Join("../../../shared/ir", collection), collection, step[collection], .02)
		})
	}
}
