package proxy_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/proxy"
)

// Comments are written after one second and then every five seconds, until one fails or the work
// is done, and never after that.
func TestWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		for after, want := range map[int]int{0: 1, 2: 3, 99: 4} { // number of comments that succeed → number of comments written
			n := 0
			comment := func() error {
				if n++; n > after {
					return gone
				}
				return nil
			}
			err := proxy.WithHeartbeat(nil, time.Second, comment, func() { time.Sleep(20 * time.Second) })
			time.Sleep(time.Minute)
			if n != want || (err != nil) != (after < 4) {
				t.Errorf("%d comments, error %v; want %d", n, err, want)
			}
		}
		done := false
		if err := proxy.WithHeartbeat(nil, proxy.Heartbeat, nil, func() { done = true }); err != nil || !done {
			t.Error("nothing was done without comments")
		}
		panicked := 0
		heard := func(any, []byte) { panicked++ }
		if err := proxy.WithHeartbeat(heard, proxy.Heartbeat, func() error { return nil }, func() { panic("of what is done") }); err != nil || panicked != 1 {
			t.Errorf("%v, %d panics", err, panicked)
		}
	})
}
