package proxy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/proxy"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
	"sidenote/rewrite/goldentest"
	"sidenote/rewrite/toolcalls/toolcallstest"
)

// A messagesStub is an upstream of the Messages API that plays a dialogue.
type messagesStub struct {
	t        *testing.T
	dialogue answertest.Dialogue
	mu       sync.Mutex
	requests []string
}

// ServeHTTP gives the nth answer to the nth request, which must keep the rules of the API.
func (u *messagesStub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost { // the client left, or asks whether the server is up
		http.NotFound(w, r)
		return
	}
	u.mu.Lock()
	u.requests = append(u.requests, string(body))
	n := len(u.requests)
	u.mu.Unlock()
	if err = toolcallstest.CheckMessages(body); err == nil && n > len(u.dialogue.Answers) {
		err = fmt.Errorf("there are %d answers", len(u.dialogue.Answers))
	}
	if err != nil {
		u.t.Errorf("%s: request %d: %v: %s", u.dialogue.Name, n, err, body)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a := u.dialogue.Answers[n-1]
	out, kind := messageBytes(a, n, bytes.Contains(body, []byte(`"stream":true`)))
	if a.Status != 0 {
		out, kind = []byte(a.Body), "application/json"
	}
	w.Header().Set("Content-Type", kind)
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	if a.Cut {
		at := bytes.LastIndex(out, []byte("message_delta"))
		if at < 0 { // a whole answer
			at = len(out) / 2
		}
		out = out[:at]
	}
	_, _ = w.Write(out)
	if a.Cut {
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// stopReasons are the reasons of the Messages API for those of chat completions.
var stopReasons = map[string]string{"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}

// messageBytes encodes the nth answer of a dialogue as a message.
func messageBytes(a answertest.Answer, n int, stream bool) (body []byte, kind string) {
	type object = map[string]any
	content := []object{}
	if a.Reasoning != "" {
		content = append(content, object{"type": "thinking", "thinking": a.Reasoning, "signature": "EqQB"})
	}
	if text := a.Text + a.Refusal; text != "" {
		content = append(content, object{"type": "text", "text": text})
	}
	for i, c := range a.Calls {
		content = append(content, object{"type": "tool_use", "id": fmt.Sprintf("toolu_%d_%d", n, i), "name": c.Name, "input": json.RawMessage(c.Arguments)})
	}
	usage := object{"input_tokens": a.PromptTokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": a.Tokens}
	message := object{"id": fmt.Sprint("msg_", n), "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": stopReasons[a.Finish], "stop_sequence": nil, "usage": usage}
	encode := func(o object) []byte {
		raw, err := json.Marshal(o)
		if err != nil {
			panic(err)
		}
		return raw
	}
	if !stream {
		return encode(message), "application/json"
	}
	send := func(name string, o object) {
		o["type"] = name
		body = fmt.Appendf(body, "event: %s\ndata: %s\n\n", name, encode(o))
	}
	message["content"], message["stop_reason"] = []any{}, nil
	send("message_start", object{"message": message})
	for i, block := range content {
		delta := object{}
		begun := object{"type": block["type"]}
		switch block["type"] {
		case "thinking":
			begun["thinking"], begun["signature"] = "", ""
			delta = object{"type": "thinking_delta", "thinking": block["thinking"]}
		case "text":
			begun["text"] = ""
			delta = object{"type": "text_delta", "text": block["text"]}
		case "tool_use":
			begun["id"], begun["name"], begun["input"] = block["id"], block["name"], object{}
			delta = object{"type": "input_json_delta", "partial_json": string(block["input"].(json.RawMessage))}
		}
		send("content_block_start", object{"index": i, "content_block": begun})
		send("ping", object{})
		send("content_block_delta", object{"index": i, "delta": delta})
		if block["type"] == "thinking" {
			send("content_block_delta", object{"index": i, "delta": object{"type": "signature_delta", "signature": block["signature"]}})
		}
		send("content_block_stop", object{"index": i})
	}
	send("message_delta", object{"delta": object{"stop_reason": stopReasons[a.Finish], "stop_sequence": nil}, "usage": usage})
	send("message_stop", object{})
	return body, "text/event-stream"
}

// playMessages plays a dialogue whose request is of the Messages API.
func playMessages(t *testing.T, d answertest.Dialogue, stream bool, config func(base string) proxy.Config) played {
	t.Helper()
	u := &messagesStub{t: t, dialogue: d}
	server := httptest.NewServer(u)
	defer server.Close()
	g := start(t, config(server.URL), staff{})
	body := bytes.TrimSpace(d.Request)
	if stream {
		body = append([]byte(`{"stream":true,`), body[1:]...)
	}
	resp, err := http.Post("http://"+g.addr+"/v1/messages", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	p := played{status: resp.StatusCode, header: resp.Header, body: string(all), err: err}
	if len(u.requests) != len(d.Answers) {
		t.Errorf("%s: %d answers, asked for %d", d.Name, len(d.Answers), len(u.requests))
	}
	for _, request := range u.requests {
		p.upstream = append(p.upstream, strings.Replace(request, `"stream":true,`, "", 1))
	}
	return p
}

// asMessages turns a request for chat completions into one of the Messages API.
func asMessages(t *testing.T, request []byte) []byte {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(request, &all); err != nil {
		t.Fatal(err)
	}
	to := map[string]any{"max_tokens": 4096}
	for old, renamed := range map[string]string{
		"model": "model", "sidenote": "sidenote", "stream": "stream", "temperature": "temperature", "top_p": "top_p",
		"max_tokens": "max_tokens", "max_completion_tokens": "max_tokens", "stop": "stop_sequences",
	} {
		if v, ok := all[old]; ok {
			to[renamed] = v
		}
	}
	if all["response_format"] != nil {
		to["output_config"] = map[string]any{"format": map[string]any{"type": "json_schema", "schema": map[string]any{}}}
	}
	if list, _ := all["tools"].([]any); len(list) > 0 {
		to["tools"] = []any{map[string]any{"name": "f", "input_schema": map[string]any{"type": "object"}}}
	}
	var messages []any
	for _, m := range all["messages"].([]any) {
		m := m.(map[string]any)
		if m["role"] == "system" && len(messages) == 0 {
			to["system"] = m["content"]
			continue
		}
		if m["role"] == "developer" {
			m["role"] = "system"
		}
		messages = append(messages, m)
	}
	to["messages"] = messages
	body, err := json.Marshal(to)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// messageOfMessage reads an answer of the Messages API as applications do, and checks its events.
func messageOfMessage(p played) (m message, err error) {
	var all struct {
		Type    string
		Content []struct{ Type, Text string }
		Stop    string `json:"stop_reason"`
		Usage   struct {
			Input  int64 `json:"input_tokens"`
			Output int64 `json:"output_tokens"`
		}
	}
	if strings.HasPrefix(p.header.Get("Content-Type"), "text/event-stream") {
		joined, err := joinedMessage(p.body)
		if err != nil {
			return m, err
		}
		p.body = joined
	}
	if err := json.Unmarshal([]byte(p.body), &all); err != nil {
		return m, err
	}
	if all.Type != "message" {
		return m, errors.New("no message")
	}
	m = message{Prompt: all.Usage.Input, Tokens: all.Usage.Output}
	for finish, reason := range stopReasons {
		if reason == all.Stop {
			m.Finish = finish
		}
	}
	for _, block := range all.Content {
		if block.Type == "text" {
			m.Text += block.Text
		}
	}
	return m, nil
}

// joinedMessage returns the message that a stream tells: one start, blocks one after the other with
// indexes without gaps, and one end.
func joinedMessage(stream string) (string, error) {
	var message map[string]any
	var content []map[string]any
	open, ended := false, false
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type    string
			Message map[string]any
			Index   int
			Block   map[string]any `json:"content_block"`
			Delta   map[string]any
			Usage   map[string]any
			Error   any
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return "", err
		}
		last := len(content) - 1
		switch {
		case e.Type == "error":
			return "", fmt.Errorf("error: %v", e.Error)
		case e.Type == "ping":
		case ended, (e.Type == "message_start") != (message == nil):
			return "", fmt.Errorf("out of order: %s", data)
		case e.Type == "message_start":
			message = e.Message
		case e.Type == "content_block_start" && !open && e.Index == last+1:
			open = true
			content = append(content, e.Block)
		case e.Type == "content_block_delta" && open && e.Index == last:
			if text, ok := e.Delta["text"].(string); ok {
				content[last]["text"] = content[last]["text"].(string) + text
			}
		case e.Type == "content_block_stop" && open && e.Index == last:
			open = false
		case e.Type == "message_delta" && !open:
			message["stop_reason"] = e.Delta["stop_reason"]
			usage := message["usage"].(map[string]any)
			for name, n := range e.Usage {
				usage[name] = n
			}
		case e.Type == "message_stop" && !open:
			ended = true
		default:
			return "", fmt.Errorf("out of order: %s", data)
		}
	}
	if !ended {
		return "", errors.New("no end")
	}
	message["content"] = content
	raw, err := json.Marshal(message)
	return string(raw), err
}

// textsOf returns the texts of prompts as promptsOf returns them, which may hold several.
func textsOf(t *testing.T, prompts []string) (list []string) {
	t.Helper()
	for _, p := range prompts {
		role, content, _ := strings.Cut(p, ": ")
		texts := []struct{ Text string }{{}}
		if json.Unmarshal([]byte(content), &texts[0].Text) != nil && json.Unmarshal([]byte(content), &texts) != nil {
			t.Fatal(p)
		}
		for _, one := range texts {
			list = append(list, strings.Replace(role, "developer", "system", 1)+": "+one.Text)
		}
	}
	return list
}

// Over the Messages API the stages get the same prompts as over chat completions, and the client
// the same answer: whole, and as a stream.
func TestStagedDialoguesOverMessages(t *testing.T) {
	for _, a := range goldentest.Load(t, "testdata/stages") {
		d := answertest.Read(t, a)
		if slices.ContainsFunc([]string{`"n":2`, `"modalities"`, `"logprobs"`, `"image_url"`}, func(member string) bool { return strings.Contains(string(d.Request), member) }) {
			continue // Messages requests have none, or in another form
		}
		if strings.HasSuffix(d.Name, "usage-not-asked") || strings.HasSuffix(d.Name, "-refusal") { // usage is always told, and a refusal is a text
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			over := d
			over.Request = asMessages(t, d.Request)
			var terms stagedTerms
			if text := d.Others["policy"]; text != nil {
				if err := json.Unmarshal(text, &terms); err != nil {
					t.Fatal(err)
				}
			}
			for way, stream := range map[string]bool{"whole": false, "stream": true} {
				chat := playStages(t, d, plain(), stream)
				p := playMessages(t, over, stream, func(base string) proxy.Config { return withStages(t, base, terms) })
				if chat.err != nil && p.err != nil {
					continue
				}
				want, wantErr := messageOf(chat)
				got, err := messageOfMessage(p)
				if p.status != chat.status || (err == nil) != (wantErr == nil) {
					t.Fatalf("%s: status %d, %v; over chat completions %d, %v\n%s", way, p.status, err, chat.status, wantErr, p.body)
				}
				if diff := cmp.Diff(want, got); wantErr == nil && diff != "" {
					t.Errorf("%s: %s\n%s", way, diff, p.body)
				}
				if diff := cmp.Diff(textsOf(t, promptsOf(t, chat.upstream)), textsOf(t, promptsOf(t, p.upstream))); diff != "" {
					t.Errorf("%s: %s", way, diff)
				}
			}
		})
	}
}

// A request of the Messages API that a chain cannot carry is answered as in mode inject, and the
// status says why.
func TestMessagesUnfitForStages(t *testing.T) {
	const asked = `{"role":"user","content":"How long is leave?"}`
	for want, more := range map[string]string{
		"client-tools": `"messages":[` + asked + `],"tools":[{"name":"f","input_schema":{"type":"object"}}]`,
		"stored":       `"messages":[` + asked + `],"thread":{"type":"create"}`,
		"reasoning":    `"messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"s"},{"type":"text","text":"Hi"}]},` + asked + `]`,
		"attachments":  `"messages":[{"role":"user","content":[{"type":"text","text":"How long is leave?"},{"type":"image","source":{"type":"url","url":"https://a.test/a.png"}}]}]`,
	} {
		d := dialogueOf(t, "text Sixteen weeks.")
		d.Request = []byte(`{"model":"m","max_tokens":9,` + more + `}`)
		p := playMessages(t, d, false, func(base string) proxy.Config { return withStages(t, base, stagedTerms{}) })
		if got := p.header.Get(report.HeaderStatus); p.status != http.StatusOK || !strings.HasPrefix(got, "injected; ") || !strings.Contains(got, "unstaged="+want+";") {
			t.Errorf("%s: %d %s", want, p.status, got)
		}
	}
}

// The requests and answers of modes inject and staged over the Messages API, whole and as streams.
func TestMessagesModes(t *testing.T) {
	goldentest.Each(t, "testdata/messages", func(t *testing.T, a *goldentest.Archive) {
		d := answertest.Read(t, a)
		config := func(base string) proxy.Config {
			if string(bytes.TrimSpace(d.Others["mode"])) == "staged" {
				return withStages(t, base, stagedTerms{})
			}
			return withTools(t, base, func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Inject })
		}
		whole := playMessages(t, d, false, config)
		a.Set("upstream", strings.Join(whole.upstream, "\n")+"\n")
		a.Set("client", whole.answer())
		streamed := playMessages(t, d, true, config)
		a.Set("client.stream", streamed.answer())
		if diff := cmp.Diff(whole.upstream, streamed.upstream); diff != "" {
			t.Errorf("as a stream other requests go up: %s", diff)
		}
		want, err := messageOfMessage(whole)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := messageOfMessage(streamed); err != nil || !cmp.Equal(got, want) {
			t.Errorf("whole it is %+v, as a stream %+v, %v", want, got, err)
		}
	})
}
