package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"sidenote/cmd/sidenote/internal/demo"
	"sidenote/rewrite/tags"
)

func responsesQuestion(model string) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model: model, Instructions: openai.String("You are the HR assistant."),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("How many weeks of parental leave do I get?")},
	}
}

// instructionsOf returns the member instructions of a body.
func instructionsOf(t *testing.T, body []byte) string {
	t.Helper()
	var r struct{ Instructions string }
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	return r.Instructions
}

// The Responses API of the official SDK gets grounded answers, whole and streamed; the upstream
// gets what the SDK sent, with the sources at the end of the instructions.
func TestSDKResponses(t *testing.T) {
	up := newRecorder(t)
	p := serve(t, "--upstream", up.URL, "--knowledge", handbook(t))
	var sent []byte
	sdk := sdkClient(p, &sent)
	grounded := func(t *testing.T) {
		t.Helper()
		got := up.last(t).body
		added := instructionsOf(t, got)
		block, ok := strings.CutPrefix(added, "You are the HR assistant.\n\n"+tags.SourcesOpen)
		if !ok || !strings.Contains(block, "16 weeks") || !strings.HasSuffix(block, tags.SourcesClose) {
			t.Fatalf("instructions: %q", added)
		}
		if back := bytes.Replace(got, insertedInto(t, sent, got), nil, 1); !bytes.Equal(back, sent) {
			t.Errorf("outside the insertion\nsent %s\ngot  %s", sent, got)
		}
	}
	t.Run("create", func(t *testing.T) {
		var resp *http.Response
		answer, err := sdk.Responses.New(t.Context(), responsesQuestion("gpt-5"), option.WithResponseInto(&resp))
		if err != nil {
			t.Fatal(err)
		}
		if answer.OutputText() != "Sixteen weeks [1]." || answer.Usage.InputTokens != 120 {
			t.Errorf("%q with %d tokens", answer.OutputText(), answer.Usage.InputTokens)
		}
		grounded(t)
		if s := resp.Header.Get("Sidenote-Status"); !strings.HasPrefix(s, "injected; api=responses; sources=1; ") {
			t.Errorf("Sidenote-Status: %s", s)
		}
		if s := resp.Header.Get("Sidenote-Sources"); s != `"1";kb="handbook";doc="leave.md";name="Leave policy";section="Parental leave"` {
			t.Errorf("Sidenote-Sources: %s", s)
		}
	})
	t.Run("stream", func(t *testing.T) {
		stream := sdk.Responses.NewStreaming(t.Context(), responsesQuestion("gpt-5"))
		var text strings.Builder
		final := ""
		for stream.Next() {
			switch e := stream.Current().AsAny().(type) {
			case responses.ResponseTextDeltaEvent:
				text.WriteString(e.Delta)
			case responses.ResponseCompletedEvent:
				final = e.Response.OutputText()
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		if text.String() != "Sixteen weeks [1]." || final != text.String() {
			t.Errorf("streamed %q, completed with %q", text.String(), final)
		}
		grounded(t)
	})
	t.Run("count", func(t *testing.T) {
		if _, err := sdk.Responses.New(t.Context(), responsesQuestion("gpt-5")); err != nil {
			t.Fatal(err)
		}
		want := instructionsOf(t, up.last(t).body)
		q := responsesQuestion("gpt-5")
		n, err := sdk.Responses.InputTokens.Count(t.Context(), responses.InputTokenCountParams{
			Model: openai.String("gpt-5"), Instructions: q.Instructions, Input: responses.InputTokenCountParamsInputUnion{OfString: q.Input.OfString},
		})
		if err != nil || n.InputTokens != 120 {
			t.Fatal(n, err)
		}
		if got := instructionsOf(t, up.last(t).body); got != want {
			t.Errorf("counted with instructions %q, sent with %q", got, want)
		}
	})
	t.Run("own tools", func(t *testing.T) {
		q := responsesQuestion("gpt-5")
		q.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: []responses.ResponseInputItemUnionParam{
			responses.ResponseInputItemParamOfMessage("How many weeks of parental leave do I get?", responses.EasyInputMessageRoleUser),
		}}
		q.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction("weather", map[string]any{"type": "object"}, false)}
		q.Store = openai.Bool(false)
		answer, err := sdk.Responses.New(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		call := answer.Output[0].AsFunctionCall()
		first := instructionsOf(t, up.last(t).body)
		q.Input.OfInputItemList = append(q.Input.OfInputItemList,
			responses.ResponseInputItemParamOfFunctionCall(call.Arguments, call.CallID, call.Name),
			responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
				CallID: openai.String(call.CallID), Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String("rain")},
			}})
		if answer, err = sdk.Responses.New(t.Context(), q); err != nil || answer.OutputText() != "Sixteen weeks [1]." {
			t.Fatal(answer, err)
		}
		grounded(t)
		if second := instructionsOf(t, up.last(t).body); second != first {
			t.Errorf("the second round has other instructions\n%q\n%q", first, second)
		}
	})
	t.Run("errors", func(t *testing.T) {
		var api *openai.Error
		_, err := sdk.Responses.New(t.Context(), responsesQuestion("gpt-5"), option.WithJSONSet("sidenote", map[string]any{"mode": "loud"}))
		if !errors.As(err, &api) || api.StatusCode != 400 || api.Param != "sidenote.mode" || !strings.Contains(api.Message, `"loud"`) {
			t.Errorf("%v", err)
		}
	})
}

// insertedInto returns what was inserted into sent to make got.
func insertedInto(t *testing.T, sent, got []byte) []byte {
	t.Helper()
	at := 0
	for at < len(sent) && sent[at] == got[at] {
		at++
	}
	if len(got) <= len(sent) {
		t.Fatalf("nothing was added: %s", got)
	}
	return got[at : at+len(got)-len(sent)]
}

// An answer that Sidenote gives itself has the form that the SDK reads, whole and streamed.
func TestSDKResponsesFixedAnswer(t *testing.T) {
	up := newRecorder(t)
	file := written(t, "sidenote.yaml", fmt.Sprintf("upstream: {base_url: %s/v1}\nknowledge: {handbook: {path: %q}}\npolicies: {default: {on_empty: refuse, empty_answer: \"I know \\\"nothing\\\".\"}}\ntenants: {t: {knowledge: [handbook], keys: [\"%x\"]}}\n",
		up.URL, handbook(t), sha256.Sum256([]byte("sk-test"))))
	p := serve(t, "--config", file)
	var sent []byte
	sdk := sdkClient(p, &sent)
	q, before := responsesQuestion("gpt-5"), up.count()
	q.Input.OfString = openai.String("Where do hippopotami sleep?")
	answer, err := sdk.Responses.New(t.Context(), q)
	if err != nil || answer.OutputText() != `I know "nothing".` || answer.Status != responses.ResponseStatusCompleted {
		t.Fatal(answer, err)
	}
	stream := sdk.Responses.NewStreaming(t.Context(), q)
	var names []string
	for n := int64(0); stream.Next(); n++ {
		e := stream.Current()
		names = append(names, strings.TrimPrefix(e.Type, "response."))
		if e.SequenceNumber != n {
			t.Errorf("%s has number %d, want %d", e.Type, e.SequenceNumber, n)
		}
		if e.Type == "response.completed" && e.AsResponseCompleted().Response.OutputText() != `I know "nothing".` {
			t.Errorf("completed with %q", e.AsResponseCompleted().Response.OutputText())
		}
	}
	want := "created in_progress output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done completed"
	if got := strings.Join(names, " "); got != want || stream.Err() != nil {
		t.Errorf("events %s, %v", got, stream.Err())
	}
	if up.count() != before {
		t.Error("the upstream was called")
	}
	n, err := sdk.Responses.InputTokens.Count(t.Context(), responses.InputTokenCountParams{
		Model: openai.String("gpt-5"), Input: responses.InputTokenCountParamsInputUnion{OfString: q.Input.OfString},
	})
	if err != nil || n.InputTokens != 120 {
		t.Errorf("counted %v, %v", n, err)
	}
}

// A conversation over previous_response_id may change the replica at each turn: a follow-up joins the
// turns that only the upstream holds, and a round with nothing but the output of a tool gets the
// sources of its question again, byte for byte.
func TestSDKResponsesChain(t *testing.T) {
	f := newFleet(t)
	replicas := []*process{f.replica("", ""), f.replica("", "")}
	var sent []byte
	turn := 0
	ask := func(previous string, stream bool, change func(*responses.ResponseNewParams)) (id, instructions string) {
		t.Helper()
		sdk := sdkClient(replicas[turn%2], &sent)
		turn++
		q := responsesQuestion("gpt-5")
		if previous != "" {
			q.PreviousResponseID = openai.String(previous)
		}
		change(&q)
		if !stream {
			answer, err := sdk.Responses.New(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			return answer.ID, instructionsOf(t, f.up.last(t).body)
		}
		s := sdk.Responses.NewStreaming(t.Context(), q)
		for s.Next() {
			if s.Current().Type == "response.completed" {
				id = s.Current().AsResponseCompleted().Response.ID
			}
		}
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
		return id, instructionsOf(t, f.up.last(t).body)
	}
	text := func(text string) func(*responses.ResponseNewParams) {
		return func(q *responses.ResponseNewParams) { q.Input.OfString = openai.String(text) }
	}
	for _, stream := range []bool{false, true} {
		first, leave := ask("", stream, text("How many weeks of parental leave do I get?"))
		if !strings.Contains(leave, "16 weeks") {
			t.Fatalf("stream %v: instructions %q", stream, leave)
		}
		second, again := ask(first, stream, func(q *responses.ResponseNewParams) {
			q.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: []responses.ResponseInputItemUnionParam{{
				OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
					CallID: openai.String("call_1"), Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String("rain")},
				},
			}}}
		})
		if again != leave {
			t.Errorf("stream %v: the round after a tool has other instructions\n%q\n%q", stream, leave, again)
		}
		third, followUp := ask(second, stream, text("And is it paid?"))
		if !strings.Contains(followUp, "16 weeks") {
			t.Errorf("stream %v: a follow-up did not join the question that the upstream holds: %q", stream, followUp)
		}
		if _, other := ask(third, stream, text("Do flights need approval?")); !strings.Contains(other, "approval of your manager") {
			t.Errorf("stream %v: another question got %q", stream, other)
		}
	}
	if _, alone := ask("resp_unknown", false, text("And is it paid?")); strings.Contains(alone, "16 weeks") {
		t.Errorf("an unknown response has turns: %q", alone)
	}
}

// Sources in an input that the upstream keeps are not given again in later turns of that chain.
func TestSDKResponsesHistoryInput(t *testing.T) {
	up := newRecorder(t)
	file := written(t, "sidenote.yaml", fmt.Sprintf("upstream: %s\nknowledge: {handbook: %q}\npolicies: {default: {history: input, placement: last_user}}\n", up.URL, handbook(t)))
	var sent []byte
	sdk := sdkClient(serve(t, "--config", file), &sent)
	q := responsesQuestion("gpt-5")
	previous := ""
	for turn, want := range []string{"injected; api=responses; ", "untouched; reason=already-there; api=responses", "untouched; reason=already-there; api=responses"} {
		if previous != "" {
			q.PreviousResponseID = openai.String(previous)
		}
		var resp *http.Response
		answer, err := sdk.Responses.New(t.Context(), q, option.WithResponseInto(&resp))
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Header.Get("Sidenote-Status"); !strings.HasPrefix(got, want) {
			t.Errorf("turn %d: %s, want %s", turn, got, want)
		}
		if injected := turn == 0; bytes.Contains(up.last(t).body, []byte("16 weeks")) != injected || instructionsOf(t, up.last(t).body) != "You are the HR assistant." {
			t.Errorf("turn %d: the upstream got %s", turn, up.last(t).body)
		}
		previous = answer.ID
	}
}

// A policy that annotates gives the SDK the citations of a response, in its parts and in an event,
// and sequence numbers without gaps.
func TestSDKResponsesAnnotations(t *testing.T) {
	up := newRecorder(t)
	file := written(t, "sidenote.yaml", fmt.Sprintf("upstream: {base_url: %s/v1}\nknowledge: {handbook: {path: %q}}\npolicies: {default: {annotations: on}}\ntenants: {t: {knowledge: [handbook], keys: [\"%x\"]}}\n",
		up.URL, handbook(t), sha256.Sum256([]byte("sk-test"))))
	var sent []byte
	sdk := sdkClient(serve(t, "--config", file), &sent)
	annotated := func(output []responses.ResponseOutputItemUnion) {
		t.Helper()
		list := output[0].Content[0].Annotations
		if len(list) != 1 {
			t.Fatalf("annotations: %v", list)
		}
		a := list[0].AsURLCitation()
		if a.StartIndex != 14 || a.EndIndex != 17 || a.Title != "Leave policy" || a.URL != "sidenote://handbook/leave.md#0" {
			t.Errorf("annotation: %s", a.RawJSON())
		}
	}
	var resp *http.Response
	answer, err := sdk.Responses.New(t.Context(), responsesQuestion("gpt-5"), option.WithResponseInto(&resp))
	if err != nil {
		t.Fatal(err)
	}
	annotated(answer.Output)
	if s := resp.Header.Get("Sidenote-Status"); !strings.Contains(s, "; citations=1") {
		t.Errorf("Sidenote-Status: %s", s)
	}
	stream := sdk.Responses.NewStreaming(t.Context(), responsesQuestion("gpt-5"))
	var names []string
	for n := int64(0); stream.Next(); n++ {
		e := stream.Current()
		names = append(names, strings.TrimPrefix(e.Type, "response."))
		if e.SequenceNumber != n {
			t.Errorf("%s has number %d, want %d", e.Type, e.SequenceNumber, n)
		}
		switch e := e.AsAny().(type) {
		case responses.ResponseOutputTextAnnotationAddedEvent:
			if e.ItemID != "msg_1" || e.AnnotationIndex != 0 {
				t.Errorf("annotation %d of %s", e.AnnotationIndex, e.ItemID)
			}
		case responses.ResponseOutputItemDoneEvent:
			annotated([]responses.ResponseOutputItemUnion{e.Item})
		case responses.ResponseCompletedEvent:
			annotated(e.Response.Output)
		}
	}
	want := "created output_item.added content_part.added output_text.delta output_text.delta output_text.delta output_text.annotation.added output_text.done content_part.done output_item.done completed"
	if got := strings.Join(names, " "); got != want || stream.Err() != nil {
		t.Errorf("events %s, %v", got, stream.Err())
	}
	q := responsesQuestion("gpt-5")
	if _, err := sdk.Responses.InputTokens.Count(t.Context(), responses.InputTokenCountParams{
		Model: openai.String("gpt-5"), Input: responses.InputTokenCountParamsInputUnion{OfString: q.Input.OfString},
	}, option.WithResponseInto(&resp)); err != nil {
		t.Fatal(err)
	}
	if s := resp.Header.Get("Sidenote-Status"); !strings.HasPrefix(s, "injected; ") || strings.Contains(s, "citations") {
		t.Errorf("Sidenote-Status of a count: %s", s)
	}
}

// The stub upstream, with which people try Sidenote, speaks the API too.
func TestSDKResponsesOfTheStub(t *testing.T) {
	up := httptest.NewServer(&demo.Stub{})
	t.Cleanup(up.Close)
	var sent []byte
	sdk := sdkClient(serve(t, "--upstream", up.URL, "--knowledge", handbook(t)), &sent)
	const want = "Every parent may take 16 weeks of parental leave on full pay [1]."
	answer, err := sdk.Responses.New(t.Context(), responsesQuestion("demo"))
	if err != nil || answer.OutputText() != want || answer.Usage.TotalTokens == 0 {
		t.Fatal(answer, err)
	}
	stream := sdk.Responses.NewStreaming(t.Context(), responsesQuestion("demo"))
	text, final := "", ""
	for stream.Next() {
		switch e := stream.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			text += e.Delta
		case responses.ResponseCompletedEvent:
			final = e.Response.OutputText()
		}
	}
	if stream.Err() != nil || text != want || final != want {
		t.Errorf("streamed %q, completed with %q, %v", text, final, stream.Err())
	}
	_, err = sdk.Responses.New(t.Context(), responses.ResponseNewParams{Model: "demo"})
	var api *openai.Error
	if !errors.As(err, &api) || api.Code != "missing_required_parameter" {
		t.Error(err)
	}
}
