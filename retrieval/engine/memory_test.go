package engine_test

import (
	"testing"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
)

// The Server in memory passes the tests of all Servers, so that they test the Engine and the Writer.
func TestContract(t *testing.T) {
	servers := map[string]*enginetest.Memory{}
	enginetest.Run(t, func(_ *testing.T, prefix string) engine.Server {
		if servers[prefix] == nil {
			servers[prefix] = new(enginetest.Memory)
		}
		return servers[prefix]
	})
}

// Candidates with the statistics of the whole base are ranked as by an embedded base.
func TestRankingAsEmbedded(t *testing.T) {
	for name, step := range map[string]int{"scifact": 20, "cranfield": 4} {
		t.Run(name, func(t *testing.T) {
			server := new(enginetest.Memory)
			enginetest.Ranking(t, func(*testing.T, string) engine.Server { return server }, "../../../shared/ir/"+name, name, step, .005)
		})
	}
}
