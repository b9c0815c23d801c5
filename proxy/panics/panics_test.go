package panics_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/proxy/panics"
)

// A panic is passed to the handler with its stack; the clean-up runs afterwards.
func TestRecovered(t *testing.T) {
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
func TestNobodyListens(t *testing.T) {
	over := make(chan struct{})
	panics.Go(nil, func() { panic("unheard") }, func() { close(over) })
	<-over
	panics.Go(nil, func() {}, nil)
	func() {
		defer panics.Recover(nil, func() { t.Error("called without a panic") })
	}()
}

// T28: of a panic's value only the type is shown, or the message of a runtime error.
func TestT28Shown(t *testing.T) {
	const key = "sk-canary"
	runtimeError := func() (value any) {
		defer func() { value = recover() }()
		var list []string
		return list[len(key)]
	}()
	for want, value := range map[string]any{
		"runtime error: index out of range [9] with length 0": runtimeError,
		"string, not shown":              "BUG: " + key,
		"*errors.errorString, not shown": errors.New(key),
		"*fmt.wrapError, not shown":      fmt.Errorf("%s: %w", key, runtimeError.(error)),
		"map[string]string, not shown":   map[string]string{key: key},
	} {
		if got := panics.Describe(value); !strings.HasPrefix(got, want) || strings.Contains(got, key) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
