package inspector_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/gaps"
	"sidenote/proxy/inspector"
)

// someGaps is an inspector.Gaps that always answers the same.
type someGaps struct {
	report *gaps.Report
	err    error
	days   *[]int
}

func (s someGaps) Recorded() bool { return s.report != nil || s.err != nil }

func (s someGaps) Gaps(_ context.Context, days int) (*gaps.Report, error) {
	if s.days != nil {
		*s.days = append(*s.days, days)
	}
	return s.report, s.err
}

func missing(question string) *gaps.Report {
	asked := time.Date(2026, 11, 30, 9, 30, 0, 0, time.UTC)
	return &gaps.Report{Object: "gaps", Records: 1200, Searched: 1000, Gaps: 31, Left: 5, Groups: []gaps.Group{
		{
			Question: question, Count: 29, Kinds: map[gaps.Kind]int{gaps.Silent: 20, gaps.Uncited: 9}, Answered: 4, First: asked, Last: asked,
			Nearest:   &gaps.Document{Knowledge: "hr", ID: "leave.md", Chunk: 2, Name: question, Relevance: 0.43},
			Questions: []gaps.Question{{ID: "a", Time: asked, Tenant: "acme", Text: question}, {ID: "b", Time: asked, Tenant: "acme", Text: "bikes"}},
		},
		{Question: "Who may see this?", Count: 1, Kinds: map[gaps.Kind]int{gaps.Silent: 1}, Unsearched: true, First: asked, Last: asked, Questions: []gaps.Question{{ID: "d", Time: asked, Text: "x"}}},
		{Question: "Is there a defibrillator?", Count: 2, Kinds: map[gaps.Kind]int{gaps.Silent: 2}, First: asked, Last: asked, Questions: []gaps.Question{{ID: "c", Time: asked, Text: "x"}}},
	}}
}

func gapsOf(r *gaps.Report) func() inspector.Data {
	return func() inspector.Data { return inspector.Data{Gaps: someGaps{report: r}} }
}

// The page shows groups in order with their signs and the nearest document, and the JSON has all.
func TestGapsPage(t *testing.T) {
	var days []int
	address := serve(t, inspector.Data{Gaps: someGaps{report: missing("How do I lease a bike?"), days: &days}}, withTokens("tok", ""))
	a := ask(t, "GET", address+"/gaps", "", "Authorization: Bearer tok")
	for _, want := range []string{
		"How do I lease a bike?", "no source 20, sources not cited 9", "4 would get sources now", `href="/knowledge/hr/document?id=leave.md&amp;chunk=2#chunk-2"`, "0.43",
		"Is there a defibrillator?", "none has a word of it", "not searched again", "Of 1,000 recorded questions", "31 lack something", "The oldest 5 of them are left out", `<option value="7" selected>`, "All 29, the last 2",
	} {
		if !strings.Contains(a.body, want) {
			t.Errorf("the page has no %q: %s", want, a.body)
		}
	}
	for _, path := range []string{"/gaps", "/gaps/json"} {
		if a := ask(t, "GET", serve(t, inspector.Data{Gaps: someGaps{report: missing("x")}}, nil)+path, ""); a.code != 303 || !strings.HasPrefix(a.Get("Location"), "/signin") {
			t.Errorf("without a token: %d %s", a.code, a.body)
		}
	}
	var report gaps.Report
	if b := ask(t, "GET", address+"/gaps/json?days=30", "", "Authorization: Bearer tok"); b.code != 200 || json.Unmarshal([]byte(b.body), &report) != nil || len(report.Groups) != 3 {
		t.Errorf("%d %s", b.code, b.body)
	}
	for _, odd := range []string{"0", "-1", "1e9", "x", ""} {
		ask(t, "GET", address+"/gaps?days="+odd, "", "Authorization: Bearer tok")
	}
	if len(days) != 7 || days[0] != 7 || days[1] != 30 || days[6] != 7 || days[2] != 7 {
		t.Errorf("asked for %v days", days)
	}
}

// Without records the page says what records; an error is shown.
func TestGapsPageWithoutRecords(t *testing.T) {
	for name, data := range map[string]inspector.Data{"none": {}, "nil": {Gaps: someGaps{}}} {
		address := serve(t, data, nil)
		if a := ask(t, "GET", address+"/gaps", ""); a.code != 200 || !strings.Contains(a.body, "No policy records questions") {
			t.Errorf("%s: %d %s", name, a.code, a.body)
		}
		if a := ask(t, "GET", address+"/gaps/json", ""); a.code != 404 {
			t.Errorf("%s: %d %s", name, a.code, a.body)
		}
	}
	if a := ask(t, "GET", serve(t, inspector.Data{Gaps: someGaps{err: errors.New("the key is another one")}}, withTokens("tok", ""))+"/gaps", "", "Authorization: Bearer tok"); a.code != 500 || !strings.Contains(a.body, "the key is another one") {
		t.Errorf("%d %s", a.code, a.body)
	}
}
