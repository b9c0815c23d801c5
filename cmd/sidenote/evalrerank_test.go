package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// An oracle is a reranker that knows the right documents: the higher a right document's number, the
// better. While it fails it returns no scores.
type oracle struct {
	*httptest.Server
	fails atomic.Pointer[string] // the question, or "*"
	asked atomic.Int64           // documents
}

func newOracle(t *testing.T) *oracle {
	t.Helper()
	o := &oracle{}
	o.Server = httptest.NewServer(http.HandlerFunc(o.answer))
	t.Cleanup(o.Close)
	return o
}

func (o *oracle) answer(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Query    string
		Texts    []string
		Messages []struct{ Content string }
	}
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &req)
	chat := len(req.Messages) > 0
	if chat {
		var data struct {
			Question  string
			Documents []struct{ Text string }
		}
		_ = json.Unmarshal([]byte(req.Messages[1].Content), &data)
		req.Query = data.Question
		for _, d := range data.Documents {
			req.Texts = append(req.Texts, d.Text)
		}
	}
	if fails := o.fails.Load(); fails != nil && (*fails == "*" || *fails == req.Query) {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	o.asked.Add(int64(len(req.Texts)))
	list := []map[string]any{}
	for i, text := range req.Texts {
		score := 0.0
		if strings.Contains(text, "right for "+req.Query) {
			score = 1
		}
		if chat {
			score *= 10
		}
		list = append(list, map[string]any{"index": i, "score": score})
	}
	if !chat {
		_ = json.NewEncoder(w).Encode(list)
		return
	}
	text, _ := json.Marshal(map[string]any{"scores": list})
	_ = json.NewEncoder(w).Encode(map[string]any{
		"choices": []any{map[string]any{"message": map[string]any{"content": string(text)}}},
		"usage":   map[string]any{"prompt_tokens": 300, "completion_tokens": 20},
	})
}

// gardens is a collection of 30 documents and two questions whose words are mostly in wrong
// documents. Each question has five right documents, three of them among the first twenty by words.
func gardens(t *testing.T) string {
	t.Helper()
	var corpus, queries, qrels strings.Builder
	for i := range 30 {
		text := strings.Repeat("garden gate ", 40-i) + fmt.Sprintf("number%d", i)
		for q, question := range []string{"garden", "gate"} {
			if i >= 15+q && i%3 == q || i == 27 {
				text += " right for " + question
				fmt.Fprintf(&qrels, "q%d\td%d\t1\n", q, i)
			}
		}
		fmt.Fprintf(&corpus, "{\"_id\": \"d%d\", \"title\": \"Number %d\", \"text\": %q}\n", i, i, text+strings.Repeat(fmt.Sprintf(" filler%d", i), 2*i))
	}
	for q, question := range []string{"garden", "gate"} {
		fmt.Fprintf(&queries, "{\"_id\": \"q%d\", \"text\": %q}\n", q, question)
	}
	dir := t.TempDir()
	write(t, dir, "corpus.jsonl", corpus.String())
	write(t, dir, "queries.jsonl", queries.String())
	write(t, dir, "qrels.tsv", qrels.String())
	return dir
}

// reranking writes a configuration with policies that differ in their rerankers.
func reranking(t *testing.T, o *oracle, byDefault string) string {
	t.Helper()
	return written(t, "c.yaml", fmt.Sprintf(`upstreams:
  default: {base_url: %s}
  oracle: {base_url: %s, api_key: {env: SERVICE_KEY}}
policies:
  default: {extends: %s}
  bare: {upstream: default, retrieval: {num_candidates: 20}}
  tei: {extends: bare, rerank: {upstream: oracle, dialect: tei, num_candidates: 20}}
  few: {extends: tei, rerank: {upstream: oracle, dialect: tei, num_candidates: 5}}
  llm: {extends: bare, rerank: {upstream: oracle, dialect: llm, model: m, num_candidates: 20}}
  strict: {extends: bare, rerank: {upstream: oracle, dialect: tei, num_candidates: 20, score_threshold: 0.5}}
`, o.URL, o.URL, byDefault))
}

// runOf reads the rankings of a run, by query.
func runOf(t *testing.T, file string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	run := map[string][]string{}
	last, query := 0.0, ""
	for line := range strings.Lines(string(text)) {
		var q, doc, tag string
		var rank int
		var score float64
		_, err := fmt.Sscan(line, &q, new(string), &doc, &rank, &score, &tag)
		must(t, err)
		if q == query && score > last {
			t.Errorf("scores do not fall: %s", line)
		}
		run[q], last, query = append(run[q], doc), score, q
	}
	return run
}

// An oracle ranks the right documents among its candidates first; the others follow in their old
// order.
func TestEvalReranked(t *testing.T) {
	o := newOracle(t)
	data, config, out := gardens(t), reranking(t, o, "bare"), t.TempDir()
	evaluate := func(policy string, args ...string) *command {
		return start(t, keyed, append([]string{"eval", "--data", data, "--config", config, "--policy", policy, "--run", filepath.Join(out, policy)}, args...)...)
	}
	right := map[string][]string{}
	text, err := os.ReadFile(filepath.Join(data, "qrels.tsv"))
	must(t, err)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		right[f[0]] = append(right[f[0]], f[1])
	}
	evaluate("bare").ends(t, exitDone, "nDCG@10     0.000", "")
	plain := runOf(t, filepath.Join(out, "bare"))
	if o.asked.Load() > 0 || len(plain["q0"]) != 30 || len(plain["q1"]) != 30 {
		t.Fatalf("asked for %d documents, found %v", o.asked.Load(), plain)
	}
	for policy, depth := range map[string]int{"tei": 20, "few": 5, "llm": 20, "strict": 20} {
		o.asked.Store(0)
		c := evaluate(policy, "--json")
		c.ends(t, exitDone, `"stage": "reranked"`, "")
		var answer struct {
			Stages []struct {
				Stage  string
				Recall float64 `json:"recall_at_10"`
				MRR    float64 `json:"mrr_at_10"`
			}
			Tokens map[string]int
			Lost   float64
			Right  float64 `json:"right_at_1"`
		}
		must(t, json.Unmarshal(c.out.Bytes(), &answer))
		recall, mrr := 0.0, 0.0
		for q, docs := range plain {
			found := 0.0
			for _, doc := range docs[:depth] {
				if slices.Contains(right[q], doc) {
					found++
				}
			}
			recall += found / float64(len(right[q])) / 2
			mrr += min(found, 1) / 2
		}
		if (recall > 0) != (depth == 20) || recall == 1 {
			t.Fatalf("the best %d hold %v of what is right: that shows nothing", depth, recall)
		}
		last := answer.Stages[len(answer.Stages)-1]
		if len(answer.Stages) != 2 || answer.Stages[0].MRR != 0 || last.Recall-recall > 1e-6 || recall-last.Recall > 1e-6 || last.MRR != mrr {
			t.Errorf("%s: %+v, want recall %v, MRR %v", policy, answer, recall, mrr)
		}
		// If the reranker has a score threshold, that of the base, which no right document reaches,
		// is not used.
		if strict := policy == "strict"; (answer.Right == 1) != strict || (answer.Lost == 0) != (strict || depth == 5) {
			t.Errorf("%s: requests get %+v", policy, answer)
		}
		for q, docs := range runOf(t, filepath.Join(out, policy)) {
			if !slices.Equal(docs[depth:], plain[q][depth:]) {
				t.Errorf("%s: behind those that are reranked stand %v, want %v", policy, docs[depth:], plain[q][depth:])
			}
		}
		if asked, want := int(o.asked.Load()), 2*depth; asked != want {
			t.Errorf("%s: asked for %d documents, want each once, %d", policy, asked, want)
		}
		if tokens, chat := answer.Tokens["rerank"], policy == "llm"; (tokens >= 2*4*320) != chat || !chat && tokens != 0 {
			t.Errorf("%s: %d tokens", policy, tokens)
		}
	}
	evaluate("llm").ends(t, exitDone, " by the reranker\n", "")

	bare, llm := reranking(t, o, "bare"), reranking(t, o, "llm")
	c := start(t, keyed, "eval", "--data", data, "--compare", bare, llm)
	c.ends(t, exitDone, "policy default: lexical, reranked\n", "")
	for _, want := range []string{"recall@10   0.000    ", "MRR@10      0.000    1.000    +1.000", " by the reranker\n"} {
		if !strings.Contains(c.out.String(), want) {
			t.Errorf("no %q in\n%s", want, c.out.String())
		}
	}
}

// If the reranker fails, the ranking is that of the search byte for byte, and the questions are
// counted; those that it scores keep its order.
func TestEvalRerankerFails(t *testing.T) {
	o := newOracle(t)
	data, config, out := gardens(t), reranking(t, o, "bare"), t.TempDir()
	evaluate := func(policy, file string) *command {
		return start(t, keyed, "eval", "--data", data, "--config", config, "--policy", policy, "--run", filepath.Join(out, file))
	}
	read := func(file string) string {
		text, err := os.ReadFile(filepath.Join(out, file))
		must(t, err)
		return string(text)
	}
	evaluate("bare", "bare").ends(t, exitDone, "asked", "")
	evaluate("tei", "whole").ends(t, exitDone, "reranked", "")
	for _, policy := range []string{"tei", "llm", "strict"} {
		all := "*"
		o.fails.Store(&all)
		evaluate(policy, policy).ends(t, exitPart, "reranked    0.000", "partly done: 2 queries were ranked without the reranker (error)")
		if read(policy) != read("bare") {
			t.Errorf("%s: without scores the run is\n%s\nwant\n%s", policy, read(policy), read("bare"))
		}
	}
	one := "gate"
	o.fails.Store(&one)
	evaluate("tei", "half").ends(t, exitPart, "reranked", "partly done: 1 query was ranked without the reranker (error)")
	got, plain, whole := runOf(t, filepath.Join(out, "half")), runOf(t, filepath.Join(out, "bare")), runOf(t, filepath.Join(out, "whole"))
	if !slices.Equal(got["q0"], whole["q0"]) || !slices.Equal(got["q1"], plain["q1"]) {
		t.Errorf("got %v", got)
	}
}
