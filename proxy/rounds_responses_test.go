package proxy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3/responses"

	"sidenote/cache"
	"sidenote/proxy"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite/toolcalls"
)

// weatherTool is the application's tool.
const weatherTool = `[{"type":"function","name":"weather","parameters":{"type":"object"}}]`

// A responsesClient asks as applications do, and answers calls of its tool.
type responsesClient struct {
	t      *testing.T
	addr   string
	stream bool
	common string // members of each request
}

// remembersTurns adds stores for what clients do not see.
func remembersTurns(cfg proxy.Config) proxy.Config {
	tier := func(life time.Duration) []cache.Tier {
		return []cache.Tier{{Name: "memory", Store: toolcalls.NewTurnMemory(1 << 20), TTL: life, EmptyTTL: life}}
	}
	cfg.Tools.Turns, cfg.Chains = toolcalls.NewTurnStore(tier(toolcalls.TurnLifetime), nil), cache.NewHistory[cache.Link](cache.Links, tier(cache.HistoryLifetime), nil)
	return cfg
}

// ask sends a request with the given input and other members.
func (c *responsesClient) ask(input any, more string) (r responses.Response, status string) {
	c.t.Helper()
	in, err := json.Marshal(input)
	if err != nil {
		c.t.Fatal(err)
	}
	body := fmt.Sprintf(`{"model":"m","stream":%t,"input":%s%s%s}`, c.stream, in, c.common, more)
	resp, err := http.Post("http://"+c.addr+"/v1/responses", "application/json", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	p := played{status: resp.StatusCode, header: resp.Header, body: string(all)}
	switch {
	case resp.StatusCode != http.StatusOK:
		c.t.Fatalf("%s: %s", body, all)
	case c.stream:
		r, err = joinedResponse(p)
	default:
		err = json.Unmarshal(all, &r)
	}
	if err != nil {
		c.t.Fatalf("%v: %s", err, all)
	}
	if s := string(all); strings.Contains(s, "search_knowledge") || strings.Contains(s, "read_knowledge") {
		c.t.Errorf("the client gets calls of ours: %s", s)
	}
	return r, resp.Header.Get(report.HeaderStatus)
}

// outputs returns the results of the client's calls in a response.
func outputs(r responses.Response) (list []any) {
	for _, item := range r.Output {
		if item.Type == "function_call" {
			list = append(list, map[string]string{"type": "function_call_output", "call_id": item.CallID, "output": "It rains."})
		}
	}
	return list
}

// dialogueOf parses the answers of a dialogue.
func dialogueOf(t *testing.T, texts ...string) (d answertest.Dialogue) {
	t.Helper()
	d.Name = t.Name()
	for _, text := range texts {
		a, err := answertest.ParseAnswer(text)
		if err != nil {
			t.Fatal(err)
		}
		d.Answers = append(d.Answers, a)
	}
	return d
}

// A conversation whose calls of our tools the client never saw goes on, however the client repeats
// the turns before: by the id of a response or of a conversation, or as items. The upstream, which
// checks each request as OpenAI does, has each call beside its result.
func TestResponsesContinueRounds(t *testing.T) {
	const (
		search = `call search_knowledge {"query":"parental leave"}`
		both   = "reasoning Two things.\n" + search + "\ncall weather {\"city\":\"Bern\"}"
	)
	for name, texts := range map[string][]string{
		"both in the first round":            {both, "text It is 16 weeks, and it rains."},
		"theirs after a round of ours":       {"reasoning First ours.\n" + search, "call weather {}", "text It rains."},
		"both after a round of ours":         {search, "call read_knowledge {\"refs\":[\"kb-acme:leave.md:0\"]}\ncall weather {}", "text It rains."},
		"text before a call of ours":         {"text I look.\n" + search, "call weather {}", "text It rains."},
		"both after text and a round":        {"text I look.\n" + search, both, "text It rains."},
		"both twice":                         {both, "text More.\n" + strings.Replace(both, "parental leave", "paid leave", 1), "text Done."},
		"ours after the client's result":     {both, strings.Replace(search, "parental", "paid", 1), "text Done."},
		"theirs alone":                       {"reasoning Theirs.\ncall weather {}", "text It rains."},
		"ours in the last round":             {search, strings.Replace(search, "parental", "paid", 1)},
		"both in the last round":             {search, strings.Replace(both, "parental", "paid", 1), "text It rains."},
		"text, then ours alone, and a reply": {"text I look.\n" + search, "text It is 16 weeks."},
	} {
		for _, way := range []string{"id", "conversation", "items", "stateless"} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%t", name, way, stream), func(t *testing.T) {
					t.Parallel()
					d := dialogueOf(t, append(texts, "text Bye.")...)
					u := answertest.StartResponses(t, d, answertest.ItemHabits()[0])
					g := start(t, remembersTurns(withTools(t, u.URL, func(p *tenant.Policy) {
						if p.Tools.MaxTokens = 16000; strings.HasSuffix(name, "in the last round") {
							p.Tools.MaxRounds = 2
						}
					})), nil)
					c := &responsesClient{t: t, addr: g.addr, stream: stream, common: `,"tools":` + weatherTool}
					input := []any{map[string]string{"role": "user", "content": "How long is leave, and does it rain?"}}
					switch way {
					case "conversation":
						c.common += `,"conversation":"conv_1"`
					case "stateless":
						c.common += `,"store":false,"include":["reasoning.encrypted_content"]`
					}
					next, more, text := input, "", ""
					for asked := 0; text != "Bye."; asked++ {
						if asked > 5 {
							t.Fatal("it does not end")
						}
						r, _ := c.ask(next, more)
						text = r.OutputText()
						results := outputs(r)
						if len(results) == 0 {
							results = []any{map[string]string{"role": "user", "content": "Thanks."}}
						}
						switch way {
						case "id":
							next, more = results, fmt.Sprintf(`,"previous_response_id":%q`, r.ID)
						case "conversation":
							next = results
						default:
							for _, item := range r.Output {
								input = append(input, json.RawMessage(item.RawJSON()))
							}
							input = append(input, results...)
							next = input
						}
					}
					last := u.Requests()[len(u.Requests())-1]
					if all := strings.Join(texts, ""); way == "stateless" && strings.Contains(all, "search_knowledge") && strings.Contains(all, "weather") && !bytes.Contains(last, []byte("kb-acme:leave.md:0")) {
						t.Errorf("the results of our tools are lost: %s", last)
					}
				})
			}
		}
	}
}

// Citations of what our tools found are annotated in the events of the last round and in the item
// that repeats its text.
func TestResponsesRoundsAnnotated(t *testing.T) {
	for _, stream := range []bool{false, true} {
		d := dialogueOf(t, "reasoning Look.\ncall read_knowledge {\"refs\":[\"kb-acme:leave.md:0\"]}", "text It is 16 weeks [1].")
		u := answertest.StartResponses(t, d, answertest.ItemHabits()[0])
		g := start(t, withTools(t, u.URL, func(p *tenant.Policy) { p.Citations.Annotate = true }), nil)
		c := &responsesClient{t: t, addr: g.addr, stream: stream}
		r, _ := c.ask("How long is leave?", "")
		last := r.Output[len(r.Output)-1]
		if len(last.Content) != 1 || len(last.Content[0].Annotations) != 1 || last.Content[0].Annotations[0].Title != "Leave" || r.OutputText() != "It is 16 weeks [1]." {
			t.Errorf("stream %v: %s", stream, last.RawJSON())
		}
	}
}
