package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"sidenote/proxy/report"
)

// Ids are ULIDs of their time, sort by it, and have varying random bits.
func TestNewID(t *testing.T) {
	now := time.UnixMilli(1<<40 + 123)
	var last, or ulid.ULID
	and := ulid.ULID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	for range 1000 {
		id, err := ulid.ParseStrict(report.NewID(now))
		if err != nil {
			t.Fatal(err)
		}
		if !id.Timestamp().Equal(now) || id.Compare(last) <= 0 {
			t.Fatalf("%v of %v after %v", id, now, last)
		}
		for i, b := range id {
			or[i], and[i] = or[i]|b, and[i]&b
		}
		last, now = id, now.Add(time.Millisecond)
	}
	for i := 6; i < len(or); i++ { // probability that all 1,000 values of a bit are equal: 1 in 2^992
		if or[i] != 0xff || and[i] != 0 {
			t.Errorf("byte %d: bits set in some ids %08b, in all %08b", i, or[i], and[i])
		}
	}
}

// Ids of strangers are short and printable, or ignored.
func TestRequestIDsAreBounded(t *testing.T) {
	f := func(header string, kept bool) {
		t.Helper()
		if got := report.ReadRequestID([]byte(header)); got != "" && got != header || kept != (got == header) {
			t.Errorf("%q: got %q", header, got)
		}
	}
	f("2f1c7a52-7f4e-4c1d-9a11-6a0d4c1e8f10", true)
	f(strings.Repeat("x", 128), true)
	f(strings.Repeat("x", 129), false)
	f("a\"b", false)
	f("a\nb", false)
	f("\xff", false)
	f("", true)
}
