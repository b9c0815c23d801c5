package report_test

import (
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
