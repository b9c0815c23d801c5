package opensearch_test

import (
	"net/url"
	"path/filepath"
	"testing"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
)

// opener opens Servers in a namespace of the test's own.
func opener(t *testing.T) enginetest.Opener {
	t.Helper()
	at, own := address(t), namespace(t)
	return func(t *testing.T, prefix string) engine.Server {
		t.Helper()
		return openAs(t, engine.Connection{URL: []*url.URL{at}, Namespace: own + "_" + prefix})
	}
}

func TestContract(t *testing.T) { enginetest.Run(t, opener(t)) }

// TestRankingIsThatOfAnEmbeddedBase compares nDCG@10.
func TestRankingIsThatOfAnEmbeddedBase(t *testing.T) {
	step := map[string]int{"cranfield": 5, "scifact": 6, "drcd": 100}
	for _, name := range enginetest.Collections() {
		t.Run(name, func(t *testing.T) {
			enginetest.Ranking(t, opener(t), filepath.Join("../../../shared/ir", name), name, step[name], .02)
		})
	}
}
