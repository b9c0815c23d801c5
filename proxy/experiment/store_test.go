package experiment_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/proxy/answer"
	"sidenote/proxy/experiment"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

func settings() experiment.Settings {
	return experiment.Settings{Name: "x", Share: .5, Unit: experiment.Conversation, Requests: 100, PolicyA: "one", HashA: "1", PolicyB: "two", HashB: "2"}
}

// finished returns a request of a unit whose answer cites a source or not.
func finished(arm experiment.Arm, unit uint64, cites bool) *report.Report {
	r := &report.Report{Status: 200, Outcome: rewrite.Injected, Experiment: report.Experiment{Name: "x", Arm: string(arm), Unit: unit, Counted: true}}
	r.Citations = &answer.CitationReport{}
	r.Rewrite.Ledger.Sources = []rewrite.SourceEntry{{ID: 1}}
	if cites {
		r.Citations.Cited = []answer.Cited{{ID: 1, Times: 2}}
	}
	return r
}

// saved runs the store until it has saved everything.
func saved(t *testing.T, s *experiment.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Run(ctx)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func opened(t *testing.T, dir string) *experiment.Store {
	t.Helper()
	s := experiment.New(dir, func(line string) { t.Errorf("log: %s", line) })
	s.Configure([]experiment.Settings{settings()})
	return s
}

func viewOf(t *testing.T, s *experiment.Store) string {
	t.Helper()
	text, err := json.Marshal(s.Views())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Outcomes outlive the process, and a unit that continues after a restart is the same unit.
func TestOutcomesSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	fill := func(s *experiment.Store, from int) {
		for n := range 100 {
			arm := []experiment.Arm{experiment.A, experiment.B}[n%2]
			s.Record(finished(arm, uint64(n/2), (n+from)%3 == 0))
		}
	}
	first := opened(t, dir)
	fill(first, 0)
	before := viewOf(t, first)
	saved(t, first)
	second := opened(t, dir)
	if after := viewOf(t, second); after != before {
		t.Errorf("before the restart %s\nafter it %s", before, after)
	}
	fill(second, 1)
	saved(t, second)

	whole := experiment.New("", nil)
	whole.Configure([]experiment.Settings{settings()})
	fill(whole, 0)
	fill(whole, 1)
	got, want := second.Views()[0], whole.Views()[0]
	if got.Measures[0].A != want.Measures[0].A || *got.Measures[0].Interval != *want.Measures[0].Interval || got.A.Units != 50 {
		t.Errorf("with a restart %+v\nwithout %+v", got.Measures[0], want.Measures[0])
	}
}

// A process that does not have the folder keeps outcomes in memory.
func TestFolderOfAnotherProcessIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	first, second := opened(t, dir), opened(t, dir)
	second.Record(finished(experiment.A, 1, true))
	saved(t, second)
	saved(t, first)
	if made := opened(t, dir).Views()[0].Made(); made != 0 {
		t.Errorf("%d requests were saved by the second process", made)
	}
}

// A process that waited for the folder takes it over, with the outcomes of more requests: those of the
// process that ended, or its own.
func TestFolderIsTakenOver(t *testing.T) {
	for _, counts := range [][2]int{{7, 3}, {3, 7}} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			first, second := opened(t, dir), opened(t, dir)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); second.Run(ctx) }()
			for i, s := range []*experiment.Store{first, second} {
				for n := range counts[i] {
					s.Record(finished(experiment.A, uint64(n), true))
				}
			}
			saved(t, first)
			time.Sleep(5 * time.Second)
			second.Record(finished(experiment.A, 9, true))
			cancel()
			<-done
			if err := second.Close(); err != nil {
				t.Fatal(err)
			}
			if made, want := opened(t, dir).Views()[0].Made(), max(counts[0], counts[1])+1; made != want {
				t.Errorf("%d and %d requests: %d are kept, want %d", counts[0], counts[1], made, want)
			}
		})
	}
}

// A damaged file is put aside and the experiment begins anew.
func TestDamagedStateIsPutAside(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"{", `{"version":2}`, `{"version":1,"settings":{"Name":"y","Goal":"cited"}}`, `{"version":1,"settings":{"Name":"x","Goal":"cited"},"order":["cited"],"units":[{"u":"zz"}]}`, `{"version":1,"settings":{"Name":"x","Goal":"joy"}}`} {
		if err := os.WriteFile(filepath.Join(dir, "x.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var log []string
		s := experiment.New(dir, func(line string) { log = append(log, line) })
		s.Configure([]experiment.Settings{settings()})
		if len(log) != 1 || !strings.Contains(log[0], "x.json is not read") || s.Views()[0].Made() != 0 {
			t.Errorf("%s: log %q", text, log)
		}
		if kept, err := os.ReadFile(filepath.Join(dir, "x.json.damaged")); err != nil || string(kept) != text {
			t.Errorf("kept %q, %v", kept, err)
		}
		saved(t, s)
	}
}

// A changed policy is reported; an experiment that left the configuration keeps its outcomes.
func TestChangedPoliciesAreReported(t *testing.T) {
	s := opened(t, "")
	s.Record(finished(experiment.A, 1, true))
	if s.Configure([]experiment.Settings{settings()}); s.Views()[0].Changed != nil {
		t.Error("the same settings count as changed")
	}
	of := settings()
	of.HashB = "3"
	if s.Configure([]experiment.Settings{of}); s.Views()[0].Changed == nil {
		t.Error("a changed policy is not reported")
	}
	s.Configure(nil)
	if v := s.Views()[0]; v.State != experiment.Removed || v.Made() != 1 {
		t.Errorf("after the removal: %+v", v)
	}
}

// A second score replaces the first; ids of other tenants, unknown ids and old ones are refused.
func TestOnlyTheLatestRequestsCanBeRated(t *testing.T) {
	s := opened(t, "")
	id := func(n int) string { return fmt.Sprintf("%026d", n) }
	of := report.Experiment{Name: "x", Arm: "a", Unit: 7, Counted: true}
	for n := range 100_001 {
		s.Begin(id(n), "acme", of)
	}
	f := func(tenant, id string, score float64, want bool) {
		t.Helper()
		if got := s.Feedback(tenant, id, score); got != want {
			t.Errorf("feedback of %s for %s: %v", tenant, id, got)
		}
	}
	f("acme", id(0), 1, false) // the oldest
	f("acme", id(1), 1, true)
	f("other", id(1), 1, false)
	f("acme", id(100_001), 1, false)
	f("acme", id(1), .5, true)
	f("acme", id(2), -1, true)
	for _, c := range s.Views()[0].Measures {
		if c.Measure == "feedback" && (c.A.N != 2 || c.A.Units != 1 || c.A.Mean != -.25) {
			t.Errorf("feedback: %+v", c.A)
		}
	}
}

// Errors, answers that were cut off and dropped shadow work do not count.
func TestFailedRequestsDoNotCount(t *testing.T) {
	s := opened(t, "")
	for _, change := range []func(*report.Report){
		func(r *report.Report) { r.Status = 502 },
		func(r *report.Report) { r.Truncated = true },
		func(r *report.Report) { r.Experiment.Counted = false },
		func(r *report.Report) { r.Experiment.Name = "y" },
		func(r *report.Report) { r.Outcome, r.Reason = rewrite.Shadowed, rewrite.ReasonOverload },
	} {
		r := finished(experiment.A, 1, true)
		change(r)
		s.Record(r)
	}
	if made := s.Views()[0].Made(); made != 0 {
		t.Errorf("%d requests count", made)
	}
}

// A question is a repetition if at least half of the words of both are in both.
func TestRepeats(t *testing.T) {
	f := func(question, before string, want bool) {
		t.Helper()
		if got := experiment.Repeats(strings.Fields, question, before); got != want {
			t.Errorf("%q after %q: %v", question, before, got)
		}
	}
	f("parental leave weeks", "weeks parental leave", true)
	f("parental leave weeks", "parental leave", true)
	f("parental leave in France now", "parental leave", false)
	f("a a b b", "a b", true)
	f("a", "b", false)
	f("", "b", false)
	f("a", "", false)
}

// The share of units in arm B is that of the settings, and does not depend on the order.
func TestAssignmentIsStable(t *testing.T) {
	of, n := settings(), 0
	of.Share = .2
	for unit := range experiment.Key(10_000) {
		arm := of.Assign("acme", experiment.KeyOf("unit", unit.String()))
		if arm == experiment.B {
			n++
		}
		if again := of.Assign("acme", experiment.KeyOf("unit", unit.String())); again != arm {
			t.Fatalf("unit %v has arms %s and %s", unit, arm, again)
		}
	}
	if n < 1880 || n > 2120 { // three standard errors
		t.Errorf("%d of 10,000 units have policy b, want about 2,000", n)
	}
	if of.Assign("acme", 1) != experiment.A || of.Assign("acme", 47) == "" {
		t.Error("the assignment of a unit has changed: units under way would get the other policy")
	}
}

// Recording a request takes little memory of its own.
func BenchmarkRecord(b *testing.B) {
	s := experiment.New("", nil)
	s.Configure([]experiment.Settings{settings()})
	r := finished(experiment.A, 1, true)
	b.ReportAllocs()
	for b.Loop() {
		s.Record(r)
	}
}

// A process that is killed loses a few seconds: what was recorded before is in the folder.
func TestCrashLosesSeconds(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, dir)
		ctx, cancel := context.WithCancel(t.Context())
		go s.Run(ctx)
		s.Record(finished(experiment.A, 1, true))
		time.Sleep(4 * time.Second) // of the test's clock
		synctest.Wait()
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil { // as a crash leaves it
			t.Fatal(err)
		}
		cancel()
	})
	if made := opened(t, copied).Views()[0].Made(); made != 1 {
		t.Errorf("%d requests are in the folder", made)
	}
}

// shared is a Shared of replicas in one process.
type shared struct {
	mu    sync.Mutex
	units map[string]experiment.Key
}

func (s *shared) Each(_ context.Context, tenant, access string, ids []string, do func(i int, unit experiment.Key) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, id := range ids {
		if unit, ok := s.units[tenant+" "+access+" "+id]; ok && !do(i, unit) {
			return
		}
	}
}

func (s *shared) Keep(_ context.Context, tenant, access, id string, unit experiment.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.units[tenant+" "+access+" "+id] = unit
}

// A request can be rated at a replica that did not answer it, once that is told, for its own tenant
// and arm.
func TestFeedbackReachesAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of, both := settings(), &shared{units: map[string]experiment.Key{}}
		one, two := opened(t, ""), opened(t, "")
		one.Conversations.Shared, two.Conversations.Shared = both, both
		if two.FeedbackOf(t.Context(), &of, "acme", "first", 1) {
			t.Error("an unknown request is rated")
		}
		ctx, cancel := context.WithCancel(context.Background())
		ran := make(chan struct{})
		go func() { one.Run(ctx); close(ran) }()
		unit := experiment.KeyOf("u")
		arm := of.Assign("acme", unit)
		one.Begin("first", "acme", report.Experiment{Name: "x", Arm: string(arm), Unit: uint64(unit), Counted: true})
		time.Sleep(time.Second)
		cancel()
		<-ran
		if two.FeedbackOf(t.Context(), &of, "other", "first", 1) {
			t.Error("another tenant rates the request")
		}
		for range 2 {
			if !two.FeedbackOf(t.Context(), &of, "acme", "first", 0.5) {
				t.Error("the request is not known")
			}
		}
		for _, c := range two.Views()[0].Measures {
			mean := map[experiment.Arm]experiment.Mean{experiment.A: c.A, experiment.B: c.B}[arm]
			if c.Measure == "feedback" && (c.A.N+c.B.N != 1 || mean.Mean != 0.5) {
				t.Errorf("got %+v", c)
			}
		}
	})
}
