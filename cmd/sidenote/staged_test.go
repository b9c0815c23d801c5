package main

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/rogpeppe/go-internal/txtar"

	"sidenote/proxy/answer/answertest"
	"sidenote/rewrite/goldentest"
)

// stagedPlays are the models' answers in the stages of presets, and what the client reads.
var stagedPlays = map[string]struct {
	preset  string
	answers []string
	text    string
	status  string // how the status begins
	tokens  int64
}{
	"brief": {"brief", []string{
		"text Every parent may take 16 weeks [1]. Missing: nothing.\nusage 100 9",
		"text Sixteen weeks [1].\nusage 200 5",
	}, "Sixteen weeks [1].", "staged; stages=2; sources=1; ", 314},
	"careful": {"careful", []string{
		"text Sixteen weeks, unpaid [1].\nusage 100 7",
		"text \"unpaid\": the source says on full pay [1].\nusage 200 9",
		"text Sixteen weeks on full pay [1].\nusage 300 8",
	}, "Sixteen weeks on full pay [1].", "staged; stages=3; sources=1; ", 624},
	"careful-stopped": {"careful", []string{
		"text Sixteen weeks on full pay [1].\nusage 100 8",
		"text NO ISSUES\nusage 200 2",
	}, "Sixteen weeks on full pay [1].", "staged; stages=2; stopped=critique; answered=draft; sources=1; ", 310},
	"medical": {"medical", []string{
		"text [1] Relevance: high. Level: unknown. Core evidence: 16 weeks. Missing: nothing.\nusage 100 19",
		"text Answer: sixteen weeks, unpaid [1].\nusage 200 9",
		"text \"unpaid\": made up, the source says on full pay [1].\nusage 300 11",
		"text Answer: sixteen weeks on full pay [1].\nusage 400 10",
	}, "Answer: sixteen weeks on full pay [1].", "staged; stages=4; sources=1; ", 1049},
	"medical-stopped": {"medical", []string{
		"text [1] Relevance: high. Level: unknown. Core evidence: 16 weeks. Missing: nothing.\nusage 100 19",
		"text Answer: sixteen weeks on full pay [1].\nusage 200 10",
		"text **No issues.**\nusage 300 4",
	}, "Answer: sixteen weeks on full pay [1].", "staged; stages=3; stopped=critical_reviewer; answered=answer_generator; sources=1; ", 633},
}

// stagedQuestion is the question in these tests.
func stagedQuestion() openai.ChatCompletionNewParams {
	params := question("gpt-4o")
	params.Temperature, params.Seed = openai.Float(0.9), openai.Int(9007199254740993)
	params.Messages = slices.Insert(params.Messages, 1, openai.UserMessage("Hello"), openai.AssistantMessage("Hi. What would you like to know?"))
	return params
}

// serveStaged serves the handbook with the stages of a preset, and an upstream that gives these
// answers.
func serveStaged(t *testing.T, preset string, answers ...string) (*process, *answertest.Upstream) {
	t.Helper()
	d := newDesk(t, answertest.Habits()[0], fmt.Sprintf("policies: {default: {mode: staged, stages: %s}}\ntelemetry: {log: {format: json}}\n", preset), answers)
	return d.replica(""), d.up
}

// The presets through the whole program: the request of each stage, byte for byte, and what the
// official SDK reads of the answer, streamed and not.
func TestStagedPresets(t *testing.T) {
	for name, play := range stagedPlays {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for way, stream := range map[string]bool{"whole": false, "stream": true} {
				p, up := serveStaged(t, play.preset, play.answers...)
				answer, status, sources := askStaged(t, p, stream)
				if m := answer.Choices[0]; m.Message.Content != play.text || m.FinishReason != "stop" || answer.Usage.TotalTokens != play.tokens || answer.Model != "gpt-4o" {
					t.Errorf("%s: the SDK reads %+v", way, answer)
				}
				if !strings.HasPrefix(status, play.status) || sources != `"1";kb="handbook";doc="leave.md";name="Leave policy";section="Parental leave"` {
					t.Errorf("%s: %s %s", way, status, sources)
				}
				for i, request := range up.Requests() {
					key := fmt.Sprintf("request.%d", i+1)
					if i == len(play.answers)-1 && !strings.HasSuffix(name, "stopped") {
						key += "." + way
					}
					if before, ok := got[key]; ok && before != string(request)+"\n" {
						t.Errorf("%s goes up as\n%s\nand as\n%s", key, before, request)
					}
					got[key] = string(request) + "\n"
				}
				p.stop()
				if log := p.out.text.String(); strings.Count(log, `"outcome":"staged"`) != 1 || strings.Contains(log, "weeks") {
					t.Errorf("%s: the log has %s", way, log)
				}
			}
			archive := &txtar.Archive{}
			for _, name := range slices.Sorted(maps.Keys(got)) {
				archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(got[name])})
			}
			goldentest.Text(t, "testdata/stages/"+name+".txtar", string(txtar.Format(archive)))
		})
	}
}

// askStaged asks with the official SDK, and returns the answer and the status at its end.
func askStaged(t *testing.T, p *process, stream bool) (answer openai.ChatCompletion, status, sources string) {
	t.Helper()
	var resp *http.Response
	var bytesOf bytes.Buffer
	sdk := openai.NewClient(option.WithBaseURL(p.data+"/v1"), option.WithAPIKey("sk-test"), option.WithMaxRetries(0), option.WithMiddleware(tee(&bytesOf)))
	params := stagedQuestion()
	if !stream {
		whole, err := sdk.Chat.Completions.New(t.Context(), params, option.WithResponseInto(&resp))
		if err != nil {
			t.Fatal(err)
		}
		return *whole, resp.Header.Get("Sidenote-Status"), resp.Header.Get("Sidenote-Sources")
	}
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	events := sdk.Chat.Completions.NewStreaming(t.Context(), params, option.WithResponseInto(&resp))
	defer events.Close()
	var all openai.ChatCompletionAccumulator
	for events.Next() {
		if !all.AddChunk(events.Current()) {
			t.Fatalf("chunk does not fit: %s", events.Current().RawJSON())
		}
	}
	if err := events.Err(); err != nil {
		t.Fatal(err)
	}
	if begins := resp.Header.Get("Sidenote-Status"); !regexp.MustCompile(`^staged; stages=[234]; sources=1; `).MatchString(begins) {
		t.Errorf("a stream begins with %s", begins)
	}
	_, comment, _ := strings.Cut(bytesOf.String(), "\n: sidenote-status: ")
	comment, after, _ := strings.Cut(comment, "\n")
	if strings.TrimSpace(after) != "data: [DONE]" {
		t.Errorf("it ends with %q", after)
	}
	status, sources, _ = strings.Cut(comment, " sidenote-sources: ")
	return all.ChatCompletion, status, sources
}
