package folder

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A stage is a follower without files, in a synctest bubble.
type stage struct {
	follower
	start time.Time
	wakes chan struct{}
	maybe bool          // what take returns: only the digest knows
	sum   atomic.Uint64 // the digest
	took  time.Duration // duration of a look
	looks int
	calls []time.Duration // when changed was called, since start
	runs  time.Duration   // how long changed takes
	moves int             // number of the call that returns true
}

// play follows during script and returns when changed was called, except the first time, which is
// immediate.
func play(t *testing.T, s *stage, script func(s *stage)) []time.Duration {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.start, s.wakes = time.Now(), make(chan struct{}, 1)
		s.follower = follower{
			debounce: debounce{quiet: 300 * time.Millisecond, most: 5 * time.Second}, poll: 30 * time.Second, wake: s.wakes,
			take: func() (sure, maybe bool) { return !s.maybe, s.maybe },
			look: func() uint64 { s.looks++; <-time.After(s.took); return s.sum.Load() },
			changed: func() (again bool) {
				s.calls = append(s.calls, time.Since(s.start))
				<-time.After(s.runs)
				return len(s.calls) == s.moves
			},
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.run(ctx) }()
		synctest.Wait()
		script(s)
		stop()
		<-ended
	})
	if len(s.calls) == 0 || s.calls[0] != s.took {
		t.Fatalf("calls %v: the first one was not at once", s.calls)
	}
	return s.calls[1:]
}

func (s *stage) after(d time.Duration) { <-time.After(d); synctest.Wait() }

func (s *stage) event() { s.wakes <- struct{}{}; synctest.Wait() }

func want(t *testing.T, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("called at %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("called at %v, want %v", got, want)
		}
	}
}

func TestBurstIsOneCall(t *testing.T) {
	got := play(t, &stage{}, func(s *stage) {
		s.after(time.Second)
		for range 10 {
			s.event()
			s.after(100 * time.Millisecond)
		}
		s.after(time.Minute)
	})
	want(t, got, 2200*time.Millisecond) // 300 ms after the last event
}

func TestSteadyWritesAreFollowed(t *testing.T) {
	got := play(t, &stage{}, func(s *stage) {
		for range 120 { // for 12 s
			s.event()
			s.after(100 * time.Millisecond)
		}
		s.after(time.Minute)
	})
	// The second burst begins with the first event after the call.
	want(t, got, 5*time.Second, 10*time.Second, 12200*time.Millisecond)
}

func TestEventsDuringCall(t *testing.T) {
	got := play(t, &stage{runs: 10 * time.Second}, func(s *stage) {
		s.after(time.Second)
		s.event() // while the first call runs
		s.after(time.Second)
		s.event()
		s.after(time.Minute)
	})
	want(t, got, 10*time.Second) // one more, as soon as the first one returns
}

// After a call that returns true, everything is looked at once more, and changed is called again
// only if the digest has changed.
func TestMovingCallIsFollowedByALook(t *testing.T) {
	for _, sees := range []bool{false, true} {
		s := &stage{moves: 2, runs: time.Second}
		got := play(t, s, func(s *stage) {
			s.after(2 * time.Second)
			s.event()
			s.after(500 * time.Millisecond)
			if sees {
				s.sum.Store(1)
			}
			s.after(10 * time.Second)
		})
		if s.looks != 3 {
			t.Errorf("%d looks", s.looks)
		}
		if sees {
			want(t, got, 2300*time.Millisecond, 3600*time.Millisecond)
		} else {
			want(t, got, 2300*time.Millisecond)
		}
	}
}

func TestEndWaitsForCall(t *testing.T) {
	s := &stage{runs: time.Hour}
	play(t, s, func(*stage) {}) // otherwise a race
	if len(s.calls) != 1 {
		t.Errorf("calls %v", s.calls)
	}
}

func TestDoubtIsForTheDigest(t *testing.T) {
	got := play(t, &stage{maybe: true}, func(s *stage) {
		s.event()
		s.after(time.Second) // nothing had changed
		s.sum.Store(1)
		s.event()
		s.after(time.Second)
	})
	want(t, got, 1300*time.Millisecond)
}

func TestPollFindsWhatNobodyTells(t *testing.T) {
	s := &stage{}
	got := play(t, s, func(s *stage) {
		s.after(65 * time.Second)
		s.sum.Store(1)
		s.after(65 * time.Second)
	})
	want(t, got, 90300*time.Millisecond)
	if s.looks > 6 { // at 0, 30, 60, 90, 90.3 and 120.3 s
		t.Errorf("%d looks", s.looks)
	}
}

// A change that is reverted before it is reported is none.
func TestPollFlicker(t *testing.T) {
	got := play(t, &stage{}, func(s *stage) {
		s.sum.Store(1)
		s.after(30*time.Second + 100*time.Millisecond)
		s.sum.Store(0)
		s.after(time.Minute)
	})
	want(t, got)
}

// If looks take long, they are rare.
func TestPollShare(t *testing.T) {
	s := &stage{took: 6 * time.Second}
	play(t, s, func(s *stage) { s.after(10 * time.Minute) })
	if s.looks < 4 || s.looks > 6 {
		t.Errorf("%d looks in 10 minutes, want one in two", s.looks)
	}
}
