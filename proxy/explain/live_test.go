package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// Request numbers continue when the ring wraps around, and requests that are no longer kept have
// no summary.
func TestSummaries(t *testing.T) {
	r := explain.New(3, explain.BodiesOff)
	if first, end := r.Range(); first != 0 || end != 0 {
		t.Errorf("of none: %d to %d", first, end)
	}
	for i := range 5 {
		r.Record(injected(fmt.Sprint("r", i)))
	}
	r.Record(&report.Report{ID: "relayed", Outcome: report.Relayed})
	if first, end := r.Range(); first != 2 || end != 5 {
		t.Errorf("of five: %d to %d", first, end)
	}
	for n := range uint64(7) {
		s, ok := r.Summary(n)
		if kept := n >= 2 && n < 5; ok != kept || ok && (s.ID != fmt.Sprint("r", n) || s.Number != n) {
			t.Errorf("%d: %+v, %v", n, s, ok)
		}
	}
}

// A summary has the status of the answer's header, though most of the report is not kept.
func TestSummary(t *testing.T) {
	r := explain.New(1, explain.BodiesOff)
	of := injected("a")
	of.Rewrite.Model.Window = 400_000
	want := string(report.AppendStatus(nil, of))
	r.Record(of)
	s, _ := r.Summary(0)
	if s.Line != want || !strings.HasPrefix(want, "injected; sources=1; tokens=119;") || strings.Contains(want, "window=unknown") {
		t.Errorf("%q, want %q", s.Line, want)
	}
	e := find(t, r, "a")
	if e.Line != want {
		t.Errorf("explained: %q", e.Line)
	}
	s.Line = ""
	if want := (explain.Summary{ID: "a", Time: e.Time, Tenant: "acme", Model: "gpt-5*", Outcome: rewrite.Injected, Status: 200, Sources: 1, Tokens: 119, Overhead: 4 * time.Millisecond, Total: time.Second}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	of = injected("b")
	of.Tools, of.Budget.Rung = &report.Tools{}, "fewer_sources"
	of.Tools.Add(report.ToolCall{Tokens: 30}, make([]retrieval.Source, 2))
	r.Record(of)
	if s, _ := r.Summary(1); s.Sources != 3 || s.Tokens != 149 || s.Rung != "fewer_sources" {
		t.Errorf("with tools: %+v", s)
	}
}

// Kept reports which of many requests are still kept.
func TestKept(t *testing.T) {
	r := explain.New(2, explain.BodiesOff)
	for _, id := range []string{"a", "b", "c"} {
		r.Record(injected(id))
	}
	if got := r.Kept([]string{"a", "b", "c", "", "x"}); got["a"] || !got["b"] || !got["c"] || got[""] || got["x"] {
		t.Errorf("%v", got)
	}
	if got := (*explain.Ring)(nil).Kept([]string{"a"}); got["a"] {
		t.Errorf("of none: %v", got)
	}
}

// Subscribers are woken once, however many requests end before they look.
func TestSubscribe(t *testing.T) {
	r := explain.New(3, explain.BodiesOff)
	kept, stop, ok := r.Subscribe()
	if !ok {
		t.Fatal("nobody may subscribe")
	}
	for range 10 { // recording does not wait for a subscriber
		r.Record(injected("a"))
	}
	<-kept
	select {
	case <-kept:
		t.Error("it is woken twice")
	default:
	}
	stop()
	r.Record(injected("b"))
	select {
	case <-kept:
		t.Error("it is woken after its end")
	default:
	}
}

// The number of subscribers is limited; a slot is free when one ends.
func TestSubscribersAreBounded(t *testing.T) {
	r := explain.New(3, explain.BodiesOff)
	var stops []func()
	for {
		_, stop, ok := r.Subscribe()
		if !ok {
			break
		}
		stops = append(stops, stop)
	}
	if len(stops) != 16 {
		t.Errorf("%d subscribers", len(stops))
	}
	stops[3]()
	if _, _, ok := r.Subscribe(); !ok {
		t.Error("there is no room after the end of one")
	}
}

// BenchmarkFollowed measures the cost of recording a request: without a page that follows, with
// one, and with the maximum. Each page reads everything four times a second.
func BenchmarkFollowed(b *testing.B) {
	for _, pages := range []int{0, 1, 16} {
		b.Run(fmt.Sprint("pages=", pages), func(b *testing.B) {
			r := explain.New(1000, explain.BodiesOff)
			of := injected("a")
			ended := make(chan struct{})
			for range pages {
				kept, stop, _ := r.Subscribe()
				go func() {
					defer stop()
					for pause := time.NewTicker(250 * time.Millisecond); ; <-pause.C {
						select {
						case <-kept:
						case <-ended:
							return
						}
						for first, end := r.Range(); first < end; first++ {
							r.Summary(first)
						}
					}
				}()
			}
			b.ReportAllocs()
			for b.Loop() {
				again := *of // Record may keep parts of it
				r.Record(&again)
			}
			close(ended)
		})
	}
}
