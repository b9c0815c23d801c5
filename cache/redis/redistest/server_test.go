package redistest_test

import (
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"sidenote/cache/redis/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServerIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for ci, want := range map[string]string{"": "skip", "true": "fatal"} {
		t.Setenv("CI", ci)
		tb := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			redistest.Start(tb)
		}()
		<-done
		if want += " redis-server is missing: apt-get install redis-server"; tb.said != want {
			t.Errorf("with CI=%q: got %q, want %q", ci, tb.said, want)
		}
	}
}

// The error for a wrong argument quotes what redis-server says about it.
func TestServerDoesNotStart(t *testing.T) {
	redistest.Start(t) // or skip
	tb := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		redistest.Start(tb, "--no-such-thing", "1")
	}()
	<-done
	if !strings.HasPrefix(tb.said, "fatal ") || !strings.Contains(tb.said, "Bad directive") {
		t.Errorf("got %q", tb.said)
	}
}

// A recorder is a testing.TB that records how it ended.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Fatal(args ...any) { r.end("fatal", args) }
func (r *recorder) Skip(args ...any)  { r.end("skip", args) }

func (r *recorder) end(how string, args []any) {
	switch arg := args[0].(type) {
	case string:
		r.said = how + " " + arg
	case error:
		r.said = how + " " + arg.Error()
	}
	runtime.Goexit()
}
