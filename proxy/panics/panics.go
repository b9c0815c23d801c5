// Package panics starts the goroutines and timers that serve requests. A panic in one of
// them ends its own work and not the process.
package panics

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// A Handler is called for each panic that was recovered. It must be safe for concurrent
// use. It may be nil.
type Handler func(value any, stack []byte)

// Shown returns what may be logged of the value of a panic: the message of a Go runtime error,
// which holds only numbers and types, else the type. Other messages may hold request data, even
// keys. The stack shows the origin and has no text of arguments.
func Shown(value any) string {
	if e, ok := value.(runtime.Error); ok {
		return e.Error()
	}
	return fmt.Sprintf("%T, not shown as it may hold what a request held", value)
}

// Go calls f in a goroutine of its own and recovers its panic. At the end it calls over,
// unless that is nil, and before that h if f has panicked.
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

// AfterFunc is time.AfterFunc, but recovers a panic of f.
func AfterFunc(h Handler, wait time.Duration, f func()) *time.Timer {
	return time.AfterFunc(wait, func() {
		defer Recover(h, nil)
		f()
	})
}

// AfterEnd is context.AfterFunc, but recovers a panic of f.
func AfterEnd(ctx context.Context, h Handler, f func()) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		defer Recover(h, nil)
		f()
	})
}

// Recover must be called directly by a defer statement. If there is a panic it ends it,
// calls h, and then calls then, unless that is nil, to clean up after the panic.
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
