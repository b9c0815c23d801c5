// Package panics starts goroutines and timers for requests. A panic in one of them ends its own
// work but not the process.
package panics

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// A Handler is called for each recovered panic. It must be safe for concurrent use; it may be nil.
type Handler func(value any, stack []byte)

// Describe returns what may be logged about the value of a panic: the message of a Go runtime
// error, which contains only numbers and types, else the type. Other messages may contain request
// data, even keys. The stack shows the origin without the text of arguments.
func Describe(value any) string {
	if e, ok := value.(runtime.Error); ok {
		return e.Error()
	}
	return fmt.Sprintf("%T, not shown as it may hold what a request held", value)
}

// Go calls f in a new goroutine and recovers its panic. If f panics, it calls h; at the end it
// calls over, if not nil.
func Go(h Handler, f, over func()) {
	go func() {
		if over != nil {
			defer over()
		}
		defer Recover(h, nil)
		f()
	}()
}

// Guard calls f and recovers its panic.
func Guard(h Handler, f func()) {
	defer Recover(h, nil)
	f()
}

// AfterFunc is like time.AfterFunc, but recovers a panic of f.
func AfterFunc(h Handler, wait time.Duration, f func()) *time.Timer {
	return time.AfterFunc(wait, func() {
		defer Recover(h, nil)
		f()
	})
}

// AfterEnd is like context.AfterFunc, but recovers a panic of f.
func AfterEnd(ctx context.Context, h Handler, f func()) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		defer Recover(h, nil)
		f()
	})
}

// Recover must be called directly by a defer statement. If there is a panic, it recovers it, calls
// h, and then calls then, if not nil, to clean up.
func Recover(h Handler, then func()) {
	value := recover()
	if value == nil {
		return
	}
	if h != nil {
		h(value, debug.Stack())
	}
	if then != nil {
		then()
	}
}
