package inspector_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/proxy/answer"
	"sidenote/proxy/explain"
	"sidenote/proxy/inspector"
	"sidenote/proxy/report"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// longTexts returns texts that make pages long, or that take long to process.
func longTexts() map[string]string {
	long := 1 << 20
	if testing.Short() {
		long = 200 << 10 // longer than a page may be
	}
	return map[string]string{
		"quotes":   strings.Repeat(`"`, long),
		"controls": strings.Repeat("\x01", long),
		"lines":    strings.Repeat("\n", long),
		"one-line": strings.Repeat("a", long),
		"cited":    strings.Repeat("[1]", long/2),
		"numbers":  "[" + strings.Repeat("1,", 30<<10) + "1]",
		"deep":     strings.Repeat(`{"":[`, 4000) + "1" + strings.Repeat("]}", 4000),
		"prose":    fmt.Sprintf(`{"content":%q}`, strings.Repeat("a\n", 20<<10)),
	}
}

// longest returns a request in which everything has the maximum length.
func longest(id, text string) *report.Report {
	of := hostileRequest()
	of.ID, of.Outcome = id, report.WithTools
	of.Rewrite.Ledger.Model = text
	l := &of.Rewrite.Ledger
	source := l.Sources[0]
	source.Doc, source.Name, source.Section, source.Detail = text, text, text, text
	l.Notes = slices.Repeat([]string{text}, 20)
	l.Sources = nil
	for i := range 60 {
		source.ID = i + 1
		l.Sources = append(l.Sources, source)
	}
	l.Excluded = retrieval.NewExcludedList(slices.Repeat([]retrieval.Excluded{{Knowledge: text, Doc: text, Name: text, Section: text, Reason: retrieval.ExcludedDup, Detail: text}}, 60))
	l.Edits = slices.Repeat([]rewrite.Edit{{Name: "inject", Offset: 1, Insert: [][]byte{[]byte("a")}}}, 20)
	of.Tools = &report.Tools{Rounds: 20, Ended: true}
	for i := range 60 {
		of.Calls = append(of.Calls, report.Call{Upstream: "openai", Purpose: report.ToTools, Took: time.Millisecond})
		of.Tools.Add(report.ToolCall{Round: i + 1, Name: text, Arguments: text, Took: time.Millisecond, Outcome: report.ToolOK}, nil)
	}
	of.Stages = &report.Stages{Total: 8, Ended: true}
	for i := range 8 {
		of.Stages.Called = append(of.Stages.Called, report.Stage{Name: fmt.Sprint("stage", i), At: i + 1, Took: time.Millisecond, Model: text, Request: []byte(text), Output: text})
	}
	return of
}

// worst returns requests with long texts; their ids name the texts. Tests share them, as they take
// long to make.
var worst = sync.OnceValue(func() *explain.Ring {
	r := explain.New(100, explain.BodiesFull)
	for id, text := range longTexts() {
		of := longest(id, text)
		r.Received(of, []byte(text))
		r.Sent(of, [][]byte{[]byte(strings.ReplaceAll(text, "a", "b") + "\x00\n" + text)})
		r.Answered(of, answer.Text{Bytes: len(text), Text: text[:min(len(text), answer.MaxText)], Finish: text})
		r.Record(of)
	}
	return r
})

// For any request, the page is short, with room for the settings of a policy, which these have
// none of.
func TestLongestRequests(t *testing.T) {
	address := serve(t, inspector.Data{Requests: worst()}, nil)
	for id := range longTexts() {
		page := ask(t, http.MethodGet, address+"/requests/"+id, "") // BenchmarkRequestPage measures how long it takes
		if n := len(page.body); page.code != http.StatusOK || n > 175_000 || !strings.HasSuffix(page.body, "</html>") {
			t.Fatalf("%s: %d, %d bytes", id, page.code, n)
		}
	}
}

func BenchmarkRequestPage(b *testing.B) {
	address := serve(b, inspector.Data{Requests: worst()}, nil)
	for id := range longTexts() {
		b.Run(id, func(b *testing.B) {
			size := 0
			for b.Loop() {
				resp, err := http.Get(address + "/requests/" + id)
				if err != nil {
					b.Fatal(err)
				}
				n, _ := io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				size = int(n)
			}
			b.ReportMetric(float64(size), "B/page")
		})
	}
}
