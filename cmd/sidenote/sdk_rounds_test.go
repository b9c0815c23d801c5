package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"sidenote/cache/redis/redistest"
	"sidenote/proxy/answer/answertest"
)

// A turnOfSDK is a turn of a conversation over the Responses API: what the model says in each round,
// and what the app gets.
type turnOfSDK struct {
	answers []string
	ask     string // "" to answer the app's calls
	schema  bool   // asks for structured output
	text    string
	calls   int // of the app's tool
	status  string
}

// sdkTurns are turns with calls of both kinds.
var sdkTurns = []turnOfSDK{
	{
		ask:     "How long is parental leave, and does it rain in Bern?",
		answers: []string{"reasoning First the leave.\ncall search_knowledge {\"query\":\"parental leave\"}", "call search_knowledge {\"query\":\"flights\"}\ncall weather {\"city\":\"Bern\"}\ncall weather {\"city\":\"Basel\"}"},
		calls:   2, status: "tools; api=responses; rounds=2; calls=2; ",
	},
	{
		answers: []string{"text I look once more.\ncall search_knowledge {\"query\":\"paid leave\"}", "text It is 16 weeks, and it rains."},
		text:    "I look once more.It is 16 weeks, and it rains.", status: "tools; api=responses; rounds=2; calls=1; ",
	},
	{ask: "And in Basel?", answers: []string{"call weather {\"city\":\"Basel\"}"}, calls: 1, status: "tools; api=responses; rounds=1; calls=0; "},
	{answers: []string{"text It rains, too."}, text: "It rains, too.", status: "tools; api=responses; rounds=1; calls=0; "},
	{
		ask: "The weeks as JSON?", schema: true, answers: []string{"text {\"weeks\":0}\ncall search_knowledge {\"query\":\"parental leave weeks\"}", "text {\"weeks\":16}"},
		text: `{"weeks":16}`, status: "tools; api=responses; rounds=2; calls=1; ",
	},
}

// A conversation over previous_response_id whose model calls tools of ours and of the app goes on
// while each turn reaches another replica: the official SDK gets text, its own calls and the usage
// of all rounds, and the upstream, which checks that, a result for each call.
func TestSDKResponsesRounds(t *testing.T) {
	var all []string
	for range 2 {
		for _, turn := range sdkTurns {
			all = append(all, turn.answers...)
		}
	}
	d := answertest.Dialogue{Name: t.Name()}
	for _, text := range all {
		a, err := answertest.ParseAnswer(text)
		if err != nil {
			t.Fatal(err)
		}
		d.Answers = append(d.Answers, a)
	}
	up := answertest.StartResponses(t, d, answertest.ItemHabits()[0])
	server := redistest.Start(t)
	f := &desk{t, nil, fmt.Sprintf("upstream: %s/v1\nknowledge: {handbook: %q}\npolicies: {default: {mode: tools}}\ntelemetry: {log: {format: json}}\n", up.URL, handbook(t))}
	replicas := []*process{f.replica(server.URL()), f.replica(server.URL())}
	asked := 0
	for _, stream := range []bool{false, true} {
		var last responses.Response
		for n, turn := range sdkTurns {
			p := replicas[n%2]
			q := responses.ResponseNewParams{Model: "gpt-5", Tools: []responses.ToolUnionParam{responses.ToolParamOfFunction("weather", map[string]any{"type": "object"}, false)}}
			if last.ID != "" {
				q.PreviousResponseID = openai.String(last.ID)
			}
			if q.Input.OfString = openai.String(turn.ask); turn.ask == "" {
				q.Input = responses.ResponseNewParamsInputUnion{}
				for _, item := range last.Output {
					if item.Type == "function_call" {
						q.Input.OfInputItemList = append(q.Input.OfInputItemList, responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
							CallID: openai.String(item.CallID), Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String("It rains.")},
						}})
					}
				}
			}
			if turn.schema {
				q.Text.Format = responses.ResponseFormatTextConfigParamOfJSONSchema("weeks", map[string]any{"type": "object"})
			}
			var status string
			last, status = askRounds(t, p, q, stream)
			if calls := callsOf(last); last.OutputText() != turn.text || len(calls) != turn.calls || strings.Contains(strings.Join(calls, ""), "knowledge") {
				t.Fatalf("stream %v, turn %d: %q, calls %q", stream, n+1, last.OutputText(), calls)
			}
			if want := int64(15 * len(turn.answers)); last.Usage.TotalTokens != want {
				t.Errorf("stream %v, turn %d: %d tokens, want %d", stream, n+1, last.Usage.TotalTokens, want)
			}
			if !strings.HasPrefix(status, turn.status) {
				t.Errorf("stream %v, turn %d: Sidenote-Status %q, want %s", stream, n+1, status, turn.status)
			}
			if asked += len(turn.answers); len(up.Requests()) != asked {
				t.Fatalf("stream %v, turn %d: the upstream was asked %d times, want %d", stream, n+1, len(up.Requests()), asked)
			}
		}
	}
	for _, p := range replicas {
		says(t, p.out, `"tools":{"rounds":2,"calls":`)
	}
}

// askRounds asks for the next response, and returns it with the status, of a stream that at its end.
func askRounds(t *testing.T, p *process, q responses.ResponseNewParams, stream bool) (r responses.Response, status string) {
	t.Helper()
	var got bytes.Buffer
	sdk := openai.NewClient(option.WithBaseURL(p.data+"/v1"), option.WithAPIKey("sk-test"), option.WithMaxRetries(0), option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		resp, err := next(r)
		if err == nil {
			status = resp.Header.Get("Sidenote-Status")
			resp.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(resp.Body, &got), resp.Body}
		}
		return resp, err
	}))
	if !stream {
		answer, err := sdk.Responses.New(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return *answer, status
	}
	events := sdk.Responses.NewStreaming(t.Context(), q)
	defer events.Close()
	var items []string
	text, number := "", int64(0)
	for ; events.Next(); number++ {
		e := events.Current()
		if e.SequenceNumber != number {
			t.Errorf("%s has number %d, want %d", e.Type, e.SequenceNumber, number)
		}
		switch e.Type {
		case "response.output_text.delta":
			text += e.Delta
		case "response.output_item.done":
			items = append(items, e.Item.RawJSON())
		case "response.completed":
			r = e.Response
		}
	}
	if err := events.Err(); err != nil {
		t.Fatal(err)
	}
	var output []string
	for _, item := range r.Output {
		output = append(output, item.RawJSON())
	}
	if !slices.Equal(items, output) || text != r.OutputText() {
		t.Errorf("streamed %q and %q, completed with %q", items, text, output)
	}
	_, status, _ = strings.Cut(got.String(), "\n: sidenote-status: ")
	status, _, _ = strings.Cut(status, "\n")
	return r, status
}

// callsOf returns the calls in a response.
func callsOf(r responses.Response) (list []string) {
	for _, item := range r.Output {
		if item.Type == "function_call" {
			list = append(list, item.Name+item.Arguments.OfString)
		}
	}
	return list
}
