package rewrite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// garbledTexts are insides of JSON strings that parsers read differently.
var garbledTexts = []string{`\ud800`, `\udc00\ud800`, `a \ud83d b`, "\xff", "caf\xe9", "\xed\xa0\x80"}

// toldOf returns the outcome for a body, the rewritten body, and the ambiguity reported.
func toldOf(t *testing.T, p rewrite.Policy, o rewrite.Options, body string) (outcome rewrite.Outcome, out string, bad *chat.Error) {
	t.Helper()
	req, err := chat.Completions.Parse([]byte(body))
	if err != nil {
		errors.As(err, &bad)
		return rewrite.Untouched, body, bad
	}
	rw := &rewrite.Rewriter{Retriever: answering(manySources(1)), Models: models{model.Model{Counter: words{}}}}
	res := rw.Rewritten(t.Context(), p, req, o)
	return res.Outcome, string(rewrite.ApplyEdits(nil, req.Body, res.Edits)), res.Ambiguity
}

func placed(t *testing.T, p rewrite.Placement) rewrite.Policy {
	policy := testPolicy(t, nil)
	policy.Placement = p
	return policy
}

// Ambiguities in parts that are neither read nor changed do not prevent a rewrite, and reach the
// upstream unchanged.
func TestAmbiguityElsewhere(t *testing.T) {
	const head, tail = `{"model":"m","messages":[{"role":"system","content":"Be brief."},`, `{"role":"user","content":"How long?"}]`
	bodies := []string{
		head + `{"role":"assistant","content":"a","content":"b"},` + tail + `}`,
		head + `{"role":"assistant","content":"a","Content":"b"},` + tail + `}`,
		head + `{"role":"assistant","content":"a","x":1,"x":2},` + tail + `}`,
		head + `{"role":"assistant","tool_calls":[{"id":"1","id":"2"}],"tool_calls":[]},{"role":"tool","tool_call_id":"1","tool_call_id":"2","content":"x"},` + tail + `}`,
		head + `{"role":"assistant","content":[{"type":"text","text":"a","text":"b"},{"type":"text","TEXT":"a"}]},` + tail + `}`,
		head + `{"role":"user","content":"a","content":"b"},{"role":"assistant","content":"x"},` + tail + `}`,
		head + `{"role":"system","content":"a","content":"b"},` + tail + `}`,
		head + tail + `,"metadata":{"a":1,"a":2},"tools":[{"a":1,"A":2,"a":3}]}`,
	}
	for _, text := range garbledTexts {
		bodies = append(bodies,
			head+`{"role":"assistant","content":"`+text+`"},`+tail+`}`,
			head+`{"role":"assistant","content":[{"type":"text","text":"`+text+`"}]},`+tail+`}`,
			head+`{"role":"assistant","`+text+`":1,"refusal":"`+text+`","content":null,"tool_calls":[{"function":{"arguments":"`+text+`"}}]},`+tail+`}`,
			head+`{"role":"tool","tool_call_id":"1","content":"`+text+`"},`+tail+`}`,
			head+`{"role":"user","content":"`+text+`"},{"role":"assistant","content":"x"},`+tail+`}`,
			head+`{"role":"system","content":"`+text+`"},`+tail+`}`,
			head+tail+`,"metadata":{"a":"`+text+`","`+text+`":1},"user":"`+text+`"}`,
		)
	}
	for _, body := range bodies {
		for _, strict := range []bool{false, true} {
			p := testPolicy(t, nil)
			p.RefuseOnFailure = strict
			outcome, out, bad := toldOf(t, p, rewrite.Options{}, body)
			if outcome != rewrite.Injected || bad != nil {
				t.Errorf("%q: %s, %v", body, outcome, bad)
				continue
			}
			before, rest, _ := strings.Cut(out, `\n\n<sources>`)
			_, after, _ := strings.Cut(rest, `</sources>\n`)
			if before+after != body {
				t.Errorf("%q became %q", body, out)
			}
		}
	}
}

// Text that is searched or extended must be unambiguous. Otherwise, under a strict policy, the
// request is refused with a message that names the place.
func TestAmbiguityWhereItIsRead(t *testing.T) {
	const system, user = `{"role":"system","content":"Be brief."}`, `{"role":"user","content":"How long?"}`
	type place = rewrite.Placement
	all := []place{rewrite.PlaceSystem, rewrite.PlaceSplit, rewrite.PlaceLastUser, rewrite.PlaceMarker}
	f := func(messages, param string, read []place, o rewrite.Options) {
		t.Helper()
		for _, at := range all {
			want := false
			for _, r := range read {
				want = want || r == at
			}
			for _, strict := range []bool{false, true} {
				p := placed(t, at)
				p.RefuseOnFailure = strict
				outcome, out, bad := toldOf(t, p, o, `{"messages":[`+messages+`]}`)
				switch {
				case !want:
					if outcome != rewrite.Injected || bad != nil {
						t.Errorf("%s: %q: %s, %v; want injected", at, messages, outcome, bad)
					}
				case bad == nil || bad.Reason != rewrite.ReasonAmbiguous || bad.Param != param || bad.Message == "":
					t.Errorf("%s: %q: %+v, want param %s", at, messages, bad, param)
				case outcome != map[bool]rewrite.Outcome{false: rewrite.Untouched, true: rewrite.Refused}[strict]:
					t.Errorf("%s: %q: %s", at, messages, outcome)
				case out != `{"messages":[`+messages+`]}`:
					t.Errorf("%s: %q became %q", at, messages, out)
				}
			}
		}
	}
	ask := rewrite.Options{Query: "How long?"}
	inSystem, inUser := []place{rewrite.PlaceSystem, rewrite.PlaceSplit, rewrite.PlaceMarker}, []place{rewrite.PlaceSplit, rewrite.PlaceLastUser}
	for _, c := range []struct{ content, key string }{
		{`"content":"a","content":"b"`, "content"}, {`"content":"a","Content":"b"`, "Content"}, {`"CONTENT":"a","content":"b"`, "CONTENT"}, {`"content":"a","\u0063ontent":"b"`, "content"},
		{`"content":"a","x":1,"x":2`, "x"}, {`"content":[{"type":"text","text":"a","text":"b"}]`, "content[].text"}, {`"content":[{"type":"text","text":"a","Text":"b"}]`, "content[].Text"},
		{`"content":[{"type":"text","type":"image_url","text":"a"}]`, "content[].type"},
	} {
		f(system+`,{"role":"user",`+c.content+`}`, "messages[1]."+c.key, all, rewrite.Options{})
		f(system+`,{"role":"user",`+c.content+`}`, "messages[1]."+c.key, inUser, ask)
		f(`{"role":"system",`+c.content+`},`+user, "messages[0]."+c.key, inSystem, rewrite.Options{})
		f(`{"role":"assistant","tool_calls":[]},{"role":"developer",`+c.content+`},`+user, "messages[1]."+c.key, inSystem, rewrite.Options{})
		f(system+`,{"role":"system",`+c.content+`},`+user, "messages[1]."+c.key, []place{rewrite.PlaceMarker}, rewrite.Options{})
	}
	for _, text := range garbledTexts {
		for _, content := range []string{`"` + text + `"`, `[{"type":"text","text":"` + text + `"}]`} {
			f(system+`,{"role":"user","content":`+content+`}`, "messages[1].content", all, rewrite.Options{})
			f(system+`,{"role":"user","content":`+content+`}`, "messages[1].content", inUser, ask)
			f(`{"role":"system","content":`+content+`},`+user, "messages[0].content", inSystem, rewrite.Options{})
		}
		// An attachment is not searched.
		f(system+`,{"role":"user","content":[{"type":"text","text":"How long?"},{"type":"file","file":{"filename":"`+text+`"}}]}`, "", nil, rewrite.Options{})
	}
}

// The roles of messages and the body's own members are checked in every request.
func TestAmbiguityOfRolesAndMembers(t *testing.T) {
	const user = `{"role":"user","content":"How long?"}`
	f := func(body, param string) {
		t.Helper()
		for _, at := range []rewrite.Placement{rewrite.PlaceSystem, rewrite.PlaceLastUser} {
			outcome, out, bad := toldOf(t, placed(t, at), rewrite.Options{Query: "How long?"}, body)
			if outcome != rewrite.Untouched || bad == nil || bad.Reason != rewrite.ReasonAmbiguous || bad.Param != param || out != body {
				t.Errorf("%q: %s, %+v; want %s", body, outcome, bad, param)
			}
		}
	}
	for _, old := range []string{
		`{"role":"assistant","role":"user","content":"x"}`, `{"role":"user","content":"x","Role":"assistant"}`, `{"ROLE":"system","role":"assistant"}`, `{"role":"user","\u0072ole":"tool"}`,
		`{"role":"us\ud800er","content":"x"}`, "{\"role\":\"us\xffer\",\"content\":\"x\"}",
	} {
		f(`{"messages":[`+old+`,`+user+`]}`, "messages[0].role")
		f(`{"messages":[`+user+`,`+user+`,`+old+`]}`, "messages[2].role")
	}
	const messages = `"messages":[` + user + `]`
	f(`{`+messages+`,`+messages+`}`, "messages")
	f(`{`+messages+`,"Messages":[]}`, "Messages")
	f(`{"MESSAGES":[],`+messages+`}`, "MESSAGES")
	f(`{`+messages+`,"\u006dessages":[]}`, "messages")
	f(`{"model":"a",`+messages+`,"model":"b"}`, "model")
	f(`{"model":"a",`+messages+`,"Model":"b"}`, "Model")
	f(`{"stream":true,`+messages+`,"stream":false}`, "stream")
	f(`{`+messages+`,"response_format":{"type":"text","type":"json_object"}}`, "response_format.type")
	f(`{`+messages+`,"x":1,"x":2}`, "x")
	for _, text := range garbledTexts {
		f(`{`+messages+`,"model":"`+text+`"}`, "model")
		_, _, bad := toldOf(t, testPolicy(t, nil), rewrite.Options{}, `{`+messages+`,"`+text+`":1}`)
		if bad == nil || bad.Reason != rewrite.ReasonAmbiguous {
			t.Errorf("key %q: %+v", text, bad)
		}
	}
}

// The previous user message is part of the search for a follow-up question, if it is unambiguous.
func TestPreviousQuestionIsSearchedIfItIsClear(t *testing.T) {
	const rest = `,{"role":"assistant","content":"x"},{"role":"user","content":"And then?"}`
	for content, want := range map[string]string{`"content":"first"`: "first", `"content":"a","content":"b"`: "", `"content":"\ud800"`: "", "\"content\":\"\xff\"": ""} {
		var got retrieval.Query
		rw := &rewrite.Rewriter{Models: models{model.Model{Counter: words{}}}, Retriever: retrieval.Func(func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
			got = q
			return retrieval.Result{}, nil
		})}
		req, err := chat.Completions.Parse([]byte(`{"messages":[{"role":"user",` + content + `}` + rest + `]}`))
		if err != nil {
			t.Fatalf("%q: %v", content, err)
		}
		rw.Rewritten(t.Context(), testPolicy(t, nil), req, rewrite.Options{})
		if got.Text != "And then?" || texts(got.Previous) != want {
			t.Errorf("%q: asked %q after %q, want %q", content, got.Text, texts(got.Previous), want)
		}
	}
}

// In any JSON object the field "sidenote" is read and can be removed, whatever else is wrong.
func TestFieldOfABodyThatIsNotRewritten(t *testing.T) {
	const field = `"sidenote":{"mode":"off"}`
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	objects := strings.Repeat(`{"a":[{},"x",{"b" :`, 40) + "1" + strings.Repeat("}]}", 40)
	for body, reason := range map[string]rewrite.Reason{
		`{"model":"a",` + field + `,"model":"b","messages":[]}`:               rewrite.ReasonAmbiguous,
		`{` + field + `,"Messages":[]}`:                                       rewrite.ReasonAmbiguous,
		`{"messages":[{"role":"user","role":"tool"}],` + field + `}`:          rewrite.ReasonAmbiguous,
		`{"messages":[{"role":"user","content":5}],` + field + `}`:            rewrite.ReasonNotChat,
		`{"prompt":"x",` + field + `}`:                                        rewrite.ReasonNotChat,
		`{` + field + `}`:                                                     rewrite.ReasonNotChat,
		`{"x":` + deep + `,` + field + `,"messages":[{"role":"user"}]}`:       rewrite.ReasonTooDeep,
		`{"messages":[{"role":"user","content":` + deep + `}],` + field + `}`: rewrite.ReasonTooDeep,
		`{` + field + `,"tools":` + objects + `}`:                             rewrite.ReasonTooDeep,
	} {
		req, err := chat.Completions.Parse([]byte(body))
		var bad *chat.Error
		if !errors.As(err, &bad) || bad.Reason != reason || req == nil {
			t.Errorf("%s: %v, %v; want %s and a request", body, req, err, reason)
			continue
		}
		o, err := rewrite.ReadOptions(req)
		if err != nil || o.Mode == nil || *o.Mode != rewrite.Off {
			t.Errorf("%s: options %+v, %v", body, o, err)
		}
		out := rewrite.ApplyEdits(nil, req.Body, rewrite.StripEdits(req, ""))
		if bytes.Contains(out, []byte("sidenote")) || !json.Valid(out) || len(out) < len(body)-len(field)-1 {
			t.Errorf("%s became %s", body, out)
		}
	}
	for _, body := range []string{
		`[` + field + `]`, `{` + field, `{` + field + `}}`, `{` + field + `,}`, `"` + field, `{"x":` + deep[1:] + `,` + field + `}`, `{"x":` + deep + `],` + field + `}`,
		`{"x":` + strings.Replace(objects, `"b" :`, `"b"`, 1) + `,` + field + `}`, `{"x":` + strings.Replace(deep, "[]", "[,]", 1) + `}`, `{"x":` + strings.Replace(deep, "[]", "[1,]", 1) + `}`,
	} {
		if req, err := chat.Completions.Parse([]byte(body)); err == nil || req != nil {
			t.Errorf("%s: %v, %v", body, req, err)
		}
	}
}

// An ambiguity in the options is the client's mistake, because only Sidenote reads them.
func TestAmbiguousOptions(t *testing.T) {
	const body = `"messages":[{"role":"user","content":"How long?"}]`
	fields := []string{`"sidenote":{"mode":"off"},"sidenote":{"mode":"inject"}`, `"sidenote":{"mode":"off"},"sidenote":null`, `"sidenote":{"mode":"off","mode":"inject"}`}
	for _, text := range garbledTexts {
		fields = append(fields, `"sidenote":{"query":"`+text+`"}`, `"sidenote":{"components":[{"name":"a","text":"`+text+`"}]}`, `"sidenote":{"filters":{"type":"eq","key":"a","value":"`+text+`"}}`)
	}
	for _, field := range fields {
		req, _ := chat.Completions.Parse([]byte(`{` + field + `,` + body + `}`))
		if req == nil {
			t.Errorf("%q: no request", field)
			continue
		}
		var bad *rewrite.OptionError
		if _, err := rewrite.ReadOptions(req); !errors.As(err, &bad) || !strings.HasPrefix(bad.Param, "sidenote") {
			t.Errorf("%q: %v", field, err)
		}
	}
}

// Counting includes everything that some parser might read, so a duplicate can only make a
// request longer; and no count is exact then.
func TestCountsTakeEachReading(t *testing.T) {
	const head, tail = `{"messages":[{"role":"assistant",`, `},{"role":"user","content":"one two"}]}`
	const rest = 3 + 4 + 2 + 4
	for messages, want := range map[string]int{
		`"content":"a b c"`:                                                  rest + 3,
		`"content":"a b c","content":"d"`:                                    rest + 4,
		`"Content":"a b c","content":"d"`:                                    rest + 4,
		`"content":"d","CONTENT":["x"]`:                                      rest + 1,
		`"content":"d","tool_Call\u017f":[{"Function":{"Arguments":"a b"}}]`: rest + 1 + 4 + 2,
		`"content":[{"type":"text","text":"a ","text":"b c"}]`:               rest + 3,
		`"content":[{"type":"text","Text":"a b ","text":"c"}]`:               rest + 3,
	} {
		got := costOf(t, model.Model{Counter: words{}}, head+messages+tail)
		if got.Messages != want || got.Exact != (messages == `"content":"a b c"`) {
			t.Errorf("%s: %+v, want %d", messages, got, want)
		}
	}
	for _, text := range garbledTexts {
		if got := costOf(t, model.Model{Counter: words{}}, head+`"content":"`+text+`"`+tail); got.Exact {
			t.Errorf("%q: exact", text)
		}
	}
}
