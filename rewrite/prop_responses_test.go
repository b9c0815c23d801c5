package rewrite_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// responsesGen draws requests of the Responses API: strings and items, calls beside their outputs,
// reasoning before what follows it, items of unknown types.
func responsesGen() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space") }
		str := func(most int) string {
			b, err := json.Marshal(textGen(most).Draw(t, "text"))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		message := func() string {
			role := rapid.SampledFrom([]string{"system", "developer", "user", "user", "assistant"}).Draw(t, "role")
			kind := rapid.SampledFrom([]string{"", `"type":"message",`}).Draw(t, "kind")
			content := str(8)
			switch rapid.IntRange(0, 4).Draw(t, "form") {
			case 0:
				content = "null"
			case 1, 2:
				part := "input_text"
				if role == "assistant" {
					part = "output_text"
				}
				content = "["
				for i := range rapid.IntRange(0, 2).Draw(t, "parts") {
					content += strings.Repeat(",", min(i, 1)) + space() + `{"type":"` + part + `","text":` + str(6) + "}"
				}
				content += "]"
			}
			return "{" + kind + space() + `"role":"` + role + `",` + space() + `"content":` + content + "}"
		}
		call := func() string {
			return `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"},` + space() +
				`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},` + space() + `{"type":"function_call_output","call_id":"c","output":` + str(6) + `}`
		}
		var members []string
		if rapid.IntRange(0, 2).Draw(t, "form of input") == 0 {
			members = append(members, `"input":`+space()+str(12))
		} else {
			items := []string{message()}
			for range rapid.IntRange(0, 4).Draw(t, "items") {
				switch rapid.IntRange(0, 4).Draw(t, "item") {
				case 0:
					items = append(items, call())
				case 1:
					items = append(items, rapid.SampledFrom([]string{
						`{"type":"item_reference","id":"msg_1"}`, `{"id":"msg_2"}`, `{"type":"novel","content":[7],"role":false}`,
						`{"type":"computer_call_output","call_id":"x","output":{"type":"computer_screenshot"}}`,
					}).Draw(t, "other item"))
				default:
					items = append(items, message())
				}
			}
			members = append(members, `"input":[`+space()+strings.Join(items, ","+space())+`]`)
		}
		if rapid.Bool().Draw(t, "with instructions") {
			members = append(members, `"instructions":`+rapid.SampledFrom([]string{"null", str(8), `"A {{sidenote}} B"`}).Draw(t, "instructions"))
		}
		for _, extra := range []string{`"model":"gpt-5"`, `"x":[1.0,{"a":null}]`, `"sidenote":{"query":"leave"}`, `"store":false`, `"previous_response_id":"resp_1"`, `"truncation":"auto"`, `"text":{"format":{"type":"json_schema","schema":{}}}`} {
			if rapid.Bool().Draw(t, "extra") {
				members = append(members, extra)
			}
		}
		members = rapid.Permutation(members).Draw(t, "order")
		return "{" + space() + strings.Join(members, space()+","+space()) + space() + "}" + space()
	})
}

// A rewritten request of the Responses API differs from the sent one in its edits alone: no item is
// added, removed or moved, and only a message of the application or the last one of the user grows.
// What the upstream keeps grows in instructions alone, unless the policy says otherwise.
func TestRewriteHoldsForResponses(t *testing.T) {
	tally := map[rewrite.Placement]int{}
	rapid.Check(t, func(t *rapid.T) {
		body := []byte(responsesGen().Draw(t, "body"))
		policy := policyGen().Draw(t, "policy")
		policy.History = rapid.SampledFrom([]rewrite.History{rewrite.HistoryAuto, rewrite.HistoryInput, rewrite.HistoryInstructions}).Draw(t, "history")
		rw := rewrite.OneOfMany(&rewrite.Rewriter{
			Retriever: answering(rapid.SliceOfN(sourceGen(), 0, 4).Draw(t, "sources")),
			Models:    models{model.Model{Row: "test", Encoding: "words", Counter: words{}, NoSystem: rapid.IntRange(0, 5).Draw(t, "no system") == 0, Window: rapid.SampledFrom([]int{0, 0, 600, 5000}).Draw(t, "window")}},
		})
		req, err := chat.Responses.Parse(body)
		if err != nil {
			t.Fatalf("Parse(%s): %v", body, err)
		}
		options, err := rewrite.ReadOptions(req)
		if err != nil {
			t.Fatal(err)
		}
		res := rw.Rewritten(t.Context(), policy, req, options)
		out := rewrite.ApplyEdits(nil, body, res.Edits)
		editsAreSound(t, body, res.Edits)
		var sent, got map[string]json.RawMessage
		if json.Unmarshal(body, &sent) != nil || json.Unmarshal(out, &got) != nil {
			t.Fatalf("not JSON: %s", out)
		}
		place := res.Ledger.Placement
		tally[place]++
		for name, value := range sent {
			if name != "input" && name != "instructions" && name != "sidenote" && !bytes.Equal(value, got[name]) {
				t.Fatalf("%s is %s, was %s", name, got[name], value)
			}
		}
		spared := policy.History == rewrite.HistoryInstructions || policy.History == rewrite.HistoryAuto && (sent["store"] == nil || sent["previous_response_id"] != nil)
		if spared && res.Outcome == rewrite.Injected && place != rewrite.PlaceInstructions && place != rewrite.PlaceMarker && place != rewrite.PlaceLastUser {
			t.Fatalf("placed in %s\n%s", place, body)
		}
		var before, after []json.RawMessage
		if json.Unmarshal(sent["input"], &before) != nil {
			return // a string
		}
		if err := json.Unmarshal(got["input"], &after); err != nil || len(before) != len(after) {
			t.Fatalf("%d items, were %d: %v", len(after), len(before), err)
		}
		changed := 0
		for i := range before {
			if bytes.Equal(before[i], after[i]) {
				continue
			}
			changed++
			var was, is map[string]any
			if json.Unmarshal(before[i], &was) != nil || json.Unmarshal(after[i], &is) != nil || was["role"] == nil || was["role"] == "assistant" {
				t.Fatalf("item %d is %s, was %s", i, after[i], before[i])
			}
			delete(was, "content")
			delete(is, "content")
			if !reflect.DeepEqual(was, is) {
				t.Fatalf("item %d is %s, was %s", i, after[i], before[i])
			}
		}
		if changed > 2 && policy.Placement != rewrite.PlaceMarker || changed > 0 && place == rewrite.PlaceInstructions && policy.Placement != rewrite.PlaceMarker {
			t.Fatalf("%d items changed in placement %s", changed, place)
		}
	})
	for _, want := range []rewrite.Placement{rewrite.PlaceSystem, rewrite.PlaceInstructions, rewrite.PlaceSplit, rewrite.PlaceLastUser, rewrite.PlaceMarker, ""} {
		if tally[want] == 0 {
			t.Errorf("no case with placement %q: %v", want, tally)
		}
	}
}
