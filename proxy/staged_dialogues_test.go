package proxy_test

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/proxy"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
	"sidenote/rewrite/goldentest"
	"sidenote/rewrite/staged"
)

// fourStages returns the stages of these tests: evidence, draft, review, final answer.
func fourStages() []staged.Stage {
	degrees := func(t float64) *float64 { return &t }
	const asked = "\n<question>\n{{QUESTION}}\n</question>"
	return []staged.Stage{
		{Name: "evidence_evaluator", SystemPrompt: "Evaluate.", UserPrompt: "{{CONTEXT}}" + asked, Temperature: degrees(0.1), MaxTokens: 600, EmptyIf: "NO EVIDENCE"},
		{Name: "answer_generator", SystemPrompt: "Draft.", UserPrompt: "{{evidence_evaluator}}\n{{HISTORY}}" + asked, Temperature: degrees(0.3), MaxTokens: 1024},
		{Name: "critical_reviewer", SystemPrompt: "Review.", UserPrompt: "{{evidence_evaluator}}\n{{answer_generator}}" + asked, Temperature: degrees(0), MaxTokens: 600, StopIf: "NO ISSUES"},
		{Name: "final_assembler", SystemPrompt: "Assemble.", UserPrompt: "{{answer_generator}}\n{{critical_reviewer}}" + asked, Temperature: degrees(0.2), MaxTokens: 1200},
	}
}

// stagedTerms are the settings of a policy in mode staged in a test.
type stagedTerms struct {
	staged.Policy
	OnEmpty      rewrite.OnEmpty
	RetryTooLong bool
}

// inStages puts a policy into mode staged. The default stages are fourStages, and by default
// nothing times out.
func inStages(t testing.TB, p *tenant.Policy, terms stagedTerms) {
	t.Helper()
	s := terms.Policy
	if s.Stages == nil {
		s.Stages = fourStages()
	}
	if s.StageTimeout == 0 {
		s.StageTimeout = 2 * patience
	}
	if s.Timeout == 0 {
		s.Timeout = 8 * patience
	}
	chain, err := staged.Compile(s.Stages, p.Rewrite.Template.TagNames()...)
	if err != nil {
		t.Fatal(err)
	}
	s.Chain, s.Stages = chain, chain.Stages
	p.Rewrite.Mode, p.Stages, p.Rewrite.OnEmpty, p.RetryTooLong = rewrite.Staged, s, terms.OnEmpty, terms.RetryTooLong
}

// withStages returns the configuration of a proxy whose only policy is in mode staged.
func withStages(t testing.TB, base string, terms stagedTerms) proxy.Config {
	t.Helper()
	u, err := url.Parse(base + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	return proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u}},
		Tenants:   tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) { inStages(t, p, terms) })},
		Timeouts:  proxy.DefaultTimeouts(),
	}
}

// playStages plays a dialogue whose section "policy" holds stagedTerms.
func playStages(t *testing.T, d answertest.Dialogue, h answertest.Habit, stream bool) played {
	t.Helper()
	var terms stagedTerms
	if text := d.Others["policy"]; text != nil {
		if err := json.Unmarshal(text, &terms); err != nil {
			t.Fatal(err)
		}
	}
	return playWith(t, d, h, stream, staff{}, func(base string) proxy.Config { return withStages(t, base, terms) })
}

// The request of each stage, and what the client gets, as a whole and as a stream: the rows of the
// tables of stages in the documentation.
func TestStagedDialogues(t *testing.T) {
	goldentest.Each(t, "testdata/stages", func(t *testing.T, a *goldentest.Archive) {
		d := answertest.Read(t, a)
		whole := playStages(t, d, plain(), false)
		a.Set("upstream", strings.Join(whole.upstream, "\n")+"\n")
		a.Set("client", whole.answer())
		if bytes.Contains(d.Request, []byte(`"stream"`)) {
			return
		}
		streamed := playStages(t, d, plain(), true)
		a.Set("client.stream", streamed.answer())
		if diff := cmp.Diff(whole.upstream, streamed.upstream); diff != "" {
			t.Errorf("as a stream other requests go up: %s", diff)
		}
		compareStaged(t, d, whole, streamed)
	})
}

// compareStaged compares what an application reads from an answer, as a whole and as streams with
// every habit of servers.
func compareStaged(t *testing.T, d answertest.Dialogue, whole, streamed played) {
	t.Helper()
	want, wantErr := messageOf(whole)
	if got, err := messageOf(streamed); wantErr == nil && streamed.err == nil && !cmp.Equal(got, want) {
		t.Errorf("whole it is %+v, as a stream %+v, %v", want, got, err)
	}
	if wantErr != nil || streamed.err != nil {
		return
	}
	for _, h := range someOf(answertest.Habits(), d.Name) {
		if got, err := messageOf(playStages(t, d, h, true)); err != nil || !cmp.Equal(got, want) {
			t.Errorf("by the habit of %s: %v %s", h.Name, err, cmp.Diff(want, got))
		}
	}
}

// A stage with another upstream gets that upstream's key, and neither the caller's nor that of the
// request's upstream. The caller's is sent only where the request goes. (T28)
func TestStagedElsewhere(t *testing.T) {
	other, u := newUpstream(t, say("A draft [1].")), newUpstream(t, say("Sixteen weeks [1]."))
	for name, own := range map[string]string{"with a key of its own": "sk-theirs", "without one": ""} {
		t.Run(name, func(t *testing.T) {
			stages := fourStages()[1:2]
			stages[0].UserPrompt, stages[0].Upstream, stages[0].Model = "{{CONTEXT}}\n{{QUESTION}}", "other", "large"
			stages = append(stages, staged.Stage{Name: "final", UserPrompt: "{{answer_generator}}"})
			g := start(t, func() proxy.Config {
				cfg := withStages(t, "", stagedTerms{Policy: staged.Policy{Stages: stages}})
				cfg.Upstreams = map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u.url}, "other": {Name: "other", BaseURL: other.url, APIKey: proxy.NewSecret(own)}}
				return cfg
			}(), staff{})
			resp, body := g.post(t, weeksBody, "Authorization: Bearer sk-callers", "Cookie: a=b", "OpenAI-Organization: org-callers", "X-Api-Key: sk-callers-too")
			if resp.StatusCode != 200 || !strings.Contains(body, "Sixteen weeks [1].") {
				t.Fatalf("%d %s", resp.StatusCode, body)
			}
			theirs, ours := other.next(t), u.next(t) // calls of the request's own upstream have no upstream in the report
			if all := strings.Join(theirs.head, "\n"); strings.Contains(all, "callers") || strings.Contains(all, "a=b") || own == "" && theirs.header("Authorization") != "" {
				t.Errorf("the other upstream got\n%s", all)
			}
			if got := theirs.header("Authorization"); own != "" && got != "Bearer "+own {
				t.Errorf("the other upstream's key is %q", got)
			}
			if !strings.Contains(theirs.body, `"model":"large"`) || theirs.header("Host") != other.url.Host {
				t.Errorf("the other upstream got %s: %s", theirs.header("Host"), theirs.body)
			}
			if got := ours.header("Authorization"); got != "Bearer sk-callers" || !strings.Contains(ours.body, `"model":"m"`) {
				t.Errorf("the request's upstream got %q: %s", got, ours.body)
			}
			r := g.reports.next(t)
			if r.Stages == nil || len(r.Stages.Called) != 2 || r.Stages.Called[0].Upstream != "other" || r.Stages.Called[0].Model != "large" || r.Stages.Called[1].Upstream != "" {
				t.Errorf("report %+v", r.Stages)
			}
		})
	}
}
