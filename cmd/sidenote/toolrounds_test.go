package main

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/proxy/answer/answertest"
)

const leaveChat = `{"model":"gpt-4o",%s "messages":[{"role":"user","content":"How many weeks of parental leave are there?"}]}`

// Two rounds of a chat in the format of package looptest.
const (
	readsTravel = `call read_knowledge {"refs":["docs:travel.md:0"]}`
	answersIt   = "text Sixteen weeks [1], trains [2].\nusage 300 7"
)

// serveTools serves the handbook to models with tools, with a policy's keys and an upstream that
// gives these answers.
func serveTools(t *testing.T, policy string, answers ...string) (*process, *answertest.Upstream) {
	t.Helper()
	d := answertest.Dialogue{Name: policy}
	for _, text := range answers {
		answer, err := answertest.ParseAnswer(text)
		if err != nil {
			t.Fatal(err)
		}
		d.Answers = append(d.Answers, answer)
	}
	up := answertest.Start(t, d, answertest.Habits()[0])
	dir := writeFiles(t, map[string][]byte{"c.yaml": fmt.Appendf(nil,
		"upstream: %s/v1\nknowledge: {docs: %q}\npolicies: {default: {mode: tools%s}}\ntelemetry: {log: {format: json}}\n", up.URL, handbook(t), policy)})
	return serve(t, "--config", filepath.Join(dir, "c.yaml"), "--state", ":memory:"), up
}

// chatWith sends a question and returns the answer's head and bytes.
func chatWith(t *testing.T, p *process, question string) (http.Header, string) {
	t.Helper()
	resp, err := http.Post(p.data+"/v1/chat/completions", "application/json", strings.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d, %v: %s", resp.StatusCode, err, body)
	}
	return resp.Header, string(body)
}

// The head of an answer, and a comment at the end of a stream, say how many rounds there were and
// which sources came from the first search and from tools, as far as expose allows.
func TestToolSourcesAreTold(t *testing.T) {
	for expose, want := range map[string]string{
		"names": `"1";kb="docs";doc="leave.md";name="Leave policy";section="Parental leave", "2";kb="docs";doc="travel.md";name="Travel";section="Booking"`,
		"ids":   `"1";kb="docs";doc="leave.md", "2";kb="docs";doc="travel.md"`,
		"none":  "",
	} {
		p, _ := serveTools(t, ", expose: "+expose, readsTravel, answersIt, readsTravel, answersIt)
		head, _ := chatWith(t, p, fmt.Sprintf(leaveChat, ""))
		status := regexp.MustCompile(`^tools; rounds=2; calls=1; tokens=[1-9]\d*; sources=1; injected=[1-9]\d*; budget=2000; exact; `)
		if got := head.Get("Sidenote-Sources"); got != want || !status.MatchString(head.Get("Sidenote-Status")) {
			t.Errorf("%s: %s\n%s\nwant %s", expose, head.Get("Sidenote-Status"), got, want)
		}

		head, events := chatWith(t, p, fmt.Sprintf(leaveChat, `"stream":true,`))
		if begins := head.Get("Sidenote-Status"); !strings.HasPrefix(begins, "tools; sources=1; injected=") || strings.Contains(begins, "rounds") {
			t.Errorf("%s: a stream begins with %s", expose, begins)
		}
		before, comment, _ := strings.Cut(events, "\n: sidenote-status: ")
		comment, after, _ := strings.Cut(comment, "\n")
		said, sources, _ := strings.Cut(comment, " sidenote-sources: ")
		if !status.MatchString(said) || sources != want || !strings.Contains(before, `"finish_reason":"stop"`) || strings.TrimSpace(after) != "data: [DONE]" {
			t.Errorf("%s: %s", expose, events)
		}
		p.stop()
		log := p.out.text.String()
		if n := strings.Count(log, `"outcome":"tools"`); n != 2 || strings.Count(log, `"tools":{"rounds":2,"calls":1,"tokens":`) != 2 || strings.Contains(log, "refs") || strings.Contains(log, "weeks") {
			t.Errorf("%s: %s", expose, log)
		}
	}
}

// A dry run shows the first request that the upstream gets, byte for byte; the counts of the chat
// show in the metrics.
func TestToolsDryRunIsTheFirstRound(t *testing.T) {
	for _, policy := range []string{"", ", tools: {first_search: false}", ", tools: {protocol: xml}", ", placement: split", ", on_empty: refuse", ", chunks: 200"} {
		answers := []string{readsTravel, answersIt}
		if policy == ", tools: {protocol: xml}" {
			answers = answers[1:]
		}
		p, up := serveTools(t, policy, answers...)
		question := fmt.Sprintf(leaveChat, ` "seed": 1.0, "tools": [ ],`)
		if policy == ", on_empty: refuse" {
			question = strings.Replace(question, "How many weeks of parental leave are there?", "hi", 1)
		}
		if policy == ", chunks: 200" {
			question = strings.TrimSuffix(question, "}") + `,"sidenote":{"chunks":[{"id":"s1","type":"system","content":"You book hotels."}]}}`
		}
		_, dry := posted(t, p.admin+"/v1/rewrite", "", question)
		if !strings.HasPrefix(dry, `{"outcome":"tools",`) || !strings.Contains(dry, `"status":"tools; `) || !strings.Contains(dry, `"tools":["search_knowledge","read_knowledge"]`) || len(answers) == 2 && strings.Count(dry, `{"name":"tools","offset":`) != 1 || strings.Count(dry, `{"name":"inject","offset":`) > 2 {
			t.Errorf("%s: %s", policy, dry)
		}
		if chunks := policy == ", chunks: 200"; strings.Contains(dry, `{"name":"chunks","offset":`) != chunks {
			t.Errorf("%s: %s", policy, dry)
		}
		_, request, _ := strings.Cut(dry, `,"request":{"model"`)
		chatWith(t, p, question)
		if diff := cmp.Diff(`{"model"`+strings.TrimSuffix(request, "}"), string(up.Requests()[0])); diff != "" {
			t.Errorf("%s: (-dry +sent)\n%s", policy, diff)
		}
		if policy != "" {
			continue
		}
		_, dry = posted(t, p.admin+"/v1/rewrite", "", fmt.Sprintf(leaveChat, `"tool_choice":"none",`))
		if !strings.HasPrefix(dry, `{"outcome":"injected",`) || !strings.Contains(dry, `"status":"injected; unoffered=tool-choice; sources=1; `) || !strings.Contains(dry, `"unoffered":"tool-choice"`) || strings.Contains(dry, `"name":"tools"`) {
			t.Errorf("%s", dry)
		}
		eventually(t, func() string { // metrics change one after the other
			_, body := get(t, p.admin+"/metrics")
			for _, line := range []string{
				`sidenote_requests_total{outcome="tools",tenant="default"} 1`,
				`sidenote_tool_calls_total{outcome="ok",tool="read_knowledge"} 1`, `sidenote_tool_rounds_sum 2`, `sidenote_tool_call_duration_seconds_count{tool="read_knowledge"} 1`,
				`sidenote_tool_result_tokens_count 1`, `sidenote_context_sources_sum 1`, `sidenote_tokens_total{kind="input",tenant="default"} 310`,
			} {
				if !strings.Contains(body, line+"\n") {
					return "no " + line
				}
			}
			return ""
		})
	}
}
