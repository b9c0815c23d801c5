package remote

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

type hanging struct{}

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// Calls that hang, wait or are turned away leave no place taken when they have ended.
func TestPlacesAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{BaseURL: "http://api.test", Probe: func(context.Context) error { return errors.New("down") }})
		c.HTTP.Transport = hanging{}
		defer c.Close()
		busy := make(chan error, 2*MaxWaiting)
		for range 2 * MaxWaiting {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				_, err := c.Call(ctx, http.MethodGet, "/x", nil)
				busy <- err
			}()
		}
		turnedAway := 0
		for range 2 * MaxWaiting {
			if errors.Is(<-busy, ErrBusy) {
				turnedAway++
			}
		}
		if turnedAway == 0 || !c.Skips() || len(c.guard.calls) > 0 || len(c.guard.waiting) > 0 {
			t.Errorf("%d turned away, skips %v, %d calls and %d waiting are left", turnedAway, c.Skips(), len(c.guard.calls), len(c.guard.waiting))
		}
	})
}
