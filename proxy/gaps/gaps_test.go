package gaps_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/gaps"
	"sidenote/proxy/record"
	"sidenote/proxy/record/recordtest"
)

// A finder finds the same for every question.
type finder struct {
	found gaps.Finding
	err   error
	asked *int
}

func (f finder) Find(context.Context, *record.Record) (gaps.Finding, error) {
	*f.asked++
	return f.found, f.err
}

func of[T any](v T) *T { return &v }

// A question is a gap for the plainest of its signs, and none if its bases were not searched or
// nobody knows what the answer cites.
func TestKindOfGap(t *testing.T) {
	given := []record.Source{{ID: 1}, {ID: 2}}
	cited := func(support float64) []record.Source {
		return []record.Source{{ID: 1, Cited: 2, Support: of(support)}, {ID: 2}}
	}
	for _, c := range []struct {
		r    record.Record
		want gaps.Kind
	}{
		{record.Record{Reason: "no-match"}, gaps.Silent},
		{record.Record{Reason: "irrelevant"}, gaps.Silent},
		{record.Record{Reason: "no-match", Feedback: of(-0.5)}, gaps.Disliked},
		{record.Record{Reason: "no-match", Degraded: "embed"}, ""},
		{record.Record{Reason: "off", Feedback: of(-1.0)}, ""},
		{record.Record{Reason: "retrieval-timeout"}, ""},
		{record.Record{Reason: "no-query-terms"}, ""},
		{record.Record{Reason: "no-knowledge"}, ""},
		{record.Record{Reason: "budget"}, ""},
		{record.Record{Sources: given}, ""}, // citations were not checked
		{record.Record{Sources: given, Checked: true}, gaps.Uncited},
		{record.Record{Sources: cited(0.9), Checked: true}, ""},
		{record.Record{Sources: cited(0.1), Checked: true}, gaps.Unsupported},
		{record.Record{Sources: cited(0.9), Checked: true, Feedback: of(1.0)}, ""},
		{record.Record{Sources: cited(0.9), Checked: true, Feedback: of(-1.0)}, gaps.Disliked},
		{record.Record{Sources: []record.Source{{ID: 1, Cited: 1}}, Checked: true}, ""}, // its support is unknown
	} {
		if got := gaps.KindOf(&c.r); got != c.want {
			t.Errorf("%+v: %q, want %q", c.r, got, c.want)
		}
	}
}

func asked(n int, question string, r record.Record) *record.Record {
	r.ID, r.Time, r.Question = fmt.Sprint(n), time.Unix(1_800_000_000+int64(n), 0).UTC(), question
	return &r
}

// A report counts what was read, leaves out small talk, joins questions of the same terms, orders groups by how much they lack, and says
// what would be found now. Records' long texts are not in it.
func TestReportOfGaps(t *testing.T) {
	none, uncited := record.Record{Reason: "no-match", Tenant: "acme", Policy: "p", Block: "canary", Body: json.RawMessage(`"canary"`)}, record.Record{Sources: []record.Source{{ID: 1}}, Checked: true}
	n := 0
	report, err := gaps.Find(t.Context(), recordtest.List{
		asked(1, "How do I lease a bike?", none),
		asked(2, "What is the notice period?", uncited),
		asked(3, "how do I  lease a BIKE?", none),
		asked(4, "What does leasing a bike cost?", none),
		asked(5, "Where is the canteen?", record.Record{Sources: []record.Source{{ID: 1, Cited: 1, Support: of(1.0)}}, Checked: true}),
		asked(6, "Write a poem", record.Record{Reason: "off"}),
		asked(7, " ", none),
		asked(8, "Thanks, that helped!", none),
	}, record.Query{}, finder{found: gaps.Finding{Nearest: []gaps.Document{{Knowledge: "kb", ID: "bikes.md", Relevance: 0.6}}, Sources: 1}, asked: &n})
	if err != nil {
		t.Fatal(err)
	}
	if report.Records != 8 || report.Searched != 5 || report.Gaps != 4 || report.Left != 0 || n != 2 {
		t.Errorf("%+v after %d searches", report, n)
	}
	if len(report.Groups) != 2 || report.Groups[0].Count != 3 || report.Groups[1].Count != 1 {
		t.Fatalf("groups %+v", report.Groups)
	}
	bike := report.Groups[0]
	if bike.Kinds[gaps.Silent] != 3 || bike.Answered != 3 || bike.Nearest.ID != "bikes.md" || !strings.Contains(strings.ToLower(bike.Question), "bike") {
		t.Errorf("got %+v", bike)
	}
	if q := bike.Questions; len(q) != 3 || q[0].ID != "4" || q[2].ID != "1" || q[0].Tenant != "acme" || !q[0].Answered || bike.First.Unix() != 1_800_000_001 || bike.Last.Unix() != 1_800_000_004 {
		t.Errorf("got %+v", bike)
	}
	if notice := report.Groups[1]; notice.Kinds[gaps.Uncited] != 1 || notice.Answered != 0 || notice.Questions[0].Answered {
		t.Errorf("got %+v", notice)
	}
	if text, err := json.Marshal(report); err != nil || strings.Contains(string(text), "canary") {
		t.Errorf("%v: %s", err, text)
	}
}

// Questions are grouped and listed by the text that was searched for, which may be the request's own.
func TestGapsOfRequestsWithTheirOwnQuery(t *testing.T) {
	own := func(query string) record.Record {
		return record.Record{Reason: "no-match", Earlier: []string{"Where do I park?"}, Asked: &record.Asked{Query: query}}
	}
	n := 0
	report, err := gaps.Find(t.Context(), recordtest.List{
		asked(1, "Thanks, that helped!", own("bike lease")),
		asked(2, "", own("Lease a bike")),
		asked(3, "How do I lease a bike?", own("Thanks, that helped!")),
	}, record.Query{}, finder{asked: &n})
	if err != nil || report.Searched != 2 || n != 1 || len(report.Groups) != 1 {
		t.Fatalf("%+v after %d searches, %v", report, n, err)
	}
	if g := report.Groups[0]; g.Question != "Lease a bike" || len(g.Questions) != 2 || g.Questions[1].Text != "bike lease" || g.Questions[1].Earlier != nil {
		t.Errorf("got %+v", g)
	}
}

// An error of a search, and the end of the context, end a report; that nothing is near does not.
func TestReportOfGapsEnds(t *testing.T) {
	n := 0
	one := recordtest.List{asked(1, "How do I lease a bike?", record.Record{Reason: "no-match"})}
	if _, err := gaps.Find(t.Context(), one, record.Query{}, finder{err: errors.New("broken"), asked: &n}); err == nil || err.Error() != "broken" {
		t.Errorf("got %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := gaps.Find(ended, one, record.Query{}, finder{asked: &n}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	report, err := gaps.Find(t.Context(), one, record.Query{}, finder{asked: &n})
	if err != nil || len(report.Groups) != 1 || report.Groups[0].Nearest != nil {
		t.Errorf("%+v, %v", report, err)
	}
}

// Of very many gaps the newest are grouped, and the others are counted.
func TestReportOfManyGaps(t *testing.T) {
	n, many := 0, recordtest.List{}
	for i := range 2*gaps.MaxQuestions + 10 {
		many = append(many, asked(i, fmt.Sprintf("question about subject%d", i%50), record.Record{Reason: "no-match"}))
	}
	report, err := gaps.Find(t.Context(), many, record.Query{}, finder{asked: &n})
	if err != nil || report.Gaps != len(many) || report.Left != len(many)-gaps.MaxQuestions || n != 50 {
		t.Fatalf("%d gaps, %d left out, %d searches, %v", report.Gaps, report.Left, n, err)
	}
	for _, g := range report.Groups {
		if len(g.Questions) > gaps.MaxShown || g.Questions[0].Time.Before(g.Questions[len(g.Questions)-1].Time) {
			t.Errorf("%d questions", len(g.Questions))
		}
	}
}
