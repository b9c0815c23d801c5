package main

import (
	"net/http"
	"strings"
	"testing"

	"sidenote/retrieval/embed/embedtest"
)

// Sources are found by words and vectors together. While the service hangs or fails the words
// answer in time, which is said wherever one looks, and nothing of it is kept: the next chat has
// both.
//
// Row K7 of deploy/CONTRIBUTING.md.
func TestServeSearchesVectors(t *testing.T) {
	t.Parallel()
	service := embedtest.Start(t)
	config, _, state := embedded(t, service, 6)
	p := serveIn(t, keyed, "--config", config, "--state", state)
	p.embeds(t, 6)
	hang := make(chan struct{})
	service.Break(func(int, embedtest.Request) embedtest.Fault {
		return func(w http.ResponseWriter, r embedtest.Request) {
			<-hang
			embedtest.Write(w, embedtest.AnswerTo(r))
		}
	})
	for range 2 {
		if status := p.chats(t); !strings.HasPrefix(status, "injected; ") || !strings.Contains(status, "; cache=miss; degraded=embed; ") {
			t.Errorf("the service hangs: %s", status)
		}
	}
	close(hang)
	for status := p.chats(t); strings.Contains(status, "degraded"); status = p.chats(t) {
		if !strings.HasPrefix(status, "injected; ") {
			t.Fatal(status)
		}
	}
	if status := p.chats(t); !strings.HasPrefix(status, "injected; ") || !strings.Contains(status, "; cache=hit; ") {
		t.Errorf("the service answers: %s", status)
	}
	if n := len(service.Asked()); n != 1 {
		t.Errorf("the question was sent %d times", n)
	}
	p.asks(t, http.MethodPost, "/v1/search", `{"query": "parental leave of number 3"}`, http.StatusOK, `"arm":"`, `"doc_id":"d03.md"`)
	dry := `{"model":"m","messages":[{"role":"user","content":"leave of number 4"}]}`
	if got := p.asks(t, http.MethodPost, "/v1/rewrite", dry, http.StatusOK); !strings.Contains(got, `"chunk_sources":{"`) || strings.Contains(got, `"chunk_sources":{"docs"`) {
		t.Errorf("dry run: %s", got)
	}
	service.Break(func(int, embedtest.Request) embedtest.Fault {
		return embedtest.Status(http.StatusInternalServerError, "")
	})
	p.asks(t, http.MethodPost, "/v1/search", `{"query": "leave of number 5"}`, http.StatusOK, `"degraded":"embed"`, `"doc_id":"d05.md"`)
	p.asks(t, http.MethodGet, "/metrics", "", http.StatusOK, `sidenote_degraded_total{reason="unavailable",stage="embed"} `)
	start(t, keyed, "search", "parental leave of number 3", "--config", config, "--state", state, "--explain").ends(t, exitDone, "without   embed", "")
	service.Break(nil)
	start(t, keyed, "search", "parental leave of number 3", "--config", config, "--state", state, "--explain").ends(t, exitDone, "cosine ", "")
}
