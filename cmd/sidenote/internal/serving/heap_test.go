package serving

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestPercent(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[uint64]int{
		0: 300, 1: 300, 12 * mib: 300, 32 * mib: 300, 40 * mib: 220, 64 * mib: 100, 80 * mib: 60, 100 * mib: 28, 112 * mib: 20, 128 * mib: 20, 4 << 30: 20, 1 << 63: 20,
	} {
		if got := percent(live); got != want {
			t.Errorf("%d MiB live: %d %%, want %d", live/mib, got, want)
		}
	}
}

// After a collection the pace follows the live heap.
func TestPace(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	told := make(chan int, 100)
	Pace(func(percent int) {
		select {
		case told <- percent:
		default: // later ones are not needed
		}
	})
	after := func(what string, as func(percent int) bool) {
		t.Helper()
		for range 20 { // one may be in progress that began before
			runtime.GC()
			if as(<-told) {
				return
			}
		}
		t.Errorf("%s: the pace is never right", what)
	}
	after("little is live", func(percent int) bool { return percent == most })
	full := make([]byte, 80<<20)
	after("80 MiB are live", func(percent int) bool { return percent >= least && percent <= 60 })
	runtime.KeepAlive(full)
	full = nil
	after("little is live again", func(percent int) bool { return percent == most })
}
