package opensearch_test

import (
	"net/url"
	"path/filepath"
	"testing"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
	"sidenote/retrieval/opensearch/opensearchtest"
)

// opener opens Servers in a namespace of the test's own.
func opener(t *testing.T) enginetest.Opener {
	t.Helper()
	at, own := opensearchtest.URL(t), namespace(t)
	return func(t *testing.T, prefix string) engine.Server {
		t.Helper()
		return openAs(t, engine.Connection{URL: []*url.URL{at}, Namespace: own + "_" + prefix})
	}
}

func TestContract(t *testing.T) { enginetest.Run(t, opener(t)) }

// TestRankingIsThatOfAnEmbeddedBase compares nDCG@10.
func TestRankingIsThatOfAnEmbeddedBase(t *testing.T) {
	collections := map[string]int{"cranfield": 3, "scifact": 6, "drcd": 100}
	if testing.Short() {
		collections = map[string]int{"cranfield": 10}
	}
	for name, step := range collections {
		t.Run(name, func(t *testing.T) {
			enginetest.Ranking(t, opener(t), filepath.Join("../../../shared/ir", name), name, step, .02)
		})
	}
}
