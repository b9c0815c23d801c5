package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sidenote/retrieval/services/servicestest"
)

// A collected is a collection of four documents. One of its questions shares a word with its
// answer, one shares more words with another document, and for one only the planner knows the
// words.
func collected(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write(t, dir, "corpus.jsonl", `{"_id": "leave", "title": "Leave", "text": "Every parent may take sixteen weeks of parental leave."}
{"_id": "keys", "title": "Keys", "text": "Everybody gets two security tokens and stores one of them at home."}
{"_id": "travel", "title": "Travel", "text": "Book trains and flights in the travel tool."}
{"_id": "dogs", "title": "Dogs", "text": "Dogs may come on Fridays."}
`)
	write(t, dir, "queries.jsonl", `{"_id": "q1", "text": "parental leave"}
{"_id": "q2", "text": "security tokens at home"}
{"_id": "q3", "text": "locomotive"}
`)
	write(t, dir, "qrels.tsv", "q1\tleave\t1\nq2\tkeys\t2\nq3\ttravel\t1\n")
	return dir
}

// policies writes a configuration with policies of more and more stages. The named one is the
// default.
func policies(t *testing.T, service *servicestest.Service, h *helper, byDefault string) string {
	t.Helper()
	return written(t, "c.yaml", fmt.Sprintf(`upstream: %s
upstreams: {service: {base_url: %s, api_key: {env: SERVICE_KEY}}}
embeddings: {upstream: service, model: stub, batch: 2}
knowledge: {sent: {path: ., embed: true}, here: {path: .}}
prices: [{match: stub, input: 20, output: 0}]
policies:
  default: {extends: %s}
  bare: {upstream: default, knowledge: [here]}
  hybrid: {upstream: default, knowledge: [sent]}
  planned: {extends: hybrid, planner: {model: small}, retrieval: {top_k: 2}}
  auto: {extends: bare, planner: auto}
`, h.URL, service.URL, byDefault))
}

var stageRow = regexp.MustCompile(`(?m)^(lexical|dense|fused|planned) +(\d\.\d{3}) +\d\.\d{3} +\d\.\d{3} +(\d\.\d{3})$`)

// stagesOf returns the stages on a screen with their nDCG.
func stagesOf(screen string) (list []string) {
	for _, m := range stageRow.FindAllStringSubmatch(screen, -1) {
		list = append(list, m[1]+" "+m[2])
	}
	return list
}

// eval measures the stages of a policy on a collection: documents are embedded with the service of
// the policy's base, and each stage's contribution is shown.
func TestEvalStages(t *testing.T) {
	service, h := servicestest.Start(t), newHelper(t)
	data, config := collected(t), policies(t, service, h, "bare")
	args := []string{"eval", "--data", data, "--config", config}

	plain := start(t, keyed, "eval", "--data", data)
	plain.ends(t, exitDone, "nDCG@10     0.667", "")
	same := start(t, keyed, args...)
	same.ends(t, exitDone, "nDCG@10     0.667", "")
	if untimed(plain.out.String()) != untimed(same.out.String()) {
		t.Errorf("by words alone, with a configuration:\n%s\nand without:\n%s", same.out.String(), plain.out.String())
	}

	start(t, keyed, append(args, "--policy", "hybrid", "--plan")...).ends(t, exitDone, ": 4 chunks, 0 there already; 4 inputs to be sent, about ", "")
	start(t, keyed, append(args, "--policy", "hybrid", "--plan", "--json")...).ends(t, exitDone, `"object": "eval.plan"`, "")
	start(t, keyed, append(args, "--plan")...).ends(t, exitUsage, "", "--plan: no base of the policy is embedded")
	if n := len(service.Asked()) + len(h.calls()); n != 0 {
		t.Fatalf("words alone, and plans, asked %d times", n)
	}

	c := start(t, keyed, append(args, "--policy", "hybrid")...)
	c.ends(t, exitDone, "to embed all chunks, 7 to embed the questions\n", "")
	// Vectors of texts without common words are all equally similar: what words do not find is
	// ranked in some order.
	got := stagesOf(c.out.String())
	if len(got) != 3 || got[0] != "lexical 0.667" || !strings.HasPrefix(got[1], "dense 0.8") && !strings.HasPrefix(got[1], "dense 0.9") && got[1] != "dense 1.000" {
		t.Errorf("stages %q", got)
	}

	c = start(t, keyed, append(args, "--policy", "planned")...)
	c.ends(t, exitDone, "960 by the planner\n", "") // 320 a question
	got = stagesOf(c.out.String())
	if calls := h.calls(); len(got) != 4 || got[3] != "planned 1.000" || len(calls) != 3 {
		t.Errorf("stages %q, calls %q", got, calls)
	}
	if !strings.Contains(c.out.String(), "right@2     1.000") {
		t.Errorf("requests get\n%s", c.out.String())
	}
	c = start(t, keyed, append(args, "--policy", "planned", "--json")...)
	c.ends(t, exitDone, `"policy": "planned"`, "")
	var answer struct {
		Stages []struct {
			Stage string
			NDCG  float64 `json:"ndcg_at_10"`
		}
		Tokens map[string]int
	}
	must(t, json.Unmarshal(c.out.Bytes(), &answer))
	if len(answer.Stages) != 4 || answer.Stages[0].NDCG != .666667 || answer.Stages[3].NDCG != 1 || answer.Tokens["planner"] != 960 || answer.Tokens["embeddings_questions"] < 7 || answer.Tokens["embeddings_chunks"] < 40 {
		t.Errorf("%+v", answer)
	}

	start(t, keyed, append(args, "--policy", "auto")...).ends(t, exitUsage, "", "auto, the model of the request; name one by --model")
	c = start(t, keyed, append(args, "--policy", "auto", "--model", "gpt-4o")...)
	c.ends(t, exitDone, "planned ", "")
	if calls := h.calls(); len(calls) == 0 || !strings.Contains(calls[len(calls)-1], " gpt-4o locomotive") {
		t.Errorf("asked %q", calls)
	}
	start(t, keyed, append(args, "--policy", "nobody")...).ends(t, exitUsage, "", `--policy: no policy is named "nobody"; there are auto, bare, default, hybrid, planned`)
}

// untimed returns a screen without its measured times.
func untimed(screen string) string {
	return regexp.MustCompile(`indexed in .*|latency .*`).ReplaceAllString(screen, "")
}

// Failures of services are reported and set the exit code; if documents cannot be embedded, nothing
// is measured.
func TestEvalWithoutServices(t *testing.T) {
	service, h := servicestest.Start(t), newHelper(t)
	data, config := collected(t), policies(t, service, h, "bare")
	state := t.TempDir()
	args := []string{"eval", "--data", data, "--config", config, "--state", state, "--policy", "planned"}
	service.Break(func(int, servicestest.Request) servicestest.Fault {
		return servicestest.Status(http.StatusUnauthorized, "")
	})
	start(t, keyed, args...).ends(t, exitFailed, "", "sidenote: 0 of 4 chunks embedded: embed passages: answered 401")
	service.Break(nil)
	start(t, keyed, args...).ends(t, exitDone, "planned", "")
	if n := len(passagesOf(service)); n != 4 {
		t.Errorf("sent %d passages", n)
	}
	service.Break(func(int, servicestest.Request) servicestest.Fault {
		return servicestest.Status(http.StatusInternalServerError, "")
	})
	h.Close()
	start(t, keyed, args...).ends(t, exitPart, "right@2     0.667",
		"partly done: 3 queries were searched by words alone for want of a vector; 3 queries were searched without a plan (error)")
	if n := len(passagesOf(service)); n != 0 {
		t.Errorf("sent %d passages that are kept", n)
	}
	serve(t, "--upstream", newRecorder(t).URL, "--state", state)
	c := start(t, keyed, args...)
	c.ends(t, exitFailed, "", "sidenote: state: ")
	if said := c.said.text.String(); strings.Contains(said, "takes over") {
		t.Errorf("a command promises what serve does: %s", said)
	}
}

// passagesOf returns the documents that a service was sent.
func passagesOf(service *servicestest.Service) (list []string) {
	for _, input := range service.Inputs() {
		for _, title := range []string{"Leave\n", "Keys\n", "Travel\n", "Dogs\n"} {
			if strings.HasPrefix(input, title) {
				list = append(list, input)
			}
		}
	}
	return list
}

// Two policies are shown side by side with their differences; documents are embedded once for both.
func TestEvalCompare(t *testing.T) {
	service, h := servicestest.Start(t), newHelper(t)
	t.Setenv("TMPDIR", t.TempDir())
	data, before, after := collected(t), policies(t, service, h, "bare"), policies(t, service, h, "planned")
	args := []string{"eval", "--data", data, "--compare", before, after}
	c := start(t, keyed, args...)
	c.ends(t, exitDone, "nDCG@10     0.667    1.000    +0.333   1.0000\n", "")
	for _, want := range []string{
		"a           " + before + ", policy default: lexical\n",
		"b           " + after + ", policy default: lexical, dense, fused, planned\n",
		"right@6,2   0.667    1.000    +0.333   1.0000\n",
		"960             by the planner\n",
		"nDCG@10 is better in b for 1, worse for 0, the same for 2\n",
		"changed 1  locomotive\n  query q3, nDCG@10 0.000, then 1.000\n  a  no relevant document among the first 100, and its request gets none\n  b  the first relevant document is number 1, and its request gets a relevant source\n",
	} {
		if !strings.Contains(c.out.String(), want) {
			t.Errorf("no %q in\n%s", want, c.out.String())
		}
	}
	service.Break(nil)
	c = start(t, keyed, "eval", "--data", data, "--compare", after, after, "--json", "--full")
	c.ends(t, exitDone, `"object": "eval.compare"`, "")
	var answer struct {
		Queries  int
		A, B     struct{ Config string }
		Measures []struct {
			Measure string
			P       float64
		}
		Changed []any
	}
	must(t, json.Unmarshal(c.out.Bytes(), &answer))
	if answer.Queries != 3 || answer.A.Config != after || len(answer.Measures) != 7 || answer.Measures[0].P != 1 || len(answer.Changed) != 0 {
		t.Errorf("%+v", answer)
	}
	if n := len(passagesOf(service)); n != 4 {
		t.Errorf("sent %d passages for both", n)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "sidenote-eval-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	for _, wrong := range [][]string{
		{"--compare", before},
		{before, after},
		{"--compare", before, after, "--run", "x"},
		{"--full"},
		{"--plan"},
	} {
		start(t, keyed, append([]string{"eval", "--data", data}, wrong...)...).ends(t, exitUsage, "", "sidenote: ")
	}
}
