package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/report"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/remote"
	"sidenote/retrieval/services"
)

// A fakeSource counts its fetches. While it hangs, they last until they are stopped.
type fakeSource struct {
	fetches atomic.Int64
	hangs   bool
}

func (s *fakeSource) Fetch(ctx context.Context, _ *remote.Mirror, _ func(remote.Progress)) (remote.Report, error) {
	s.fetches.Add(1)
	if s.hangs {
		<-ctx.Done()
	}
	return remote.Report{}, ctx.Err()
}

func (s *fakeSource) String() string { return "fake" }

// A fakeReader reads nothing. Each run announces itself and waits until it may end.
type fakeReader struct {
	begun, end chan struct{}
	accepted   atomic.Int64 // runs that accepted deletions
}

func (r *fakeReader) Sync(_ context.Context, f folder.Folder, _ func(folder.Progress)) (folder.Report, error) {
	r.begun <- struct{}{}
	<-r.end
	if f.AcceptDeletions {
		r.accepted.Add(1)
	}
	return folder.Report{}, nil
}

func (r *fakeReader) Update(ctx context.Context, f folder.Folder, progress func(folder.Progress)) (folder.Report, error) {
	return r.Sync(ctx, f, progress)
}

func (*fakeReader) Look(context.Context, folder.Folder, func(string)) uint64 { return 0 }

// A fakeVectors makes vectors, or says why it does not.
type fakeVectors struct {
	enginetest.Vectors
	why atomic.Value // a fault
}

func (v *fakeVectors) Passages(ctx context.Context, passages []string) (services.Passages, error) {
	if why, ok := v.why.Load().(fault); ok && why.error != nil {
		return services.Passages{}, why
	}
	return v.Vectors.Passages(ctx, passages)
}

// A fault is an error, or none, in an atomic.Value.
type fault struct{ error }

func (f fault) Unwrap() error { return f.error }

// Vectors of a base in an engine that could not be made are made later, though no file changes, and the
// reason is shown meanwhile and logged once.
func TestVectorsInAnEngineAreMadeLater(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.md"), []byte("# A\n\nalpha text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		m, v := new(enginetest.Memory), &fakeVectors{Vectors: enginetest.Vectors{Dimensions: 8}}
		if err := m.Init(t.Context(), "docs"); err != nil {
			t.Fatal(err)
		}
		w := engine.NewWriter(engine.WriterOptions{Server: m, Base: "docs", Owner: "a test", Deps: enginetest.Deps(), Passages: v})
		x := &indexer{
			folder: folder.Folder{ID: "docs", Path: dir}, library: w,
			monitor: Monitor{Metrics: report.NewMetrics(report.MetricNames{}), Log: func(_ slog.Level, line string) { lines = append(lines, line) }},
		}
		v.why.Store(fault{errors.New("no answer")})
		x.read(t.Context(), w.Sync)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); x.follow(ctx, nil) }()
		embedded := func(want int) {
			t.Helper()
			synctest.Wait()
			states, err := m.States(t.Context(), []string{"docs"})
			last := x.status()
			if err != nil || states[0].Embedded != want || (last.late() == nil) != (want == 1) {
				t.Errorf("state %+v, %v, late: %v", states, err, last.late())
			}
		}
		time.Sleep(time.Minute)
		embedded(0)
		if runs := x.status().runs; runs < 3 || runs > 5 {
			t.Errorf("%d runs in a minute", runs)
		}
		tomorrow := time.Now().Add(24 * time.Hour)
		v.why.Store(fault{&LimitError{PerDay: 1, Until: tomorrow}})
		time.Sleep(20 * time.Minute)
		runs := x.status().runs
		v.why.Store(fault{})
		time.Sleep(23 * time.Hour)
		embedded(0)
		if x.status().runs != runs {
			t.Error("read again before the tokens of the next day")
		}
		time.Sleep(time.Hour)
		embedded(1)
		stop()
		<-ended
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
		want := []string{
			"knowledge docs: 0 of 1 chunk embedded, the others are found by words alone: no answer",
			"knowledge docs: 0 of 1 chunk embedded, the others are found by words alone: embeddings.tokens_per_day",
			"knowledge docs: all chunks are embedded now",
		}
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "new or changed") })
		if !slices.EqualFunc(lines, want, strings.HasPrefix) {
			t.Errorf("logged %q", lines)
		}
	})
}

func requestedIndexer(t *testing.T, source remote.Source, reader syncer) *indexer {
	monitor := Monitor{Metrics: report.NewMetrics(report.MetricNames{}), Log: func(slog.Level, string) {}}
	fetcher := &Fetcher{id: "kb", source: config.RemoteSource{Source: source}, dir: filepath.Join(t.TempDir(), "mirror"), monitor: monitor}
	return &indexer{folder: folder.Folder{ID: "kb"}, fetcher: fetcher, library: reader, tasks: NewTasks(t.Context(), monitor.Panicked), monitor: monitor}
}

// A process that stops waits for no requested run, and none begins any more.
func TestRequestedRunsEndWithTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{hangs: true}
		x := requestedIndexer(t, source, &fakeReader{})
		ctx, stop := context.WithCancel(t.Context())
		undo := x.endRequests(ctx)
		x.ask(false)
		synctest.Wait()
		if source.fetches.Load() != 1 {
			t.Fatal("it does not fetch")
		}
		x.ask(false)
		stop()
		x.tasks.running.Wait()
		last := x.ask(false)
		x.tasks.running.Wait()
		if source.fetches.Load() != 1 || undo() {
			t.Errorf("%d fetches", source.fetches.Load())
		}
		if s := x.status(); s.runs != last || last != 3 || !strings.Contains(s.wire().Error, "stopped") || s.problem() != "" {
			t.Errorf("%d runs of %d, %q, %q", s.runs, last, s.wire().Error, s.problem())
		}
	})
}

// A mirror that cannot be opened at the start is tried again.
func TestMirrorIsOpenedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := requestedIndexer(t, new(fakeSource), &fakeReader{})
		write(t, x.fetcher.dir, "a file in its place")
		opened := make(chan folder.Folder, 1)
		go func() {
			f, err := x.opened(t.Context())
			if err != nil {
				t.Error(err)
			}
			opened <- f
		}()
		synctest.Wait()
		if err := x.status().problem(); !strings.Contains(err, x.fetcher.dir) {
			t.Errorf("problem %q", err)
		}
		if err := os.Remove(x.fetcher.dir); err != nil {
			t.Fatal(err)
		}
		if f := <-opened; !strings.HasPrefix(f.Path, x.fetcher.dir) {
			t.Errorf("opened %q", f.Path)
		}
	})
}

// A request is answered by a fetch and a run that begin after it, whatever else reads the mirror, and
// the counter of runs says when.
func TestRequestedRunsFetchAfterTheRequest(t *testing.T) {
	source, reader := new(fakeSource), &fakeReader{begun: make(chan struct{}), end: make(chan struct{})}
	x := requestedIndexer(t, source, reader)
	fetcher, tasks := x.fetcher, x.tasks
	ended := make(chan struct{})
	follow := func() {
		x.read(t.Context(), reader.Update)
		ended <- struct{}{}
	}
	is := func(when string, runs int, fetches int64) {
		t.Helper()
		if s := x.status(); s.runs != runs || source.fetches.Load() != fetches {
			t.Errorf("%s: %d runs, %d fetches; want %d and %d", when, s.runs, source.fetches.Load(), runs, fetches)
		}
	}

	go follow()
	<-reader.begun // it read the mirror as it was
	first := x.ask(false)
	is("a run that is not requested", 0, 0)
	reader.end <- struct{}{}
	<-ended
	<-reader.begun
	is("the first request", 1, 1)
	second := x.ask(true) // while the first is read
	if again := x.ask(false); first != 2 || second != 3 || again != second {
		t.Errorf("runs %d, %d and %d", first, second, again)
	}
	fetcher.turn.Lock() // as a fetch does
	reader.end <- struct{}{}
	go follow() // what was fetched is read by the way
	<-reader.begun
	reader.end <- struct{}{}
	<-ended
	is("a run while one is due", first, 1)
	if reader.accepted.Load() != 0 {
		t.Error("deletions are accepted by a run without a fetch")
	}
	fetcher.turn.Unlock()
	<-reader.begun
	reader.end <- struct{}{}
	tasks.running.Wait()
	is("the second request", second, 2)
	if reader.accepted.Load() != 1 {
		t.Error("the deletions are not accepted")
	}
}
