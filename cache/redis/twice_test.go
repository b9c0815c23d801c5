package redis

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cache"
)

// A ledger call is repeated once, within its time, if it fails temporarily or has no answer; the
// first answer counts, however late it comes.
func TestTwice(t *testing.T) {
	const timeout, never = time.Second, time.Hour
	type try struct {
		takes time.Duration
		err   error
	}
	fails := func(kind Kind) error { return &failure{opScript, kind, errors.New("cause")} }
	skipped := errDown
	for name, c := range map[string]struct {
		tries []try
		took  time.Duration
		calls int
		want  error
	}{
		"at once":                    {[]try{{time.Millisecond, nil}}, time.Millisecond, 1, nil},
		"late":                       {[]try{{900 * time.Millisecond, nil}, {never, nil}}, 900 * time.Millisecond, 2, nil},
		"the first hangs":            {[]try{{never, nil}, {time.Millisecond, nil}}, 501 * time.Millisecond, 2, nil},
		"connection lost":            {[]try{{0, fails(Refused)}, {time.Millisecond, nil}}, 51 * time.Millisecond, 2, nil},
		"no connection":              {[]try{{500 * time.Millisecond, fails(Pool)}, {time.Millisecond, nil}}, 501 * time.Millisecond, 2, nil},
		"another becomes the master": {[]try{{0, fails(ReadOnly)}, {0, nil}}, 50 * time.Millisecond, 2, nil},
		"loading":                    {[]try{{0, fails(Busy)}, {0, fails(Busy)}}, 50 * time.Millisecond, 2, fails(Busy)},
		"hangs and is refused":       {[]try{{never, nil}, {0, fails(Refused)}}, timeout, 2, fails(Timeout)},
		"hangs":                      {[]try{{never, nil}, {never, nil}}, timeout, 2, fails(Timeout)},
		"no right":                   {[]try{{0, fails(Denied)}}, 0, 1, fails(Denied)},
		"full":                       {[]try{{0, fails(Memory)}}, 0, 1, fails(Memory)},
		"down":                       {[]try{{0, skipped}}, 0, 1, skipped},
		"down meanwhile":             {[]try{{0, fails(Refused)}, {0, skipped}}, 50 * time.Millisecond, 2, fails(Refused)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				start, tries := time.Now(), slices.Clone(c.tries)
				calls := make(chan struct{}, 3)
				next := make(chan try, len(tries))
				for _, x := range tries {
					next <- x
				}
				reply, err := twice(ctx, timeout/2, func() (any, error) {
					calls <- struct{}{}
					x := <-next
					select {
					case <-time.After(x.takes):
						return "reply", x.err
					case <-ctx.Done():
						return nil, fails(Timeout)
					}
				})
				if took := time.Since(start); took != c.took || len(calls) != c.calls {
					t.Errorf("%d calls in %v, want %d in %v", len(calls), took, c.calls, c.took)
				}
				if c.want == nil && (err != nil || reply != "reply") {
					t.Errorf("got %v, %v", reply, err)
				}
				if c.want != nil && (err == nil || err.Error() != c.want.Error() || errors.Is(err, cache.ErrSkipped) != errors.Is(c.want, cache.ErrSkipped)) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				cancel() // ends what is still in progress
			})
		})
	}
}
