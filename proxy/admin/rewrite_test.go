package admin_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"sidenote/proxy/admin"
	"sidenote/rewrite"
	"sidenote/rewrite/staged"
)

// A dry run in mode staged returns the prompt of each stage, in order, and the request that is
// used if the stages fail; or why there are no stages.
func TestDryRunOfStages(t *testing.T) {
	temperature := 0.0
	stages := []staged.Stage{
		{Name: "draft", SystemPrompt: "Draft it.", UserPrompt: "{{CONTEXT}} <q>{{QUESTION}}</q>", Temperature: &temperature, MaxTokens: 600, EmptyIf: "NONE"},
		{Name: "critic", UserPrompt: "{{draft}}", StopIf: "NO ISSUES"},
		{Name: "final", UserPrompt: "{{draft}} {{critic}} <q>{{QUESTION}}</q>", Model: "large", Upstream: "other"},
	}
	chain, err := staged.Compile(stages)
	if err != nil {
		t.Fatal(err)
	}
	url := listen(t, admin.NewServer(handler(func(h *admin.Handler) {
		p := h.Tenants.ByName("acme")
		p.Rewrite.Mode, p.Stages = rewrite.Staged, staged.Policy{Stages: stages, Chain: chain, RefuseUnfit: true}
	}).Handle, slog.New(slog.DiscardHandler)))
	dry := func(body string, lines ...string) (got struct {
		Outcome, Status, Mode, Unstaged string
		Stages                          []map[string]any
		Request                         json.RawMessage
	},
	) {
		t.Helper()
		code, text := call(t, "POST", url+"/v1/rewrite?tenant=acme", body, lines...)
		if err := json.Unmarshal([]byte(text), &got); err != nil || code != 200 {
			t.Fatalf("%d, %v: %s", code, err, text)
		}
		return got
	}

	got := dry(chatBody)
	if got.Outcome != "staged" || got.Mode != "staged" || !strings.HasPrefix(got.Status, "staged; stages=3; sources=1; ") || len(got.Stages) != 3 || got.Unstaged != "" {
		t.Fatalf("%+v", got)
	}
	if request := string(got.Request); !strings.Contains(request, "text of kb1") || strings.Contains(request, "{{draft}}") || !strings.Contains(request, "Be brief.") {
		t.Errorf("request: %s", request)
	}
	asked, _ := got.Stages[0]["user"].(string)
	delete(got.Stages[0], "user")
	list, err := json.Marshal(got.Stages)
	if err != nil {
		t.Fatal(err)
	}
	const quoted = `\u003cstage name=\"draft\"\u003e\n{{draft}}\n\u003c/stage\u003e`
	want := `[{"empty_if":"NONE","max_tokens":600,"stage":"draft","system":"Draft it.","temperature":0},{"stage":"critic","stop_if":"NO ISSUES","user":"` + quoted + `"},` +
		`{"model":"large","stage":"final","upstream":"other","user":"` + quoted + ` ` + strings.ReplaceAll(quoted, "draft", "critic") + ` \u003cq\u003eHow long is parental leave?\u003c/q\u003e"}]`
	if string(list) != want || !strings.Contains(asked, "text of kb1") || !strings.HasSuffix(asked, " <q>How long is parental leave?</q>") {
		t.Errorf("got %s\n%s\nwant %s", list, asked, want)
	}

	got = dry(strings.Replace(chatBody, `"x": 1.0`, `"n": 2`, 1))
	if got.Outcome != "refused" || got.Status != "refused; reason=unfit-for-stages; unstaged=choices" || got.Unstaged != "choices" || got.Stages != nil || string(got.Request) != "null" {
		t.Errorf("unfit: %+v", got)
	}
	if got = dry(chatBody, "Sidenote-Mode: inject"); got.Outcome != "injected" || got.Mode != "inject" || got.Stages != nil {
		t.Errorf("inject: %+v", got)
	}
}
