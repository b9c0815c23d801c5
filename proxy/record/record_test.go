package record_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/cache"
	"sidenote/proxy/record"
	"sidenote/proxy/report"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// keysOf returns keys with the given ids, each made of one letter.
func keysOf(t testing.TB, ids ...string) *cache.Keys {
	t.Helper()
	var lines strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&lines, "%s %s\n", id, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(id[:1]), 32)))
	}
	keys, err := cache.ParseKeys([]byte(lines.String()))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// everything returns Settings that record every request.
func everything(t testing.TB) record.Settings {
	return record.Settings{Share: 1, Keep: 24 * time.Hour, Max: 64 << 20, Keys: keysOf(t, "one")}
}

// A recorder is a Recorder that counts results.
type recorder struct {
	*record.Recorder
	dir string

	mu      sync.Mutex
	results map[string]int // by policy and result
	changed *sync.Cond
	log     []string
}

// newRecorder returns a recorder in a folder, on the disk unless files is given.
func newRecorder(t testing.TB, dir string, files record.FileSystem, policies map[string]record.Settings) *recorder {
	t.Helper()
	r := &recorder{dir: dir, results: map[string]int{}}
	r.changed = sync.NewCond(&r.mu)
	o := record.Options{Count: r.count, Log: r.tell, Panicked: func(v any, stack []byte) { t.Errorf("panic: %v\n%s", v, stack) }}
	if files != nil {
		o = o.On(files)
	}
	r.Recorder = record.New(dir, o)
	r.Configure(policies)
	return r
}

func (r *recorder) count(policy, result string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[policy+" "+result]++
	r.changed.Broadcast()
}

func (r *recorder) tell(problem string, begins bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprint(begins, " ", problem))
}

// logged returns the problems that began or ended.
func (r *recorder) logged() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log)
}

// counted waits until n requests have any of the results.
func (r *recorder) counted(n int) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		sum := 0
		for _, count := range r.results {
			sum += count
		}
		if sum >= n {
			all := map[string]int{}
			for result, count := range r.results {
				all[result] = count
			}
			return all
		}
		r.changed.Wait()
	}
}

func (r *recorder) end(t testing.TB) {
	t.Helper()
	if err := r.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// ask begins a request of a tenant, which the caller finishes.
func (r *recorder) ask(t testing.TB, policy, tenant, id, question string) *record.Draft {
	t.Helper()
	body := fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":%q}]}`, question)
	req, err := chat.Completions.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	d := r.Begin(policy, tenant, id)
	d.Ask(body, req, &rewrite.Options{})
	return d
}

// reported returns the report of a request that was given documents of a base.
func reported(policy, tenant, id string, at time.Time, docs ...string) *report.Report {
	of := &report.Report{ID: id, Time: at, Tenant: tenant, Policy: policy, Outcome: rewrite.Injected, Status: 200}
	for i, doc := range docs {
		of.Rewrite.Ledger.Sources = append(of.Rewrite.Ledger.Sources, rewrite.SourceEntry{ID: i + 1, Knowledge: "kb", Doc: doc})
	}
	return of
}

// records asks and finishes a request.
func (r *recorder) records(t testing.TB, policy, tenant, id, question string, docs ...string) {
	t.Helper()
	r.ask(t, policy, tenant, id, question).Finish(reported(policy, tenant, id, time.Now(), docs...))
}

// read returns the records in a folder.
func read(t testing.TB, dir string, keys map[string]*cache.Keys, q record.Query) (list []*record.Record, r *record.Reader) {
	t.Helper()
	r, err := record.Open(dir, keys)
	if err != nil {
		t.Fatal(err)
	}
	for of, err := range r.All(q) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, of)
	}
	return list, r
}

// ids returns the ids of records.
func ids(list []*record.Record) (all []string) {
	for _, of := range list {
		all = append(all, of.ID)
	}
	return all
}

func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// A reader chooses by time, policy and tenant, and yields the oldest first, of whichever policy.
func TestReaderChooses(t *testing.T) {
	dir, keys := t.TempDir(), map[string]*cache.Keys{"a": keysOf(t, "one"), "b": keysOf(t, "two")}
	settings := map[string]record.Settings{}
	for name, k := range keys {
		s := everything(t)
		s.Keys = k
		settings[name] = s
	}
	r := newRecorder(t, dir, nil, settings)
	begin := time.Now().Add(-time.Hour)
	for i, of := range []struct{ policy, tenant string }{{"a", "x"}, {"b", "x"}, {"a", "y"}, {"b", "y"}, {"none", "x"}} {
		id := fmt.Sprint(4 - i) // the last one began first
		r.ask(t, of.policy, of.tenant, id, "?").Finish(reported(of.policy, of.tenant, id, begin.Add(time.Duration(4-i)*time.Minute)))
	}
	r.ask(t, "a", "z", "5", "?").Finish(reported("c", "z", "5", begin.Add(5*time.Minute))) // in an experiment of a
	r.end(t)
	f := func(what string, q record.Query, want ...string) {
		t.Helper()
		list, _ := read(t, dir, keys, q)
		equal(t, what, ids(list), want)
	}
	f("all", record.Query{}, "1", "2", "3", "4", "5")
	f("policy b of an experiment", record.Query{Policy: "c"}, "5")
	f("a policy", record.Query{Policy: "a"}, "2", "4")
	f("a tenant", record.Query{Tenant: "y"}, "1", "2")
	f("since", record.Query{Since: begin.Add(3 * time.Minute)}, "3", "4", "5")
	f("until", record.Query{Until: begin.Add(3 * time.Minute)}, "1", "2")
	list, _ := read(t, dir, map[string]*cache.Keys{"b": keys["b"]}, record.Query{})
	equal(t, "of one key", ids(list), []string{"1", "3"})
	for range 2 { // All may be stopped
		reader, err := record.Open(dir, keys)
		if err != nil {
			t.Fatal(err)
		}
		for range reader.All(record.Query{}) {
			break
		}
	}
}

// A folder without records is an error that says so.
func TestNothingRecorded(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing")} {
		if _, err := record.Open(path, nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v", err)
		}
	}
}

// Only the owner can read files and folders, also one that existed.
func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	if err := os.MkdirAll(filepath.Join(dir, "p"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRecorder(t, dir, nil, map[string]record.Settings{"p": everything(t), "q": everything(t)})
	r.records(t, "p", "t", "1", "?")
	r.records(t, "q", "t", "2", "?")
	r.end(t)
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		files++
		return err
	})
	if err != nil || files != 6 { // a folder, a lock and a segment each
		t.Errorf("%d files, %v", files, err)
	}
}

// About the share of the requests is recorded, and nothing of other policies.
func TestShare(t *testing.T) {
	s := everything(t)
	s.Share = 0.25
	r := newRecorder(t, t.TempDir(), nil, map[string]record.Settings{"p": s})
	recorded := 0
	for range 4000 {
		if d := r.Begin("p", "t", "x"); d != nil {
			recorded++
			d.Discard()
		}
	}
	if recorded < 850 || recorded > 1150 { // 5 standard deviations
		t.Errorf("%d of 4000", recorded)
	}
	if r.Begin("q", "t", "x") != nil {
		t.Error("another policy is recorded")
	}
	r.end(t)
	var none *record.Recorder
	d := none.Begin("p", "t", "x")
	d.Ask(nil, nil, nil)
	d.Experiment("a", "b")
	d.Finish(nil)
	d.Discard()
	if none.Known("t", "x") || none.Feedback("t", "x", 1) || none.Problems() != nil || none.Close(t.Context()) != nil {
		t.Error("no recorder does something")
	}
}

// A policy that is taken out stops to record; its records stay, until they are too old.
func TestConfigure(t *testing.T) {
	dir, keys := t.TempDir(), map[string]*cache.Keys{"p": keysOf(t, "one")}
	r := newRecorder(t, dir, nil, map[string]record.Settings{"p": everything(t)})
	r.records(t, "p", "t", "1", "?")
	r.counted(1)
	r.Configure(nil)
	if r.Begin("p", "t", "2") != nil {
		t.Error("it still records")
	}
	r.Configure(map[string]record.Settings{"p": everything(t)})
	r.records(t, "p", "t", "3", "?")
	r.end(t)
	list, _ := read(t, dir, keys, record.Query{})
	equal(t, "records", ids(list), []string{"1", "3"})
}

// The experiment of a request is in its record, and which policy recorded it.
func TestExperiment(t *testing.T) {
	dir := t.TempDir()
	r := newRecorder(t, dir, nil, map[string]record.Settings{"p": everything(t)})
	d := r.ask(t, "p", "t", "1", "?")
	d.Experiment("shorter", "b")
	d.Finish(reported("q", "t", "1", time.Now()))
	r.end(t)
	list, _ := read(t, dir, map[string]*cache.Keys{"p": keysOf(t, "one")}, record.Query{})
	if len(list) != 1 || list[0].Experiment != "shorter" || list[0].Arm != "b" || list[0].Policy != "q" || list[0].By != "p" {
		t.Errorf("%+v", list)
	}
}

// Feedback is for a request of the same tenant that is being recorded or was, also by an earlier
// process. The last score counts, and there are not more than 16.
func TestFeedback(t *testing.T) {
	dir, keys := t.TempDir(), map[string]*cache.Keys{"p": keysOf(t, "one")}
	r := newRecorder(t, dir, nil, map[string]record.Settings{"p": everything(t)})
	d := r.ask(t, "p", "t", "1", "?")
	f := func(r *recorder, tenant, id string, score float64, want bool) {
		t.Helper()
		if known := r.Known(tenant, id); known != want {
			t.Errorf("%s of %s is known: %v", id, tenant, known)
		}
		if got := r.Feedback(tenant, id, score); got != want {
			t.Errorf("%s of %s: %v", id, tenant, got)
		}
	}
	f(r, "t", "1", -1, true)
	f(r, "u", "1", 1, false)
	f(r, "t", "2", 1, false)
	d.Finish(reported("p", "t", "1", time.Now()))
	f(r, "t", "1", 0.5, true)
	r.records(t, "p", "t", "2", "?")
	discarded := r.ask(t, "p", "t", "3", "?")
	discarded.Discard()
	f(r, "t", "3", 1, false)
	r.counted(2)
	f(r, "t", "2", 7, true)
	r.end(t)

	again := newRecorder(t, dir, nil, map[string]record.Settings{"p": everything(t)})
	again.records(t, "p", "t", "4", "?")
	again.counted(1) // so the ids were loaded
	f(again, "t", "1", -0.5, true)
	f(again, "u", "2", 1, false)
	for range 16 {
		again.Feedback("t", "4", 0)
	}
	if again.Feedback("t", "4", 1) {
		t.Error("more than 16 scores are taken")
	}
	again.end(t)
	if again.Feedback("t", "1", 1) {
		t.Error("feedback is taken after the end")
	}
	list, _ := read(t, dir, keys, record.Query{})
	want := map[string]float64{"1": -0.5, "2": 1, "4": 0}
	for _, of := range list {
		if of.Feedback == nil || *of.Feedback != want[of.ID] {
			t.Errorf("%s: %v", of.ID, of.Feedback)
		}
		delete(want, of.ID)
	}
	if len(want) > 0 {
		t.Errorf("%v are missing", want)
	}
}

// Only the last requests are known.
func TestKnownIsBounded(t *testing.T) {
	r := newRecorder(t, t.TempDir(), nil, map[string]record.Settings{"p": everything(t)})
	for i := range record.MaxRecent + 10 {
		d := r.Begin("p", "t", fmt.Sprint(i))
		r.Known("t", fmt.Sprint(i)) // remembers it
		d.Discard()
	}
	for i, want := range map[int]bool{0: false, 9: false, 10: true, record.MaxRecent + 9: true} {
		if r.Known("t", fmt.Sprint(i)) != want {
			t.Errorf("request %d: %v", i, !want)
		}
	}
	r.end(t)
}
