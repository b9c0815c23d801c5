package staged_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/goldentest"
	"sidenote/rewrite/model"
	"sidenote/rewrite/staged"
	"sidenote/rewrite/tokens"
)

// A golden file holds a client's request and calls of stages, each with the body sent to the
// upstream.
func TestGolden(t *testing.T) {
	goldentest.Each(t, "testdata", func(t *testing.T, a *goldentest.Archive) {
		api := chat.Completions
		if strings.HasPrefix(a.Name, "messages") {
			api = chat.Messages
		}
		parsed, err := api.Parse(a.Get("request.json"))
		if err != nil {
			t.Fatal(err)
		}
		req := staged.Read(parsed)
		if why := req.Unfit(); why != "" {
			t.Fatal(why)
		}
		for _, f := range a.Files {
			if suffix, ok := strings.CutPrefix(f.Name, "call"); ok {
				body := req.Body(nil, readCall(t, f.Data))
				if _, err := api.Parse(body); err != nil {
					t.Errorf("%v: %s", err, body)
				}
				a.Set("want"+suffix, string(body)+"\n")
			}
		}
	})
}

func readCall(t *testing.T, data []byte) (c staged.Call) {
	t.Helper()
	var in struct {
		Stage                   staged.Stage
		System, User            string
		CompletionCap, NoSystem bool
		FixedTemperature        bool
		Reasoning               tokens.Reasoning
		Last                    bool
		Without                 []string
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		t.Fatal(err)
	}
	return staged.Call{
		Stage: &in.Stage, Prompt: staged.Escaped(in.System, in.User), Last: in.Last, Without: in.Without,
		Model: model.Model{CompletionCap: in.CompletionCap, NoSystem: in.NoSystem, FixedTemperature: in.FixedTemperature, Reasoning: in.Reasoning},
	}
}

// What a rewrite strips from the application's messages does not reach a stage either.
func TestBodyStrips(t *testing.T) {
	const body = `{"messages":[{"role":"system","content":"Be {{sidenote}}brief."},{"role":"user","content":"Q"}],"sidenote":{"mode":"staged"}}`
	at := strings.Index(body, "{{sidenote}}")
	strip := []rewrite.Edit{{Name: "marker", Offset: at, Delete: len("{{sidenote}}")}, {Name: "strip-field", Offset: strings.Index(body, `,"sidenote"`), Delete: 29}}
	got := staged.Read(parse(t, body)).Body(nil, staged.Call{Stage: &staged.Stage{}, Prompt: staged.Escaped("", "P"), Strip: strip})
	if want := `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"P"}]}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What a member means in the other API only, it does not mean here: each stage gets it unchanged.
func TestBodyKeepsMembersOfTheOtherAPI(t *testing.T) {
	const others = `"text":1,"include":2,"max_output_tokens":3,"input":4,"instructions":5,"reasoning":6`
	body := `{"messages":[{"role":"user","content":"?"}],` + others + `}`
	got := staged.Read(parse(t, body)).Body(nil, staged.Call{Stage: &staged.Stage{}, Prompt: staged.Escaped("", "P")})
	if want := `{"messages":[{"role":"user","content":"P"}],` + others + `}`; string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Unfit names what a chain cannot handle, and nothing else.
func TestUnfit(t *testing.T) {
	const user = `"messages":[{"role":"user","content":"Q"}]`
	for body, want := range map[string]staged.Reason{
		user: "",
		user + `,"tools":[],"tool_choice":"none","functions":null,"modalities":["text"],"audio":null,"logprobs":false,"top_logprobs":null,"n":1`: "",
		user + `,"tools":[{"type":"function","function":{"name":"f"}}]`:                                                                          staged.Tools,
		user + `,"functions":[{"name":"f"}]`:    staged.Tools,
		user + `,"tools":{}`:                    staged.Tools,
		user + `,"n":2`:                         staged.Choices,
		user + `,"modalities":["text","audio"]`: staged.Audio,
		user + `,"modalities":"audio"`:          staged.Audio,
		user + `,"audio":{"voice":"alloy"}`:     staged.Audio,
		user + `,"logprobs":true`:               staged.Logprobs,
		user + `,"top_logprobs":3`:              staged.Logprobs,
		user + `,"max_tokens":0`:                staged.BadLimits,
		user + `,"max_completion_tokens":"5"`:   staged.BadLimits,
		`"messages":[{"role":"user","content":[{"type":"text","text":"Q"},{"type":"image_url"}]}]`:          staged.Attachments,
		`"messages":[{"role":"user","content":"Q"},{"role":"assistant","content":"A: "}]`:                   staged.NoQuestion,
		`"messages":[{"role":"user","content":"Q"},{"role":"tool","content":"A"}]`:                          staged.NoQuestion,
		`"messages":[{"role":"user","content":" "}]`:                                                        staged.NoQuestion,
		`"messages":[{"role":"system","content":"S"}]`:                                                      staged.NoQuestion,
		`"messages":[{"role":"user","content":"Q"},{"role":"system","content":"S"}],"stop":["x"],"seed":-1`: "",
	} {
		if got := staged.Read(parse(t, "{"+body+"}")).Unfit(); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
