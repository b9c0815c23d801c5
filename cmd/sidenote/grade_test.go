package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

const gradeByModel = "{by: llm, upstream: judge, model: m, timeout: 500ms}"

// serveGrading starts a Sidenote over documents about gardens, whose policy grades sources.
func serveGrading(t *testing.T, up *recorder, j *judge, grade string) *process {
	t.Helper()
	return serveReranking(t, up, j, "off, grade: "+grade)
}

// gradesOf returns the grades of a dry run's sources by document, of those included and those
// excluded for their grade, and the outcome of grading.
func gradesOf(t *testing.T, p *process, question string) (sources map[string]string, came string) {
	t.Helper()
	var dry struct {
		Ledger struct {
			Sources []struct {
				ID     int
				Doc    string `json:"doc_id"`
				Grade  string
				Score  float64 `json:"grade_score"`
				Reason string
			}
			Grade struct {
				By, Reason, Verdict string
				Documents           int
			}
		}
	}
	_, text := posted(t, p.admin+"/v1/rewrite", "", fmt.Sprintf(`{"model":"gpt-4o","messages":[{"role":"user","content":%q}]}`, question))
	if err := json.Unmarshal([]byte(text), &dry); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	sources = map[string]string{}
	for _, s := range dry.Ledger.Sources {
		switch {
		case s.ID > 0:
			sources[s.Doc] = fmt.Sprint(s.Grade, " ", s.Score)
		case strings.HasPrefix(s.Reason, "irrelevant: "):
			sources[s.Doc] = s.Reason
		}
	}
	g := dry.Ledger.Grade
	return sources, fmt.Sprint(g.By, " ", g.Reason, " ", g.Verdict)
}

// Status, dry run and request show the verdict, which is cached with the answer. If all sources are
// irrelevant, the search counts as empty, with a reason of its own.
func TestGradeVerdicts(t *testing.T) {
	j := newJudge(t)
	p := serveGrading(t, newRecorder(t), j, gradeByModel)
	const low = "irrelevant: 0.1 < 0.3"
	for question, c := range map[string]struct {
		status, verdict string
		sources         map[string]string
	}{
		"What is in the garden?": {"injected; sources=1; ", "relevant", map[string]string{"visitor.md": "relevant 0.9", "beds.md": low, "paths.md": low, "plants.md": low}},
		"Is there gravel? ≈":     {"injected; sources=1; ", "ambiguous", map[string]string{"paths.md": "ambiguous 0.5"}},
		"What of gravel? ∅":      {"untouched; reason=irrelevant; ", "irrelevant", map[string]string{"paths.md": low}},
	} {
		for range 2 {
			if status := plannedFor(t, p, "key-of-caller", question); !strings.HasPrefix(status, c.status) || !strings.Contains(status+"; ", "; grade=ok; verdict="+c.verdict+"; ") || strings.Contains(status, "degraded") {
				t.Errorf("%s: %s", question, status)
			}
		}
		if calls := j.calls(); len(calls) == 0 || !strings.HasPrefix(calls[0], "Bearer key-of-judge /v1/chat/completions ") || len(calls) > 4 {
			t.Errorf("%s: asked %q", question, calls)
		}
		sources, came := gradesOf(t, p, question)
		if came != "llm ok "+c.verdict || fmt.Sprint(sources) != fmt.Sprint(c.sources) || len(j.calls()) > 0 {
			t.Errorf("%s: %q, %v, want %v", question, came, sources, c.sources)
		}
	}
}

// on_empty also applies if nothing is relevant.
func TestGradeOnEmpty(t *testing.T) {
	const question = "What of gravel? ∅"
	for policy, want := range map[string]string{
		gradeByModel + ", on_empty: refuse":                "answered; reason=irrelevant; grade=ok; verdict=irrelevant",
		gradeByModel + ", on_empty: notice":                "injected; reason=irrelevant; sources=0; ",
		gradeByModel + ", grounding: strict":               "injected; reason=irrelevant; sources=0; ",
		gradeByModel + ", on_failure: {retrieval: refuse}": "untouched; reason=irrelevant; ", // it worked
	} {
		p := serveGrading(t, newRecorder(t), newJudge(t), policy)
		if status := plannedFor(t, p, "key-of-caller", question); !strings.HasPrefix(status, want) {
			t.Errorf("%s: %s, want %s", policy, status, want)
		}
	}
}

// Whatever a grader does, the request is answered with what the search found, and status, dry run,
// metrics and log say what happened. Failures are not cached.
func TestGradeReasons(t *testing.T) {
	j := newJudge(t)
	p := serveGrading(t, newRecorder(t), j, gradeByModel)
	for _, c := range []struct{ question, reason string }{ // what works stands between what fails, or nobody is asked any more
		{"What is in the garden?", "ok"},
		{"Is there gravel? ↓", "error"},
		{"Is there gravel? →", "invalid"},
		{"Garden, what is in it?", "ok"},
		{"Is there gravel? ↔", "timeout"},
		{"Is there gravel? ←", "invalid"},
		{"What is in that garden?", "ok"},
		{"Is there gravel? ↑", "error"},
		{"Is there gravel? ☂", "invalid"},
		{"hippopotamus", "disabled"},
	} {
		began := time.Now()
		status := plannedFor(t, p, "key-of-caller", c.question)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: took %v", c.question, took)
		}
		failed := c.reason != "ok" && c.reason != "disabled"
		if !strings.Contains(status+"; ", "; grade="+c.reason+"; ") || strings.Contains(status, "; degraded=grade; ") != failed || strings.Contains(status, "verdict") != (c.reason == "ok") {
			t.Errorf("%s: %s", c.question, status)
		}
		if !failed {
			continue
		}
		sources, came := gradesOf(t, p, c.question)
		if !strings.HasPrefix(status, "injected; sources=1; ") || came != "llm "+c.reason+" " || len(sources) != 1 || sources["paths.md"] != " 0" {
			t.Errorf("%s: %q, %q", c.question, came, sources)
		}
	}
	text := "" // the last request is counted a moment after its answer has come
	for begin := time.Now(); !strings.Contains(text, `sidenote_grades_total{reason="disabled",verdict="none"}`) && time.Since(begin) < time.Minute; {
		_, text = get(t, p.admin+"/metrics")
	}
	for _, line := range []string{
		`sidenote_grades_total{reason="ok",verdict="relevant"}`, `sidenote_grades_total{reason="invalid",verdict="none"}`,
		`sidenote_grades_total{reason="error",verdict="none"}`, `sidenote_grades_total{reason="timeout",verdict="none"}`,
		`sidenote_grades_total{reason="disabled",verdict="none"}`, `sidenote_sources_excluded_total{reason="grade"}`,
		`sidenote_degraded_total{reason="invalid",stage="grade"}`, `sidenote_degraded_total{reason="timeout",stage="grade"}`,
		`sidenote_degraded_total{reason="error",stage="grade"}`, `sidenote_breaker_open{name="grade/judge"} `,
		`sidenote_stage_duration_seconds_count{stage="grade"}`, `sidenote_tokens_total{kind="grade",tenant="default"} `,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %s", line)
		}
	}
	if t.Failed() {
		return
	}
	log := p.out.until(t, `"grade":"timeout","verdict":"","grade_model":"m","grade_documents":`)
	for _, secret := range []string{"gravel", "garden", "key-of-judge", "key-of-caller"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// The scores of a policy's reranker grade the sources that it ordered, and are requested once.
func TestGradeByRerankScores(t *testing.T) {
	j := newJudge(t)
	p := serveReranking(t, newRecorder(t), j, "{upstream: judge, dialect: tei}, grade: {by: rerank, relevant: 0.8, irrelevant: 0.2}")
	status := plannedFor(t, p, "key-of-caller", "What is in the garden?")
	if !strings.HasPrefix(status, "injected; sources=1; ") || !strings.Contains(status, "; rerank=ok; grade=ok; verdict=relevant; ") || len(j.calls()) != 1 {
		t.Errorf("%s", status)
	}
	status = plannedFor(t, p, "key-of-caller", "What is in the garden? ↓")
	if !strings.HasPrefix(status, "injected; sources=4; ") || !strings.Contains(status, "; degraded=rerank; ") || !strings.Contains(status, "; rerank=error; grade=error; ") {
		t.Errorf("%s", status)
	}
}

// A search on the admin port calls no helper, unless it asks for the stages of a tenant's policy;
// the tenant is charged as for a dry run.
func TestSearchByStages(t *testing.T) {
	j := newJudge(t)
	p := serveReranking(t, newRecorder(t), j, "{upstream: judge, dialect: tei}, planner: {model: m, upstream: judge}, grade: "+gradeByModel)
	const query = `{"query": "What is in the garden?"`
	if status, text := posted(t, p.admin+"/v1/search?tenant=default", "", query+"}"); status != 200 || strings.Contains(text, "rerank") || strings.Contains(text, "grade") || len(j.calls()) > 0 {
		t.Errorf("%d %s", status, text)
	}
	_, text := posted(t, p.admin+"/v1/search?tenant=default", "", query+`, "stages": true}`)
	for _, want := range []string{
		`"data":[{"kb_id":"docs","doc_id":"visitor.md",`, `"rerank_score":0.9,"grade":"relevant","grade_score":0.9,`, `"reason":"grade","detail":"irrelevant: 0.1 \u003c 0.3"`,
		`"retrieval_queries":["What is in the garden?","snails"]`, `"rerank":{"upstream":"judge","documents":4,"reason":"ok"}`,
		`"grade":{"by":"llm","upstream":"judge","model":"m","documents":4,"reason":"ok","verdict":"relevant"}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if calls := j.calls(); len(calls) != 6 { // a plan, a list to rerank, four parts to grade
		t.Errorf("asked %q", calls)
	}
	if status, text := posted(t, p.admin+"/v1/search", "", query+`, "stages": true}`); status != 400 || !strings.Contains(text, "?tenant=") {
		t.Errorf("of nobody: %d %s", status, text)
	}
}

// If a policy replans, the planner is called only after an ambiguous verdict; its queries find what
// the question did not.
func TestGradeReplans(t *testing.T) {
	up, j := newRecorder(t), newJudge(t)
	p := serveReranking(t, up, j, "off, planner: {model: m, upstream: judge}, grade: {by: llm, upstream: judge, model: m, ambiguous: replan}")
	status := plannedFor(t, p, "key-of-caller", "What is in the garden?")
	if !strings.Contains(status, "; planner=disabled; ") || !strings.Contains(status, "; grade=ok; verdict=relevant; retrieval-ms") {
		t.Errorf("%s", status)
	}
	j.calls()
	status = plannedFor(t, p, "key-of-caller", "Is there gravel? ≈")
	if !strings.HasPrefix(status, "injected; sources=2; ") || !strings.Contains(status, "; planner=ok; retrieval_query_count=2; ") || !strings.Contains(status, "; grade=ok; verdict=relevant; rounds=2; ") {
		t.Errorf("%s", status)
	}
	if calls := j.calls(); len(calls) != 4 || !strings.HasSuffix(calls[0], " 1") || !strings.HasSuffix(calls[1], " 0") { // one document, a plan, then two by themselves
		t.Errorf("asked %q", calls)
	}
	if body := string(up.last(t).body); !strings.Contains(body, "snails") || !strings.Contains(body, "gravel") {
		t.Errorf("sent %s", body)
	}
}
