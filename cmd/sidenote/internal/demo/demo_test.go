package demo_test

import (
	"bufio"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sidenote/cmd/sidenote/internal/billing"
	"sidenote/cmd/sidenote/internal/demo"
	"sidenote/rewrite"
	"sidenote/rewrite/goldentest"
)

func TestCorpus(t *testing.T) {
	files, err := fs.Glob(demo.Corpus(), "*.md")
	if err != nil || len(files) != 14 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		text, err := fs.ReadFile(demo.Corpus(), f)
		if err != nil || !utf8.Valid(text) || !strings.Contains(string(text), "\n## ") {
			t.Errorf("%s has no sections: %v", f, err)
		}
	}
}

const block = `You are the HR assistant.

<sources>
Rules.
<source id="1" type="rag" kb_id="demo" doc_id="leave.md" name="Leave policy" section="Parental leave">
## Parental leave

Every parent may take 16 weeks of parental leave on full pay. Tell your manager.
</source>
<source id="2" type="rag" kb_id="demo" doc_id="leave.md" name="Leave policy" section="Eligibility">
Parental leave on full pay is open after six months of service.
</source>
<source id="3" type="rag" kb_id="demo" doc_id="office.md" name="Offices" section="Dogs">
Dogs are welcome on Fridays.
</source>
</sources>
`

// Context before the retrieved section is not shown.
func TestRenderBeginsAtTheSection(t *testing.T) {
	before := strings.Replace(block, "## Parental leave", "# Leave policy\n\nYou have 28 days of annual leave.\n\n## Parental leave", 1)
	rewritten, err := json.Marshal(map[string]any{"messages": []map[string]string{{"role": "system", "content": before}}})
	if err != nil {
		t.Fatal(err)
	}
	screen := demo.Render(demo.Story{Rewritten: rewritten}, demo.Look{})
	if !strings.Contains(screen, "+   Every parent may take 16 weeks") || strings.Contains(screen, "28 days") {
		t.Errorf("screen:\n%s", screen)
	}
	if full := demo.Render(demo.Story{Rewritten: rewritten}, demo.Look{Full: true}); !strings.Contains(full, "28 days") {
		t.Errorf("full screen:\n%s", full)
	}
}

func TestAnswer(t *testing.T) {
	for _, c := range []struct{ text, question, want string }{
		{block, demo.Question, "Every parent may take 16 weeks of parental leave on full pay [1]. Parental leave on full pay is open after six months of service [2]."},
		{block, "Are dogs welcome?", "Dogs are welcome on Fridays [3]."},
		{block, "Who won the cup?", demo.NoAnswer},
		{"You are the HR assistant.", demo.Question, demo.NoAnswer},
		{`<source id="1">` + "\nunclosed parental leave weeks", demo.Question, demo.NoAnswer},
	} {
		if got := demo.Answer(c.text, c.question); got != c.want {
			t.Errorf("%q:\ngot  %s\nwant %s", c.question, got, c.want)
		}
	}
}

func post(t *testing.T, url, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func chatAbout(t *testing.T, extra string) string {
	t.Helper()
	system, err := json.Marshal(block)
	if err != nil {
		t.Fatal(err)
	}
	return `{"model":"demo"` + extra + `,"messages":[{"role":"system","content":` + string(system) +
		`},{"role":"user","content":[{"type":"text","text":"Are dogs welcome?"},{"type":"image_url","image_url":{"url":"x"}}]}]}`
}

func TestStubAnswers(t *testing.T) {
	stub := &demo.Stub{}
	srv := httptest.NewServer(stub)
	defer srv.Close()
	body := chatAbout(t, `,"n":2`)
	var got struct {
		Object  string
		Choices []struct {
			Index        int
			FinishReason string `json:"finish_reason"`
			Message      struct{ Role, Content string }
		}
		Usage map[string]int
	}
	if err := json.NewDecoder(post(t, srv.URL, body).Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Object != "chat.completion" || len(got.Choices) != 2 || got.Choices[1].Index != 1 || got.Choices[1].FinishReason != "stop" ||
		got.Choices[0].Message.Content != "Dogs are welcome on Fridays [3]." || got.Usage["total_tokens"] != got.Usage["prompt_tokens"]+got.Usage["completion_tokens"] {
		t.Errorf("answer %+v", got)
	}
	if string(stub.LastRequest()) != body {
		t.Error("the recorded request is not the one that was sent")
	}
}

func TestStubStreams(t *testing.T) {
	srv := httptest.NewServer(&demo.Stub{})
	defer srv.Close()
	resp := post(t, srv.URL, chatAbout(t, `,"stream":true,"stream_options":{"include_usage":true}`))
	if ct := resp.Header.Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("content type %s", ct)
	}
	var text, last string
	usage := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		last = data
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
			Usage   map[string]int
		}
		if data != "[DONE]" {
			if err := json.Unmarshal([]byte(data), &chunk); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range chunk.Choices {
			text += c.Delta.Content
		}
		usage += chunk.Usage["total_tokens"]
	}
	if text != "Dogs are welcome on Fridays [3]." || last != "[DONE]" || usage == 0 {
		t.Errorf("text %q, last event %q, usage %d", text, last, usage)
	}
}

func TestStubErrors(t *testing.T) {
	srv := httptest.NewServer(&demo.Stub{})
	defer srv.Close()
	for body, want := range map[string]string{
		`{`:                `"code":"invalid_json"`,
		`{"model":"demo"}`: `"code":"missing_required_parameter"`,
		`{"model":"demo","n":999,"messages":[{}]}`:                        `"code":"integer_above_max_value"`,
		`{"model":"demo","messages":[{"role":"user","content":{"a":1}}]}`: `"code":"invalid_json"`,
	} {
		resp := post(t, srv.URL, body)
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), want) {
			t.Errorf("%s gives %d %s %v", body, resp.StatusCode, text, err)
		}
	}
}

func story() demo.Story {
	original := `{"model":"demo","messages":[{"role":"system","content":"You are the HR assistant."},{"role":"user","content":"How many weeks of parental leave do I get?"}]}`
	content, _ := json.Marshal(block)
	escaped := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(content))
	return demo.Story{
		Question: demo.Question, Documents: 14, Chunks: 1061, Address: "127.0.0.1:8080",
		Original:  []byte(original),
		Rewritten: []byte(strings.Replace(original, `"You are the HR assistant."`, escaped, 1)),
		Ledger: rewrite.Ledger{
			Encoding: "o200k_base", Exactness: rewrite.Exact, Budget: 2000, Used: 1187, Rules: 66, Tags: 96, Text: 1025,
			Components: []rewrite.ComponentEntry{{Name: "sources", Inclusion: rewrite.Included}, {Name: "glossary", Inclusion: rewrite.Excluded, Detail: "needs 900 of 813"}},
			Sources: []rewrite.SourceEntry{
				{ID: 1, Doc: "leave.md", Section: "Parental leave", Inclusion: rewrite.Included, Tokens: 402, Score: 11.2},
				{ID: 2, Doc: "leave.md", Section: "Eligibility", Inclusion: rewrite.Included, Tokens: 80, Score: 9.14},
				{ID: 3, Doc: "office.md", Section: "Dogs", Inclusion: rewrite.Cut, Tokens: 203, Demand: 388},
				{Doc: "leave-2019.md", Section: "Parental leave", Inclusion: rewrite.Excluded, Detail: "duplicate of leave.md#1"},
				{Doc: "travel.md", Section: "Booking", Inclusion: rewrite.Excluded, Detail: "score 1.1 < 3.0"},
				{Doc: "a", Inclusion: rewrite.Excluded}, {Doc: "b", Inclusion: rewrite.Excluded}, {Doc: "c", Inclusion: rewrite.Excluded},
			},
		},
		Answer: demo.Answer(block, demo.Question),
		Index:  38 * time.Millisecond, Search: 400 * time.Microsecond, Fit: 200 * time.Microsecond, Edit: 50 * time.Microsecond,
		Again: 100 * time.Microsecond, Cached: true,
	}
}

func TestScreens(t *testing.T) {
	nothing := story()
	nothing.Rewritten, nothing.Ledger, nothing.Answer = nothing.Original, rewrite.Ledger{Budget: 2000, Exactness: rewrite.Exact, Encoding: "o200k_base"}, demo.NoAnswer
	wide := story()
	wide.Question = strings.Repeat("休暇は何週間ですか ", 40)
	wide.Answer = strings.Repeat("word ", 100)
	for name, c := range map[string]struct {
		story demo.Story
		look  demo.Look
	}{
		"plain": {story(), demo.Look{}}, "full": {story(), demo.Look{Full: true}}, "color": {story(), demo.Look{Color: true}},
		"nothing": {nothing, demo.Look{}}, "wide": {wide, demo.Look{}},
	} {
		got := demo.Render(c.story, c.look)
		goldentest.Text(t, "testdata/"+name+".golden", got)
		if lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n"); !c.look.Full {
			if len(lines) > 40 {
				t.Errorf("%s: %d lines", name, len(lines))
			}
			for _, line := range lines {
				line = strings.NewReplacer("\x1b[32m", "", "\x1b[0m", "").Replace(line)
				if n := utf8.RuneCountInString(line); n > demo.Width || strings.Contains(line, "\x1b") {
					t.Errorf("%s: %d columns: %q", name, n, line)
				}
			}
		}
	}
}

func TestStoryJudges(t *testing.T) {
	good := story()
	if !good.Arrived() || !good.Intact() {
		t.Errorf("arrived %v, intact %v", good.Arrived(), good.Intact())
	}
	lost := story()
	lost.Rewritten = []byte(strings.Replace(string(lost.Rewritten), `id=\"2\"`, `id=\"9\"`, 1))
	if lost.Arrived() {
		t.Error("a lost source is not noticed")
	}
	if cut := (demo.Story{Original: []byte("abc"), Rewritten: []byte("a-c")}); cut.Intact() || cut.Arrived() {
		t.Error("a changed request is not noticed")
	}
	text, err := good.JSON()
	if err != nil || !json.Valid(text) || !strings.Contains(string(text), `"sources_arrived": true`) {
		t.Errorf("JSON %s, %v", text, err)
	}
}

// The stub answers the Messages API whole and as events; search results are cited as Claude does.
func TestStubMessages(t *testing.T) {
	stub := &demo.Stub{}
	ask := func(path, body string) (status int, answer string) {
		w := httptest.NewRecorder()
		stub.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body)))
		return w.Code, w.Body.String()
	}
	const asks = `"model":"claude","messages":[{"role":"user","content":[{"type":"text","text":"How long is parental leave?"},` +
		`{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"Parental leave is 16 weeks."}],"citations":{"enabled":true}}]}]}`
	const cited = `"citations":[{"cited_text":"Parental leave is 16 weeks.","end_block_index":1,"search_result_index":0,"source":"s","start_block_index":0,"title":"t","type":"search_result_location"}],"text":"Parental leave is 16 weeks. "`
	if status, got := ask("/v1/messages", `{"max_tokens":9,`+asks); status != http.StatusOK || !strings.Contains(got, cited) {
		t.Errorf("%d %s", status, got)
	}
	if _, got := ask("/v1/messages", `{"max_tokens":9,"stream":true,`+asks); !strings.Contains(got, `"type":"citations_delta"`) || !strings.HasSuffix(got, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n") {
		t.Error(got)
	}
	if status, got := ask("/v1/messages/count_tokens", `{`+asks); status != http.StatusOK || !strings.HasPrefix(got, `{"input_tokens":`) {
		t.Errorf("%d %s", status, got)
	}
	if status, got := ask("/v1/messages", `{`+asks); status != http.StatusBadRequest || !strings.HasPrefix(got, `{"error":{"message":"The request needs`) {
		t.Errorf("%d %s", status, got)
	}
}

// With billing, each API tells cached and written tokens in its own form, whole and streamed, and
// what the upstream would refuse is refused.
func TestStubTellsCachedTokens(t *testing.T) {
	long := strings.Repeat("word ", 3000)
	f := func(rule billing.Rule, path, body string, want ...string) {
		t.Helper()
		stub := &demo.Stub{Billing: billing.NewMeter(rule, time.Now, nil)}
		for i, want := range want {
			body := strings.NewReader(strings.Replace(body, "TEXT", long, 1))
			w := httptest.NewRecorder()
			stub.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, body))
			if got := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(got, want) {
				t.Errorf("%s, %s, request %d: %d without %s: %s", rule, path, i+1, w.Code, want, got)
			}
		}
	}
	for _, stream := range []string{"", `"stream":true,"stream_options":{"include_usage":true},`} {
		chat := `{"model":"m",` + stream + `"messages":[{"role":"user","content":"TEXT"}]}`
		f(billing.Breakpoints, "/v1/chat/completions", chat,
			`"prompt_tokens":3005,"prompt_tokens_details":{"cache_write_tokens":3005,"cached_tokens":0}`, `"prompt_tokens_details":{"cache_write_tokens":0,"cached_tokens":3005}`)
		f(billing.Prefix, "/v1/chat/completions", chat, `"prompt_tokens_details":{"cached_tokens":0}`, `"prompt_tokens_details":{"cached_tokens":2944}`)
		f(billing.Implicit, "/v1/chat/completions", chat, `"prompt_tokens_details":{"cached_tokens":0}`, `"prompt_tokens_details":{"cached_tokens":3005}`)
		f(billing.Breakpoints, "/v1/responses", strings.ReplaceAll(chat, "messages", "input"),
			`"input_tokens_details":{"cache_write_tokens":3005,"cached_tokens":0}`, `"input_tokens_details":{"cache_write_tokens":0,"cached_tokens":3005}`)
		f(billing.CacheControl, "/v1/messages", strings.Replace(chat, "{", `{"max_tokens":1,"cache_control":{"type":"ephemeral","ttl":"1h"},`, 1),
			`"cache_creation":{"ephemeral_1h_input_tokens":3005,"ephemeral_5m_input_tokens":0},"cache_creation_input_tokens":3005,"cache_read_input_tokens":0,"input_tokens":0`,
			`"cache_creation_input_tokens":0,"cache_read_input_tokens":3005,"input_tokens":0`)
	}
}
