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
