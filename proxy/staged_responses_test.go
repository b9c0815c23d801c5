package proxy_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/proxy"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval/tools"
	"sidenote/rewrite"
	"sidenote/rewrite/goldentest"
)

// promptsOf returns the texts of the messages and items in requests.
func promptsOf(t *testing.T, requests []string) (list []string) {
	t.Helper()
	for _, body := range requests {
		var request struct {
			Instructions, System json.RawMessage
			Messages, Input      []struct {
				Role    string
				Content json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(body), &request); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		if request.Instructions != nil { // where chat completions get a system message
			list = append(list, "system: "+string(request.Instructions))
		}
		if request.System != nil {
			list = append(list, "system: "+string(request.System))
		}
		for _, m := range append(request.Messages, request.Input...) {
			list = append(list, m.Role+": "+string(m.Content))
		}
	}
	return list
}

// Over the Responses API the stages get the same prompts as over chat completions, and the client
// the same answer: whole, and as a stream by every habit of servers.
func TestStagedDialoguesOverResponses(t *testing.T) {
	for _, a := range goldentest.Load(t, "testdata/stages") {
		d := answertest.Read(t, a)
		if slices.ContainsFunc([]string{`"n":`, `"functions"`, `"modalities"`, `"audio"`, `"logprobs"`, `"best_of"`}, func(member string) bool { return strings.Contains(string(d.Request), member) }) {
			continue // Responses requests have none
		}
		if strings.HasSuffix(d.Name, "usage-not-asked") || d.Name == "unfit-image" { // usage is always told, and images have another form
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			over := d
			over.Request = asResponses(t, d.Request)
			var terms stagedTerms
			if text := d.Others["policy"]; text != nil {
				if err := json.Unmarshal(text, &terms); err != nil {
					t.Fatal(err)
				}
			}
			play := func(h answertest.ItemHabit, stream bool) played {
				return playResponsesWith(t, over, h, stream, staff{}, func(base string) proxy.Config { return withStages(t, base, terms) })
			}
			compare := func(chat, p played, about string) {
				t.Helper()
				if !compareAPIs(t, chat, p, about) {
					return
				}
				if diff := cmp.Diff(promptsOf(t, chat.upstream), promptsOf(t, p.upstream)); diff != "" {
					t.Errorf("%s: %s", about, diff)
				}
			}
			compare(playStages(t, d, plain(), false), play(answertest.ItemHabits()[0], false), "whole")
			if strings.Contains(string(d.Request), `"stream"`) {
				return
			}
			chat := playStages(t, d, plain(), true)
			for _, h := range someOf(answertest.ItemHabits(), d.Name) {
				compare(chat, play(h, true), h.Name)
			}
		})
	}
}

// A request of the Responses API that a chain cannot carry is answered as in mode inject, and the
// status says why.
func TestResponsesUnfitForStages(t *testing.T) {
	for want, more := range map[string]string{
		"client-tools": `"input":"How long is leave?","tools":[{"type":"web_search"}]`,
		"background":   `"input":"How long is leave?","background":true`,
		"stored":       `"input":"How long is leave?","conversation":"conv_1"`,
		"reasoning":    `"input":[{"type":"reasoning","id":"rs_1","summary":[]},{"type":"message","role":"assistant","content":"Yes."},{"role":"user","content":"How long is leave?"}]`,
		"logprobs":     `"input":"How long is leave?","top_logprobs":2`,
		"no-question":  `"input":[{"role":"user","content":"How long is leave?"},{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":"1"}]`,
		"attachments":  `"input":[{"role":"user","content":[{"type":"input_text","text":"How long is leave?"},{"type":"input_image","image_url":"https://a.test/a.png"}]}]`,
	} {
		d := dialogueOf(t, "text Sixteen weeks.")
		u := answertest.StartResponses(t, d, answertest.ItemHabits()[0])
		g := start(t, withStages(t, u.URL, stagedTerms{}), staff{})
		resp, err := http.Post("http://"+g.addr+"/v1/responses", "application/json", strings.NewReader(`{"model":"m",`+more+`}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get(report.HeaderStatus); resp.StatusCode != http.StatusOK || !strings.HasPrefix(got, "injected; ") || !strings.Contains(got, "unstaged="+want+";") {
			t.Errorf("%s: %d %s", want, resp.StatusCode, got)
		}
	}
}

// The requests and answers of each mode over the Responses API, whole and as streams, of
// conversations that the upstream keeps or not, with the input as a string or as items.
func TestResponsesModes(t *testing.T) {
	goldentest.Each(t, "testdata/responses", func(t *testing.T, a *goldentest.Archive) {
		d := answertest.Read(t, a)
		h := answertest.ItemHabits()[0]
		h.Pieces = answertest.Every(1000)
		about := quoted(tools.DescribeXML(tools.Define(toolPolicy().Offer, toolPolicy().Bases)))
		config := func(base string) proxy.Config {
			switch string(bytes.TrimSpace(d.Others["mode"])) {
			case "tools":
				return withTools(t, base, nil)
			case "staged":
				return withStages(t, base, stagedTerms{})
			}
			return withTools(t, base, func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Inject })
		}
		whole := playResponsesWith(t, d, h, false, staff{}, config)
		var requests strings.Builder
		for _, body := range whole.upstream {
			requests.WriteString(withoutFlatTools(body, about) + "\n")
		}
		a.Set("upstream", requests.String())
		a.Set("client", whole.answer())
		streamed := playResponsesWith(t, d, h, true, staff{}, config)
		a.Set("client.stream", streamed.answer())
		if diff := cmp.Diff(whole.upstream, streamed.upstream); diff != "" {
			t.Errorf("as a stream other requests go up: %s", diff)
		}
		want, err := messageOfResponse(whole)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := messageOfResponse(streamed); err != nil || !cmp.Equal(got, want) {
			t.Errorf("whole it is %+v, as a stream %+v, %v", want, got, err)
		}
	})
}

var ourFlatTool = regexp.MustCompile(`\{"type":"function","name":"(search_knowledge|read_knowledge)","description"`)

// withoutFlatTools is withoutTools for a Responses request.
func withoutFlatTools(request, about string) string {
	for {
		at := ourFlatTool.FindStringSubmatchIndex(request)
		if at == nil {
			return withoutTools(request, about)
		}
		var one json.RawMessage
		if json.NewDecoder(strings.NewReader(request[at[0]:])).Decode(&one) != nil {
			return request
		}
		request = request[:at[0]] + "[our " + request[at[2]:at[3]] + "]" + request[at[0]+len(one):]
	}
}
