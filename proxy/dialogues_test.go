package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"sidenote/proxy"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/tools"
	"sidenote/rewrite"
	"sidenote/rewrite/goldentest"
)

// toolPolicy returns the tool policy of a policy in mode tools, with small limits: tokens are
// bytes here.
func toolPolicy() tools.Policy {
	return tools.Policy{
		Offer: []tools.ToolName{tools.SearchKnowledge, tools.ReadKnowledge}, Bases: []tools.Base{{ID: "kb-acme", Description: "rules for staff"}},
		MaxRounds: 4, MaxTokens: 8000, Timeout: time.Minute,
	}
}

// staff is the knowledge in these tests: a document of three chunks. A search for "fails" fails,
// one for "hangs" lasts until it is cancelled; hangs, if set, gets a value when it begins and when
// it ends.
type staff struct{ hangs chan error }

func (staff) chunks() (list []retrieval.Source) {
	for i, text := range []string{"Parents get 16 weeks of leave.", "Leave is paid.", "Ask <b>HR</b> & \"others\"."} {
		list = append(list, retrieval.Source{Type: "rag", Knowledge: "kb-acme", Doc: "leave.md", Chunk: i, Name: "Leave", Text: text, Score: 5, Relevance: 0.9})
	}
	return list
}

func (s staff) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	switch {
	case strings.Contains(q.Text, "fails"):
		return retrieval.Result{}, retrieval.ErrUnavailable
	case strings.Contains(q.Text, "hangs"):
		if s.hangs != nil {
			s.hangs <- nil
		}
		<-ctx.Done()
		if s.hangs != nil {
			s.hangs <- ctx.Err()
		}
		return retrieval.Result{}, ctx.Err()
	case !strings.Contains(strings.ToLower(q.Text), "leave"):
		return retrieval.Result{Reason: retrieval.ReasonNoMatch}, nil
	}
	list := s.chunks()
	return retrieval.Result{Sources: list[:min(len(list), q.Settings.TopK)]}, nil
}

func (s staff) Passage(_ context.Context, _ retrieval.Query, p retrieval.Passage) ([]retrieval.Source, error) {
	list := s.chunks()
	if p.Knowledge != "kb-acme" || p.Doc != "leave.md" || p.First >= len(list) {
		return nil, fmt.Errorf("%s: %w", p.Doc, retrieval.ErrNoHit)
	}
	return list[p.First:min(p.End, len(list))], nil
}

// newBox returns the tools of these tests.
func newBox() *tools.Box {
	return &tools.Box{Knowledge: tools.Knowledge{Retriever: staff{}, Reader: staff{}, Terms: strings.Fields}}
}

// withTools starts a proxy whose only policy is in mode tools.
func withTools(t testing.TB, base string, change func(*tenant.Policy)) proxy.Config {
	t.Helper()
	u, err := url.Parse(base + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	return proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u}}, Tools: &proxy.RoundsKit{Box: newBox()},
		Tenants: tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) {
			p.Rewrite.Mode, p.Tools = rewrite.Tools, toolPolicy()
			if change != nil {
				change(p)
			}
		})},
	}
}

// plain is the habit of dialogues whose bytes are compared: OpenAI's, with long pieces.
func plain() answertest.Habit {
	h := answertest.Habits()[0]
	h.Pieces = answertest.Every(1000)
	return h
}

// asStream turns a request into one for a stream.
const asStream = `"stream":true,"stream_options":{"include_usage":true},`

// A played is the result of a dialogue.
type played struct {
	upstream []string // requests
	status   int
	header   http.Header
	body     string
	err      error // of reading the body

	sameIndex bool // the upstream gives each output item the same index
}

// playDialogue plays a dialogue with tools, as a stream or as its request asks for.
func playDialogue(t *testing.T, d answertest.Dialogue, h answertest.Habit, stream bool) played {
	t.Helper()
	return playWith(t, d, h, stream, nil, func(base string) proxy.Config {
		return withTools(t, base, func(p *tenant.Policy) {
			if text := d.Others["policy"]; text != nil {
				if err := json.Unmarshal(text, &p.Tools); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
}

// playWith plays a dialogue with the configuration for an upstream and a retriever.
func playWith(t *testing.T, d answertest.Dialogue, h answertest.Habit, stream bool, r retrieval.Retriever, config func(base string) proxy.Config) played {
	t.Helper()
	u := answertest.Start(t, d, h)
	g := start(t, config(u.URL), r)
	body := bytes.TrimSpace(d.Request)
	if stream {
		body = append([]byte("{"+asStream), body[1:]...)
	}
	resp, err := http.Post("http://"+g.addr+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	p := played{status: resp.StatusCode, header: resp.Header, body: string(all), err: err}
	for _, request := range u.Requests() {
		p.upstream = append(p.upstream, strings.Replace(string(request), asStream, "", 1))
	}
	return p
}

var (
	madeID = regexp.MustCompile(`call_[a-z2-7]{24}`)
	took   = regexp.MustCompile(`-ms=\d+`)
	ownID  = regexp.MustCompile(`"chatcmpl-[0-9A-Z]{26}","object":"([a-z.]+)","created":\d+`)
)

// stable replaces the parts of a text that differ each time.
func stable(text string) string {
	var ids []string
	text = madeID.ReplaceAllStringFunc(text, func(id string) string {
		if !strings.ContainsAny(id[len("call_"):], "abcdefghijklmnopqrstuvwxyz") {
			return id // the upstream's id
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		return fmt.Sprintf("call_made_%d", slices.Index(ids, id)+1)
	})
	text = ownID.ReplaceAllString(text, `"chatcmpl-own","object":"$1","created":1`)
	return took.ReplaceAllString(text, "-ms=0")
}

// requests returns the requests of a dialogue: the first one, and of the others only what is new.
// The definitions of Sidenote's tools are left out.
func (p *played) requests(t *testing.T, about string) string {
	t.Helper()
	var b strings.Builder
	before, around := "", ""
	for n, request := range p.upstream {
		var fields struct{ Messages json.RawMessage }
		if err := json.Unmarshal([]byte(request), &fields); err != nil {
			t.Fatal(err)
		}
		messages := strings.TrimSuffix(string(fields.Messages), "]")
		rest := strings.Replace(request, messages, "…", 1)
		if n == 0 {
			fmt.Fprintf(&b, "%s\n", withoutTools(request, about))
		} else {
			added, ok := strings.CutPrefix(messages, before)
			switch {
			case !ok && strings.Contains(p.header.Get(report.HeaderStatus), "; retry="):
				fmt.Fprintf(&b, "again %s\n", withoutTools(request, about))
			case !ok:
				t.Errorf("request %d does not begin as the one before:\n%s\n%s", n+1, messages, before)
			default:
				fmt.Fprintf(&b, "+%s\n", strings.ReplaceAll(added, `,{"role"`, "\n  ,{\"role\""))
				if rest != around {
					fmt.Fprintf(&b, "= %s\n", withoutTools(rest, about))
				}
			}
		}
		before, around = messages, rest
	}
	return stable(b.String())
}

var ourTool = regexp.MustCompile(`\{"type":"function","function":\{"name":"((?:sidenote_)*(?:search_knowledge|read_knowledge|search_files|recall))","description"`)

// withoutTools replaces the definitions of Sidenote's tools, and the text about them, by names.
func withoutTools(request, about string) string {
	request = strings.Replace(request, about, "[about our tools]", 1)
	for {
		at := ourTool.FindStringSubmatchIndex(request)
		if at == nil {
			return request
		}
		var one json.RawMessage
		if json.NewDecoder(strings.NewReader(request[at[0]:])).Decode(&one) != nil {
			return request
		}
		request = request[:at[0]] + "[our " + request[at[2]:at[3]] + "]" + request[at[0]+len(one):]
	}
}

// answer returns what the client got, as text.
func (p *played) answer() string {
	text := fmt.Sprintf("%d %s\n%s", p.status, p.header.Get(report.HeaderStatus), p.body)
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if p.err != nil {
		text += "[cut]\n"
	}
	return stable(text)
}

// Each row of the tables of tool rounds in the documentation, and every other case, has a
// dialogue: the requests sent upstream and what the client gets, as a whole and as a stream.
func TestDialogues(t *testing.T) {
	goldentest.Each(t, "testdata/dialogues", func(t *testing.T, a *goldentest.Archive) {
		d := answertest.Read(t, a)
		policy := toolPolicy()
		if err := json.Unmarshal(append([]byte(nil), cmpOr(d.Others["policy"], []byte("{}"))...), &policy); err != nil {
			t.Fatal(err)
		}
		about := quoted(tools.DescribeXML(tools.Define(policy.Offer, policy.Bases)))
		whole := playDialogue(t, d, plain(), false)
		upstream := whole.requests(t, about)
		a.Set("upstream", upstream)
		a.Set("client", whole.answer())
		if bytes.Contains(d.Request, []byte(`"stream"`)) {
			return
		}
		streamed := playDialogue(t, d, plain(), true)
		a.Set("client.stream", streamed.answer())
		if diff := cmp.Diff(upstream, streamed.requests(t, about)); diff != "" && !bytes.Contains(d.Request, []byte("once")) {
			t.Errorf("as a stream another request goes up: %s", diff)
		}
		compareMessages(t, d, whole, streamed)
	})
}

// someOf returns the habits of servers that a dialogue is played with: all of them, or in the short
// run a quarter, which is another one for the next dialogue.
func someOf[T any](habits []T, name string) []T {
	if !testing.Short() {
		return habits
	}
	sum := 0
	for _, c := range []byte(name) {
		sum += int(c)
	}
	var some []T
	for i, h := range habits {
		if (i+sum)%4 == 0 {
			some = append(some, h)
		}
	}
	return some
}

func cmpOr(a, b []byte) []byte {
	if len(a) > 0 {
		return a
	}
	return b
}

// quoted returns a text as it appears within a JSON string.
func quoted(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err)
	}
	return strings.Trim(strings.TrimSpace(b.String()), `"`)
}

// A message is what an application reads from an answer.
type message struct {
	Text, Refusal, Finish string
	Calls                 []string
	Prompt, Tokens        int64
}

// messageOf reads an answer as the official SDK does.
func messageOf(p played) (m message, err error) {
	var all openai.ChatCompletion
	if strings.HasPrefix(p.header.Get("Content-Type"), "text/event-stream") {
		stream := ssestream.NewStream[openai.ChatCompletionChunk](ssestream.NewDecoder(&http.Response{Header: p.header, Body: io.NopCloser(strings.NewReader(p.body))}), nil)
		var joined openai.ChatCompletionAccumulator
		for stream.Next() {
			if !joined.AddChunk(stream.Current()) {
				return m, fmt.Errorf("chunk does not fit: %s", stream.Current().RawJSON())
			}
		}
		if stream.Err() != nil {
			return m, stream.Err()
		}
		all = joined.ChatCompletion
	} else if err := json.Unmarshal([]byte(p.body), &all); err != nil {
		return m, err
	}
	if len(all.Choices) == 0 {
		return m, errors.New("no choices")
	}
	c := all.Choices[0]
	m = message{Text: c.Message.Content, Refusal: c.Message.Refusal, Finish: c.FinishReason, Prompt: all.Usage.PromptTokens, Tokens: all.Usage.CompletionTokens}
	for _, call := range c.Message.ToolCalls {
		m.Calls = append(m.Calls, call.Function.Name+call.Function.Arguments)
	}
	return m, nil
}

// compareMessages compares what an application reads from an answer, as a whole and as streams
// with every habit of servers.
func compareMessages(t *testing.T, d answertest.Dialogue, whole, streamed played) {
	t.Helper()
	want, wantErr := messageOf(whole)
	if got, err := messageOf(streamed); wantErr == nil && !cmp.Equal(got, want) {
		t.Errorf("whole it is %+v, as a stream %+v, %v", want, got, err)
	}
	if wantErr != nil || whole.status != http.StatusOK || d.Others["policy"] != nil && bytes.Contains(d.Others["policy"], []byte("XML")) {
		return
	}
	for _, h := range someOf(answertest.Habits(), d.Name) {
		got, err := messageOf(playDialogue(t, d, h, true))
		if h.Stop {
			got.Finish = want.Finish
		}
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("by the habit of %s: %v %s", h.Name, err, cmp.Diff(want, got))
		}
	}
}
