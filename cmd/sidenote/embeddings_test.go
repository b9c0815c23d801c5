package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/explain"
	"sidenote/retrieval/services/servicestest"
)

// embedded writes a configuration with a base that is embedded by a service, and a folder of n
// documents with one chunk each.
func embedded(t *testing.T, service *servicestest.Service, n int) (config, docs, state string) {
	t.Helper()
	dir := t.TempDir()
	docs, state = filepath.Join(dir, "docs"), filepath.Join(dir, "state")
	must(t, os.Mkdir(docs, 0o755))
	for i := range n {
		write(t, docs, fmt.Sprintf("d%02d.md", i), fmt.Sprintf("# Title %d\n\nThe parental leave of number %d is %d weeks.\n", i, i, i+10))
	}
	write(t, dir, "c.yaml", fmt.Sprintf(`upstream: %s
upstreams: {service: {base_url: %s, api_key: {env: SERVICE_KEY}}}
embeddings: {upstream: service, model: stub, batch: 4}
knowledge: {docs: {path: docs, embed: true}}
prices: [{match: stub, input: 20, output: 0}]
policies: {default: {retrieval: {deadline: 3s}}} # the search by words ends well before it, whatever else runs
state: state
`, newRecorder(t).URL, service.URL))
	return filepath.Join(dir, "c.yaml"), docs, state
}

// keyed is an environment with the key of the embedding service.
func keyed(name string) (string, bool) {
	return map[string]string{"SERVICE_KEY": "sk-service"}[name], name == "SERVICE_KEY"
}

// passages returns the chunks that the service received since the last Break.
func passages(service *servicestest.Service) []string {
	return slices.DeleteFunc(service.Inputs(), func(input string) bool {
		return !strings.HasPrefix(input, "Title ") && !strings.HasPrefix(input, "New\n")
	})
}

// twice returns how many of some inputs were sent before.
func twice(inputs []string) (n int) {
	seen := map[string]bool{}
	for _, input := range inputs {
		if seen[input] {
			n++
		}
		seen[input] = true
	}
	return n
}

// ingest says how much it will send, sends each text once, and sends nothing for texts that were
// embedded before, under whatever name.
func TestIngestEmbeds(t *testing.T) {
	service := servicestest.Start(t)
	config, docs, _ := embedded(t, service, 10)
	args := []string{"ingest", "--config", config}
	start(t, keyed, append(args, "--plan")...).ends(t, exitDone,
		"docs: 10 chunks, 0 there already; 10 inputs to be sent, about ", "")
	c := start(t, keyed, append(args, "--plan", "--json")...)
	c.ends(t, exitDone, `"object": "ingest.plan"`, "")
	var plan embeddingPlan
	must(t, json.Unmarshal(c.out.Bytes(), &plan))
	if plan.Inputs != 10 || plan.Chunks != 10 || plan.Tokens < 100 || plan.Upstream != "service" || plan.USD != fmt.Sprintf("%.4f", float64(plan.Tokens)*20/1e6) {
		t.Errorf("%+v", plan)
	}
	if n := len(service.Asked()); n != 0 {
		t.Fatalf("a plan asked %d times", n)
	}
	c = start(t, keyed, args...)
	c.ends(t, exitDone, "docs: 10 of 10 chunks embedded by stub; 10 now, ", "")
	asked := service.Asked()
	if inputs := passages(service); len(asked) != 4 || len(inputs) != 10 || twice(inputs) != 0 || !slices.Contains(inputs, "Title 3\n# Title 3\n\nThe parental leave of number 3 is 13 weeks.") {
		t.Errorf("%d requests for %q", len(asked), inputs)
	}
	if asked[0].Key != "sk-service" || asked[0].Model != "stub" {
		t.Errorf("asked %+v", asked[0])
	}
	service.Break(nil)
	start(t, keyed, args...).ends(t, exitDone, "docs: 10 of 10 chunks embedded by stub; 0 now, 0 tokens", "")
	must(t, os.Rename(filepath.Join(docs, "d03.md"), filepath.Join(docs, "other.md")), os.Remove(filepath.Join(docs, "d04.md")))
	start(t, keyed, args...).ends(t, exitDone, "docs: 9 of 9 chunks embedded by stub; 0 now", "")
	write(t, docs, "new.md", "# Title 4\n\nThe parental leave of number 4 is 14 weeks.\n") // it is back
	start(t, keyed, append(args, "--plan")...).ends(t, exitDone, "docs: 10 chunks, 10 there already; 0 inputs to be sent, about 0 tokens", "")
	start(t, keyed, args...).ends(t, exitDone, "docs: 10 of 10 chunks embedded by stub; 0 now", "")
	if n := len(service.Asked()); n != 0 {
		t.Errorf("%d requests for nothing new", n)
	}
}

// If chunks cannot be embedded, what was read stays, and the next ingest continues.
func TestIngestEmbedsInPart(t *testing.T) {
	service := servicestest.Start(t)
	config, _, _ := embedded(t, service, 10)
	service.Break(func(n int, _ servicestest.Request) servicestest.Fault {
		if n > 1 {
			return servicestest.Status(http.StatusUnauthorized, "")
		}
		return nil
	})
	start(t, keyed, "ingest", "--config", config).ends(t, exitPart, "docs: 10 files, 10 chunks; 10 new",
		"sidenote: partly done: knowledge docs: 4 of 10 chunks embedded: embed passages: answered 401 (stub_error); they are found by words alone, and the next ingest goes on from there\n")
	service.Break(nil)
	start(t, keyed, "ingest", "--config", config).ends(t, exitDone, "docs: 10 of 10 chunks embedded by stub; 6 now", "")
	if inputs := passages(service); len(inputs) != 6 {
		t.Errorf("sent %q", inputs)
	}
	text, err := os.ReadFile(config)
	must(t, err)
	write(t, filepath.Dir(config), "c.yaml", strings.Replace(string(text), "batch: 4", "passage_prefix: 'text: '", 1))
	service.Break(nil)
	start(t, keyed, "ingest", "--config", config).ends(t, exitDone, "docs: 10 of 10 chunks embedded by stub; 10 now", "") // other vectors
	start(t, keyed, "ingest", "--plan", "--knowledge", t.TempDir(), "--state", t.TempDir()).ends(t, exitUsage, "", "--plan: no base is embedded; write embeddings, and embed: true in a base")
}

// An ingest that is killed while it embeds sends at most one batch again.
//
// Row K4 of deploy/CONTRIBUTING.md.
func TestIngestKilledWhileEmbedding(t *testing.T) {
	for _, after := range []time.Duration{-1, 0, 300 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			service := servicestest.Start(t)
			config, _, _ := embedded(t, service, 24)
			alive, kill := context.WithCancel(t.Context())
			defer kill()
			cmd := exec.CommandContext(alive, released(t), "ingest", "--config", config)
			cmd.Env = append(os.Environ(), "SERVICE_KEY=sk-service")
			service.Break(func(n int, _ servicestest.Request) servicestest.Fault {
				switch {
				case n != 3:
				case after < 0: // before the answer
					kill()
				default:
					return func(w http.ResponseWriter, r servicestest.Request) {
						servicestest.Write(w, servicestest.AnswerTo(r))
						w.(http.Flusher).Flush()
						time.AfterFunc(after, kill)
					}
				}
				return nil
			})
			must(t, cmd.Start())
			_ = cmd.Wait()
			before := passages(service)
			service.Break(nil)
			start(t, keyed, "ingest", "--config", config).ends(t, exitDone, "docs: 24 of 24 chunks embedded", "")
			all := append(before, passages(service)...)
			if n := twice(all); n > 4 || len(all)-n != 24 {
				t.Errorf("%d of %d inputs came twice", n, len(all))
			}
		})
	}
}

// embeddings is what the admin port reports about the embeddings of a base.
func (p *process) embeddings(t *testing.T, id string) explain.Embeddings {
	t.Helper()
	var b explain.Base
	must(t, json.Unmarshal([]byte(p.asks(t, http.MethodGet, "/v1/knowledge/"+id, "", http.StatusOK)), &b))
	if b.Embeddings == nil {
		t.Fatalf("knowledge %s is not embedded", id)
	}
	return *b.Embeddings
}

// embeds waits until that many chunks of docs are embedded.
func (p *process) embeds(t *testing.T, n int) {
	t.Helper()
	for p.embeddings(t, "docs").Embedded != n {
		<-time.After(20 * time.Millisecond)
	}
}

// serve embeds beside the requests as files change. While the service fails, requests are answered
// from the word search and the status says so; then embedding continues by itself.
//
// Row K7 of deploy/CONTRIBUTING.md.
func TestServeEmbeds(t *testing.T) {
	t.Parallel()
	service := servicestest.Start(t)
	config, docs, state := embedded(t, service, 6)
	service.Break(func(int, servicestest.Request) servicestest.Fault {
		return servicestest.Status(http.StatusForbidden, "")
	})
	p := serveIn(t, keyed, "--config", config, "--state", state)
	p.readyz(t, "knowledge docs: 0 of 6 chunks embedded, the others are found by words alone: embed passages: answered 403 (stub_error)")
	if status := p.chats(t); !strings.HasPrefix(status, "injected; ") {
		t.Errorf("status %s", status)
	}
	if e := p.embeddings(t, "docs"); e.Model != "stub" || e.Chunks != 6 || e.Embedded != 0 || !strings.Contains(e.Error, "403") {
		t.Errorf("%+v", e)
	}
	refused := len(service.Asked())
	service.Break(nil)
	p.embeds(t, 6)
	p.readyz(t, `"status":"ready"`)
	write(t, docs, "new.md", "# New\n\nA text that was not there.\n")
	p.embeds(t, 7)
	if inputs := passages(service); len(inputs) != 7 || twice(inputs) != 0 {
		t.Errorf("sent %q", inputs)
	}
	metrics := p.asks(t, http.MethodGet, "/metrics", "", http.StatusOK,
		`sidenote_embeddings_requests_total{result="ok"} `, `sidenote_embeddings_requests_total{result="refused"} `, `sidenote_knowledge_embedded_chunks{knowledge="docs"} 7`)
	if refused == 0 || !strings.Contains(metrics, `sidenote_embeddings_tokens_total{use="passage"} `) {
		t.Errorf("no tokens in %s", metrics)
	}
	start(t, keyed, "knowledge", "list", "--state", state).ends(t, exitDone, "7 chunks, 7 embedded", "")
	start(t, keyed, "knowledge", "show", "docs", "--state", state).ends(t, exitDone, "embedded    7 of 7 chunks, by stub\n", "")
}

// If another model answers under the same name for a while from before the start, only its vectors
// are discarded.
//
// Row K7 of deploy/CONTRIBUTING.md.
func TestOtherModelAtTheStart(t *testing.T) {
	t.Parallel()
	service := servicestest.Start(t)
	config, _, state := embedded(t, service, 6)
	start(t, keyed, "ingest", "--config", config).ends(t, exitDone, "docs: 6 of 6 chunks embedded", "")
	service.Break(func(_ int, r servicestest.Request) servicestest.Fault {
		r.Dimensions = 32
		return func(w http.ResponseWriter, _ servicestest.Request) { servicestest.Write(w, servicestest.AnswerTo(r)) }
	})
	p := serveIn(t, keyed, "--config", config, "--state", state)
	if status := p.chats(t); !strings.Contains(status, "; degraded=embed; ") {
		t.Errorf("status %s", status)
	}
	p.readyz(t, fmt.Sprintf("answered with vectors of 32 dimensions, not %d", servicestest.Dimensions))
	service.Break(nil)
	if status := p.chats(t); strings.Contains(status, "degraded") {
		t.Errorf("afterwards: status %s", status)
	}
	p.readyz(t, `"status":"ready"`)
}

// A follower whose state folder lacks vector files, such as a copy without them, searches by words
// and says so, until a writer of the folder has made them again.
//
// Row K7 of deploy/CONTRIBUTING.md.
func TestFollowerWithoutVectors(t *testing.T) {
	t.Parallel()
	service := servicestest.Start(t)
	config, _, state := embedded(t, service, 6)
	start(t, keyed, "ingest", "--config", config).ends(t, exitDone, "docs: 6 of 6 chunks embedded", "")
	files, err := filepath.Glob(filepath.Join(state, "segments", "*.vec"))
	must(t, err)
	if len(files) == 0 {
		t.Fatal("there are no files of vectors")
	}
	for _, file := range files {
		must(t, os.Remove(file))
	}
	p := serveIn(t, keyed, "--config", config, "--state", state, "--follow")
	said := p.readyz(t, "knowledge docs: files of vectors are missing or damaged in the state folder: 6 of 6 chunks are found by words alone")
	if !strings.Contains(said, `"status":"degraded"`) {
		t.Error(said)
	}
	if status := p.chats(t); !strings.HasPrefix(status, "injected; ") {
		t.Errorf("status %s", status)
	}
	service.Break(nil)
	start(t, keyed, "ingest", "--config", config).ends(t, exitDone, "docs: 6 of 6 chunks embedded", "")
	if sent := passages(service); len(sent) > 0 {
		t.Errorf("sent again: %q", sent)
	}
	p.readyz(t, `{"status":"ready"}`)
}
