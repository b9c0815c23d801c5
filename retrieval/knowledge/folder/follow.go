package folder

import (
	"context"
	"time"
)

// A debounce determines when a burst of events is over.
type debounce struct {
	quiet, most time.Duration
	first, last time.Time // time of the first and last event of the burst; zero if there is none
}

func (d *debounce) touch(now time.Time) {
	if d.first.IsZero() {
		d.first = now
	}
	d.last = now
}

func (d *debounce) clear() { d.first, d.last = time.Time{}, time.Time{} }

// wait returns the time left until the burst is over or has lasted too long.
func (d *debounce) wait(now time.Time) (left time.Duration, burst bool) {
	if d.first.IsZero() {
		return 0, false
	}
	return min(d.last.Add(d.quiet).Sub(now), d.first.Add(d.most).Sub(now)), true
}

// pollShare limits the cost of polling: a look may take 1/pollShare of the time.
const pollShare = 20

// A follower calls changed after changes. It does not access files itself.
type follower struct {
	debounce debounce
	poll     time.Duration
	wake     <-chan struct{}           // receives when there is something to take
	take     func() (sure, maybe bool) // reports whether there was a change
	look     func() (digest uint64)
	changed  func() (again bool)

	sure   bool          // a change is certain, whatever the digest
	told   uint64        // the digest at the last call of changed
	done   chan struct{} // closed when the running call returns; nil if none is running
	again  bool          // the result of the call, once done is closed
	polled *time.Timer
}

// run follows changes until ctx ends.
func (f *follower) run(ctx context.Context) {
	f.polled = time.NewTimer(f.poll)
	defer f.polled.Stop()
	ready := time.NewTimer(0)
	defer ready.Stop()
	f.sure = true
	f.call(ctx)
	for {
		select {
		case <-ctx.Done():
			if f.done != nil {
				<-f.done
			}
			return
		case <-f.done:
			f.done = nil
			if f.again {
				f.debounce.touch(time.Now())
			}
		case <-ready.C:
		case <-f.wake:
			sure, maybe := f.take()
			f.sure = f.sure || sure
			if sure || maybe {
				f.debounce.touch(time.Now())
			}
		case <-f.polled.C:
			if f.timed() != f.told {
				f.debounce.touch(time.Now())
			}
		}
		ready.Stop()
		if left, burst := f.debounce.wait(time.Now()); burst && f.done == nil { // else this is reached again when the call returns
			if left > 0 {
				ready.Reset(left)
				continue
			}
			f.debounce.clear()
			f.call(ctx)
		}
	}
}

// call calls changed if something has changed. It calls look first, which also adds missing
// watches, so that every later change leads to another call.
func (f *follower) call(ctx context.Context) {
	digest := f.timed()
	if ctx.Err() != nil || !f.sure && digest == f.told {
		return
	}
	f.told, f.sure = digest, false
	done := make(chan struct{})
	f.done = done
	go func() { defer close(done); f.again = f.changed() }()
}

// timed calls look, and delays the next poll in proportion to the time it took.
func (f *follower) timed() uint64 {
	start := time.Now()
	digest := f.look()
	f.polled.Reset(max(f.poll, pollShare*time.Since(start)))
	return digest
}
