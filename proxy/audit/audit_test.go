package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/proxy/audit"
)

// events returns the events in lines.
func events(t *testing.T, text string) (all []audit.Event) {
	t.Helper()
	for line := range strings.Lines(text) {
		var e audit.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, e)
	}
	return all
}

// Each event is a line, also one that repeats another.
func TestEventsAreLines(t *testing.T) {
	var out bytes.Buffer
	counted := map[string]int{}
	l := &audit.Log{Out: &out, By: "command", Count: func(a audit.Action, r audit.Result) { counted[fmt.Sprint(a, " ", r)]++ }}
	e := audit.Event{
		Time: time.Date(2026, 11, 30, 12, 0, 0, 0, time.FixedZone("", 3600)), Action: audit.Put, Object: "docs", Documents: []string{"a.md"}, Result: audit.OK,
		Token: "crm", Address: "10.0.0.7", Request: "01M7Y9S0G540QS2PPDJ5EB1HAP",
	}
	l.Record(e)
	l.Record(e)
	l.Record(audit.Event{Action: audit.Ingest, Object: "docs", Result: audit.Failed, Reason: "a\nb"})
	const line = `{"time":"2026-11-30T11:00:00Z","msg":"audit","action":"put","object":"docs","documents":["a.md"],"result":"ok","token":"crm","address":"10.0.0.7","request_id":"01M7Y9S0G540QS2PPDJ5EB1HAP"}` + "\n"
	rest, ok := strings.CutPrefix(out.String(), line+line)
	if got := events(t, rest); !ok || len(got) != 1 || got[0].By != "command" || got[0].Reason != "a\nb" || time.Since(got[0].Time) > time.Hour {
		t.Errorf("got %s", out.String())
	}
	if counted["put ok"] != 2 || counted["ingest failed"] != 1 {
		t.Errorf("counted %v", counted)
	}
}

// Long lists of documents are in several lines, and long texts are cut.
func TestLongEvents(t *testing.T) {
	var out bytes.Buffer
	l := &audit.Log{Out: &out}
	var ids []string
	for i := range 2500 {
		ids = append(ids, fmt.Sprint(i))
	}
	l.Record(audit.Event{Action: audit.Forget, Object: strings.Repeat("ü", 1000), Documents: ids, Result: audit.OK, Changes: make([]audit.Change, 1001)})
	all := events(t, out.String())
	if len(all) != 3 || len(all[0].Documents) != 1000 || len(all[2].Documents) != 500 || all[2].Documents[499] != "2499" {
		t.Fatalf("%d lines", len(all))
	}
	if n := len(all[0].Object); n > 600 || len(all[0].Changes) != 1000 || all[0].More != 1 {
		t.Errorf("an object of %d bytes, %d changes and %d more", n, len(all[0].Changes), all[0].More)
	}
	if c := audit.NewChange("k", strings.Repeat("x", 5000), "new"); len(c.Old) > 600 || c.New != "new" {
		t.Errorf("a change of %d bytes", len(c.Old))
	}
}

type brokenWriter struct{ err error }

func (w *brokenWriter) Write(p []byte) (int, error) { return len(p), w.err }

// A line that is not written is reported until one is, and does not stop anything.
func TestUnwrittenLines(t *testing.T) {
	w := &brokenWriter{errors.New("no space left on device")}
	var lost []string
	l := &audit.Log{Out: w, Failed: func(err error, line []byte) { lost = append(lost, err.Error()+" "+string(line)) }}
	l.Record(audit.Event{Action: audit.Mode, Result: audit.OK})
	if l.Lost() != 1 || !strings.Contains(l.Problem(), "audit: no space left on device") || len(lost) != 1 || !strings.Contains(lost[0], `"action":"mode"`) {
		t.Errorf("%d lost, %q, %q", l.Lost(), l.Problem(), lost)
	}
	w.err = nil
	l.Record(audit.Event{Action: audit.Mode, Result: audit.OK})
	if l.Problem() != "" || l.Lost() != 1 {
		t.Errorf("%q, %d lost", l.Problem(), l.Lost())
	}
	var none *audit.Log
	none.Record(audit.Event{})
	if none.Problem() != "" || none.Close() != nil {
		t.Error("no log has a problem")
	}
	(&audit.Log{}).Record(audit.Event{Action: audit.Mode})
}

// A file that is moved away or removed is made again, and only its owner may read it.
func TestFileIsRotated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	f := audit.NewFile(path)
	defer f.Close() //nolint:errcheck // it is closed below
	write := func(text string) {
		t.Helper()
		if n, err := f.Write([]byte(text)); err != nil || n != len(text) {
			t.Fatal(n, err)
		}
	}
	has := func(path, want string) {
		t.Helper()
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
	write("1\n")
	write("2\n")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write("3\n")
	has(path+".1", "1\n2\n")
	has(path, "3\n")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write("4\n")
	has(path, "4\n")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	write("5\n")
	has(path, "5\n")
	audit.Tear(f)
	write("6\n")
	has(path, "5\n\n6\n")
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// A path that is no file, or that cannot be made, is an error for each line, and waits for nobody.
func TestFileThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	f := audit.NewFile(filepath.Join(dir, "new", "audit.log"))
	l := &audit.Log{Out: f}
	if err := l.Open(); err == nil || !strings.Contains(l.Problem(), "audit.log") {
		t.Errorf("%v, %q", err, l.Problem())
	}
	l.Record(audit.Event{Action: audit.Mode})
	if err := os.Mkdir(filepath.Join(dir, "new"), 0o700); err != nil {
		t.Fatal(err)
	}
	l.Record(audit.Event{Action: audit.Mode})
	if l.Problem() != "" || l.Lost() != 1 {
		t.Errorf("%q, %d lost", l.Problem(), l.Lost())
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	for _, path := range []string{dir, os.DevNull} {
		if _, err := audit.NewFile(path).Write([]byte("x\n")); err == nil {
			t.Errorf("%s is written", path)
		}
	}
}

// Lines of concurrent writers are whole.
func TestConcurrentEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	var all sync.WaitGroup
	for range 2 { // as a serve and a command
		l := &audit.Log{Out: audit.NewFile(path)}
		defer l.Close() //nolint:errcheck // nothing is lost
		for range 4 {
			all.Go(func() {
				for range 50 {
					l.Record(audit.Event{Action: audit.Put, Documents: []string{strings.Repeat("x", 900)}})
				}
			})
		}
	}
	all.Wait()
	text, err := os.ReadFile(path)
	if got := events(t, string(text)); err != nil || len(got) != 400 {
		t.Errorf("%d lines, %v", len(got), err)
	}
}
