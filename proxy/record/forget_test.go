package record_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cache"
	"sidenote/proxy/record"
)

// The records of requests that were given a document are removed: by the process that records and
// without one, and also those of requests that are being served.
func TestForget(t *testing.T) {
	for _, running := range []bool{true, false} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			settings := map[string]record.Settings{"p": everything(t), "q": everything(t)}
			r := newRecorder(t, dir, nil, settings)
			for _, policy := range []string{"p", "q"} {
				for i, docs := range [][]string{{"a"}, {"b"}, {"a", "b"}, {"c"}, {}} {
					r.records(t, policy, "t", fmt.Sprint(policy, i), "?", docs...)
				}
			}
			time.Sleep(time.Minute)
			open := r.ask(t, "p", "t", "open", "?")
			began := time.Now()
			time.Sleep(time.Minute)
			forget := r.Forget
			if !running {
				r.end(t)
				forget = func(base string, docs []string) (record.Forgotten, error) {
					return record.Forget(dir, settings, base, docs)
				}
			}
			f := func(base, doc string, want int) {
				t.Helper()
				if done, err := forget(base, []string{doc, "x"}); err != nil || done.Records != want || len(done.Unread) > 0 {
					t.Errorf("%s of %s: %+v, %v", doc, base, done, err)
				}
			}
			f("other", "b", 0)
			f("kb", "b", 4)
			f("kb", "b", 0)
			if running {
				open.Finish(reported("p", "t", "open", began, "c", "b"))
				time.Sleep(time.Minute)
				r.records(t, "p", "t", "later", "?", "b") // it was put again
				time.Sleep(time.Minute)
				r.end(t)
			}
			list, reader := read(t, dir, map[string]*cache.Keys{"p": keysOf(t, "one"), "q": keysOf(t, "one")}, record.Query{})
			want := []string{"p0", "p3", "p4", "q0", "q3", "q4"}
			if running {
				want = append(want, "later")
			}
			equal(t, "records", ids(list), want)
			if reader.Damaged() > 0 {
				t.Errorf("%d damaged", reader.Damaged())
			}
		})
	}
}

// What cannot be searched is named, with its key or its process, and the rest is searched. Damaged
// entries, whose sources nobody knows, go with those that are dropped.
func TestForgetNamesWhatItCannotRead(t *testing.T) {
	dir := t.TempDir()
	one, two := everything(t), everything(t)
	two.Keys = keysOf(t, "two")
	for id, s := range map[string]record.Settings{"1": one, "2": two} {
		r := newRecorder(t, dir, nil, map[string]record.Settings{"p": s, "q": s})
		r.records(t, "p", "t", id, "?", "a")
		r.end(t)
	}
	done, err := record.Forget(dir, map[string]record.Settings{"p": two}, "kb", []string{"a"})
	if err != nil || done.Records != 1 || strings.Join(done.Unread, "; ") != "records of policy p that need the key one, which is not in its record.key" {
		t.Errorf("%+v, %v", done, err)
	}
	r := newRecorder(t, dir, nil, map[string]record.Settings{"p": one})
	r.records(t, "p", "t", "3", "?", "b")
	r.counted(1)
	done, err = record.Forget(dir, map[string]record.Settings{"p": one}, "kb", []string{"a"})
	if err != nil || done.Records != 0 || len(done.Unread) == 0 || done.Unread[0] != "records of policy p, which another process writes" {
		t.Errorf("%+v, %v", done, err)
	}
	r.end(t)
	all := segments(t, dir, "p")
	last := all[len(all)-1]
	text, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-1] ^= 1
	if err := os.WriteFile(last, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if done, err = record.Forget(dir, map[string]record.Settings{"p": one}, "kb", []string{"a"}); err != nil || done.Records != 1 || done.Unread != nil {
		t.Errorf("%+v, %v", done, err)
	}
	if n := len(segments(t, dir, "p")); n != 0 {
		t.Errorf("%d segments", n)
	}
	if done, err := record.Forget(dir+"/none", nil, "kb", []string{"a"}); err != nil || done.Records != 0 {
		t.Errorf("%+v, %v", done, err)
	}
}

// What is left of a record whose writer was killed is removed, too.
func TestForgetRemovesWhatWasCutOff(t *testing.T) {
	dir, settings := t.TempDir(), map[string]record.Settings{"p": everything(t)}
	r := newRecorder(t, dir, nil, settings)
	r.records(t, "p", "t", "1", "?", "a")
	r.end(t)
	path := segments(t, dir, "p")[0]
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	if done, err := record.Forget(dir, settings, "kb", []string{"a"}); err != nil || done.Records != 0 || len(segments(t, dir, "p")) != 0 {
		t.Errorf("%+v, %v", done, err)
	}
}
