package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sidenote/retrieval/services/servicestest"
)

// Sources are found by words and vectors together. While the service hangs or fails the word search
// answers in time, every status shows it, and the result is not cached: the next chat uses both.
//
// Row K7 of deploy/CONTRIBUTING.md.
func TestServeSearchesVectors(t *testing.T) {
	t.Parallel()
	service := servicestest.Start(t)
	config, _, state := embedded(t, service, 6)
	p := serveIn(t, keyed, "--config", config, "--state", state)
	p.embeds(t, 6)
	hang := make(chan struct{})
	service.Break(func(int, servicestest.Request) servicestest.Fault {
		return func(w http.ResponseWriter, r servicestest.Request) {
			<-hang
			servicestest.Write(w, servicestest.AnswerTo(r))
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
	service.Break(func(int, servicestest.Request) servicestest.Fault {
		return servicestest.Status(http.StatusInternalServerError, "")
	})
	p.asks(t, http.MethodPost, "/v1/search", `{"query": "leave of number 5"}`, http.StatusOK, `"degraded":"embed"`, `"doc_id":"d05.md"`)
	p.asks(t, http.MethodGet, "/metrics", "", http.StatusOK, `sidenote_degraded_total{reason="timeout",stage="embed"} `)
	start(t, keyed, "search", "parental leave of number 3", "--config", config, "--state", state, "--explain").ends(t, exitDone, "without   embed", "")
	service.Break(nil)
	start(t, keyed, "search", "parental leave of number 3", "--config", config, "--state", state, "--explain").ends(t, exitDone, "cosine ", "")
}

// Whatever happens to the question's vector, the word search answers, and status, dry run, metrics
// and log say why the vector is missing.
//
// Row K7 of deploy/CONTRIBUTING.md.
func TestEmbedReasons(t *testing.T) {
	t.Parallel()
	service := servicestest.Start(t)
	config, _, state := embedded(t, service, 6)
	p := serveIn(t, keyed, "--config", config, "--state", state)
	p.embeds(t, 6)
	leaving := make(chan struct{})
	defer close(leaving)
	text := func(body string) servicestest.Fault {
		return func(w http.ResponseWriter, _ servicestest.Request) { _, _ = w.Write([]byte(body)) }
	}
	faults := map[string]servicestest.Fault{
		"↔": func(http.ResponseWriter, servicestest.Request) { <-leaving },
		"↓": servicestest.Status(http.StatusInternalServerError, ""),
		"✗": servicestest.Status(http.StatusUnauthorized, ""),
		"☁": text("no vectors today"),
		"☂": text(`{"error": {"message": "quota exceeded"}}`),
		"←": func(w http.ResponseWriter, r servicestest.Request) {
			r.Dimensions = 8
			servicestest.Write(w, servicestest.AnswerTo(r))
		},
		"◇": func(w http.ResponseWriter, r servicestest.Request) { servicestest.Write(w, servicestest.Answer{}) },
		"∞": text(`{"data": [{"index": 0, "embedding": [1e999]}]}`),
		"○": text(`{"data": [{"index": 0, "embedding": [` + strings.Repeat("0,", servicestest.Dimensions-1) + `0]}]}`),
	}
	service.Break(func(_ int, r servicestest.Request) servicestest.Fault {
		for word, fault := range faults {
			if strings.Contains(r.Input[0], word) {
				return fault
			}
		}
		return nil
	})
	for _, c := range []struct{ sign, reason string }{ // what works stands between what fails, or nobody is asked any more
		{"◇", "invalid"}, {"✗", "error"}, {"!", ""}, {"↓", "error"}, {"!!", ""}, {"☂", "invalid"}, {"←", "invalid"},
		{"∞", "invalid"}, {"!!!", ""}, {"☁", "error"}, {"!!!!", ""}, {"○", "invalid"}, {"!!!!!", ""}, {"↔", "timeout"},
	} {
		question := "How many weeks of parental leave? " + c.sign
		status := plannedFor(t, p, "key-of-caller", question)
		want := "; degraded=embed; embed=" + c.reason + "; "
		if c.reason == "timeout" {
			want += "late=1; "
		}
		if !strings.HasPrefix(status, "injected; sources=") || strings.Contains(status, "embed") != (c.reason != "") || c.reason != "" && !strings.Contains(status, want) {
			t.Errorf("%s: %s, want %s", c.sign, status, want)
		}
		dry := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, question)
		if got := p.asks(t, http.MethodPost, "/v1/rewrite", dry, http.StatusOK); strings.Contains(got, `"embed":"`) != (c.reason != "") || c.reason != "" && !strings.Contains(got, `"embed":"`+c.reason+`"`) {
			t.Errorf("%s: dry run %s", c.sign, got)
		}
	}
	log := p.out.until(t, `"degraded":"embed","embed":"timeout"`)
	if !strings.Contains(log, `"degraded":"embed","embed":"invalid"`) || !strings.Contains(log, `"late":1`) {
		t.Error("the log lacks reasons")
	}
	for _, reason := range []string{"timeout", "error", "invalid"} {
		p.asks(t, http.MethodGet, "/metrics", "", http.StatusOK, `sidenote_degraded_total{reason="`+reason+`",stage="embed"} `)
	}
}
