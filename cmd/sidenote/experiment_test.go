package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/proxy/experiment"
)

// trying is a policy with an experiment whose other policy searches nothing.
const trying = `policies:
  default: {experiment: {name: silence, policy: other, share: 50%%}, limits: {tokens_per_day: 10M}%s}
  other: {extends: default, mode: off}
`

// A trier sends turns and notes which policy they get.
type trier struct {
	t    *testing.T
	arms map[string]string // by conversation
}

// ask sends a body, whose turn is of a conversation, and returns the id of the answer.
func (a *trier) ask(p *process, path, conversation, body string) (id, answer string) {
	a.t.Helper()
	resp, err := http.Post(p.data+path, "application/json", strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		a.t.Fatalf("%d %s, %v", resp.StatusCode, text, err)
	}
	id = resp.Header.Get("Sidenote-Id")
	var of struct {
		Experiment struct{ Name, Arm string }
		Policy     string
	}
	explained(a.t, p, id, &of)
	want := map[string]string{"a": "default", "b": "other"}[of.Experiment.Arm]
	if before := a.arms[conversation]; of.Experiment.Name != "silence" || of.Policy != want || before != "" && before != of.Experiment.Arm {
		a.t.Fatalf("conversation %s has arm %q with policy %s, after %q", conversation, of.Experiment.Arm, of.Policy, before)
	}
	a.arms[conversation] = of.Experiment.Arm
	return id, string(text)
}

// explained asks for the explanation of a request, which is there a moment after its answer.
func explained(t *testing.T, p *process, id string, to any) {
	t.Helper()
	for {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.admin+"/v1/explain/"+id, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p.token != "" {
			req.Header.Set("Authorization", "Bearer "+p.token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusNotFound {
			continue
		}
		if err := json.Unmarshal(body, to); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%d %s, %v", resp.StatusCode, body, err)
		}
		return
	}
}

// turns returns the body of a chat with some of a conversation's turns.
func turns(conversation string, from, to int) string {
	var list []string
	for n := from; n <= to; n++ {
		list = append(list, fmt.Sprintf(`{"role":"user","content":"Question %d of %s about parental leave?"}`, n, conversation))
		if n < to {
			list = append(list, fmt.Sprintf(`{"role":"assistant","content":"Answer %d to %s."}`, n, conversation))
		}
	}
	return `{"model":"gpt-4o","messages":[` + strings.Join(list, ",") + `]}`
}

func outcomesOf(t *testing.T, p *process) (v experiment.View) {
	t.Helper()
	c := start(t, noEnv, "experiment", "silence", "--json", "--admin", strings.TrimPrefix(p.admin, "http://"))
	c.ends(t, exitDone, `"object": "experiment"`, "")
	if err := json.Unmarshal(c.out.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Conversations keep their policy over a restart, with histories that are whole, cut off, or held by
// the upstream; outcomes and the conversations outlive the process.
func TestExperimentSurvivesARestart(t *testing.T) {
	up, dir := newRecorder(t), t.TempDir()
	config, state := filepath.Join(dir, "sidenote.yaml"), filepath.Join(dir, "state")
	if err := os.WriteFile(config, fmt.Appendf(nil, trying, ""), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func() *process {
		return serve(t, "--config", config, "--upstream", up.URL, "--knowledge", handbook(t), "--state", state)
	}
	a, last := &trier{t, map[string]string{}}, map[string]string{}
	asked := 0
	hold := func(p *process, round int) {
		for n := range 12 {
			for turn := 3*round + 1; turn <= 3*round+3; turn++ {
				asked += 3
				a.ask(p, "/v1/chat/completions", fmt.Sprint("whole", n), turns(fmt.Sprint("whole", n), 1, turn))
				a.ask(p, "/v1/chat/completions", fmt.Sprint("cut", n), turns(fmt.Sprint("cut", n), max(1, turn-1), turn))
				name, more := fmt.Sprint("held", n), ""
				if last[name] != "" {
					more = fmt.Sprintf(`,"previous_response_id":%q`, last[name])
				}
				_, answer := a.ask(p, "/v1/responses", name, fmt.Sprintf(`{"model":"gpt-4o","input":"Question %d of %s?"%s}`, turn, name, more))
				_, rest, _ := strings.Cut(answer, `"id":"`)
				last[name], _, _ = strings.Cut(rest, `"`)
			}
		}
	}
	first := run()
	hold(first, 0)
	id, _ := a.ask(first, "/v1/chat/completions", "whole0", turns("whole0", 1, 4))
	if code, body := posted(t, first.data+"/v1/feedback", "", fmt.Sprintf(`{"id":%q,"score":1}`, id)); code != http.StatusNoContent {
		t.Errorf("feedback: %d %s", code, body)
	}
	if code, body := posted(t, first.data+"/v1/feedback", "", `{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","score":1}`); code != http.StatusNotFound || !strings.Contains(body, "unknown_feedback_id") {
		t.Errorf("feedback for an unknown id: %d %s", code, body)
	}
	before := outcomesOf(t, first)
	if before.Made() != asked+1 || before.A.Requests*before.B.Requests == 0 {
		t.Errorf("%d requests count, want %d: %+v", before.Made(), asked+1, before)
	}
	first.stop()
	second := run()
	if after := outcomesOf(t, second); after.A != before.A || after.B != before.B || after.Measures[0].A != before.Measures[0].A {
		t.Errorf("after the restart %+v\nbefore %+v", after, before)
	}
	hold(second, 1)
	for _, c := range outcomesOf(t, second).Measures {
		switch c.Measure {
		case "silence":
			if c.A.Mean > .7 || c.B.Mean != 1 {
				t.Errorf("silence: %+v and %+v", c.A, c.B)
			}
		case "cited":
			if c.A.Mean == 0 || c.B.Mean != 0 {
				t.Errorf("cited: %+v and %+v", c.A, c.B)
			}
		case "feedback":
			if c.A.N+c.B.N != 1 {
				t.Errorf("feedback: %+v and %+v", c.A, c.B)
			}
		}
	}
}

// Replicas that share a Redis agree on the policy of each conversation, also where the upstream holds
// it or its beginning is cut off.
func TestReplicasAgreeOnArms(t *testing.T) {
	f := newFleet(t)
	one, two := f.replica("", fmt.Sprintf(trying, "")), f.replica("", fmt.Sprintf(trying, ""))
	a := &trier{t, map[string]string{}}
	for n := range 10 {
		last := ""
		for turn := 1; turn <= 4; turn++ {
			p := []*process{one, two}[turn%2]
			a.ask(p, "/v1/chat/completions", fmt.Sprint("whole", n), turns(fmt.Sprint("whole", n), 1, turn))
			a.ask(p, "/v1/chat/completions", fmt.Sprint("cut", n), turns(fmt.Sprint("cut", n), max(1, turn-1), turn))
			more := ""
			if last != "" {
				more = fmt.Sprintf(`,"previous_response_id":%q`, last)
			}
			_, answer := a.ask(p, "/v1/responses", fmt.Sprint("held", n), fmt.Sprintf(`{"model":"gpt-4o","input":"Question %d of held%d?"%s}`, turn, n, more))
			_, rest, _ := strings.Cut(answer, `"id":"`)
			last, _, _ = strings.Cut(rest, `"`)
		}
	}
	n := 0
	for _, arm := range a.arms {
		if arm == "b" {
			n++
		}
	}
	if n == 0 || n == len(a.arms) {
		t.Errorf("%d of %d conversations have policy b", n, len(a.arms))
	}
}
