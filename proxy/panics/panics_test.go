package panics_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/proxy/panics"
)

// A panic ends in the handler, which gets the stack of the panic; the clean-up runs after
// that.
func TestM28Recovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []string
		h := panics.Handler(func(value any, stack []byte) {
			if !strings.Contains(string(stack), "panics_test.go") {
				t.Errorf("%v without its stack: %s", value, stack)
			}
			heard = append(heard, value.(string))
		})
		over := make(chan struct{})
		panics.Go(h, func() { panic("goroutine") }, func() { close(over) })
		<-over
		panics.AfterFunc(h, time.Hour, func() { panic("timer") })
		panics.AfterFunc(h, time.Hour, func() { panic("stopped") }).Stop()
		<-time.After(2 * time.Hour) // in synctest's time
		synctest.Wait()
		func() {
			defer panics.Recover(h, func() { heard = append(heard, "then") })
			panic("here")
		}()
		if got := strings.Join(heard, " "); got != "goroutine timer here then" {
			t.Errorf("heard of %s", got)
		}
	})
}

// A Handler may be nil, and without a panic nothing is called.
func TestM28NobodyListens(t *testing.T) {
	over := make(chan struct{})
	panics.Go(nil, func() { panic("unheard") }, func() { close(over) })
	<-over
	panics.Go(nil, func() {}, nil)
	func() {
		defer panics.Recover(nil, func() { t.Error("called without a panic") })
	}()
}
