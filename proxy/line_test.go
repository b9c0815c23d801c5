package proxy_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/proxy"
	"sidenote/rewrite"
)

// A line written directly is the one that slog's JSON handler writes, but for
// its time.
func TestLineIsSlogs(t *testing.T) {
	odd := injectedReport()
	odd.Tenant, odd.Policy, odd.Upstream = "a\"b\\c\n", "</é\u2028>&", "\xff"
	odd.Overhead, odd.TTFB, odd.Total = time.Nanosecond, 10*time.Minute, 1234567*time.Microsecond
	odd.Rewrite.Ledger.Exactness = rewrite.Bound
	for _, r := range []*proxy.Report{injectedReport(), {}, odd} {
		var direct, through bytes.Buffer
		lines := &proxy.Log{Lines: &direct}
		slogs := &proxy.Log{Logger: slog.New(slog.NewJSONHandler(&through, nil))}
		lines.Record(r)
		slogs.Record(r)
		if diff := cmp.Diff(fields(t, through.Bytes()), fields(t, direct.Bytes())); diff != "" {
			t.Errorf("(-slog +direct):\n%s", diff)
		}
		if got, want := timeless(direct.Bytes()), timeless(through.Bytes()); !bytes.Equal(got, want) {
			t.Errorf("order or form differ\ngot  %s\nwant %s", got, want)
		}
	}
}

func fields(t *testing.T, line []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if _, err := time.Parse(time.RFC3339Nano, m["time"].(string)); err != nil {
		t.Error(err)
	}
	delete(m, "time")
	return m
}

// timeless cuts the first member, the time.
func timeless(line []byte) []byte {
	_, rest, _ := bytes.Cut(line, []byte(`,"`))
	return rest
}

func BenchmarkLine(b *testing.B) {
	r := injectedReport()
	for name, l := range map[string]*proxy.Log{
		"direct": {Lines: discard{}}, "slog": {Logger: slog.New(slog.NewJSONHandler(discard{}, nil))},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.Record(r)
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
