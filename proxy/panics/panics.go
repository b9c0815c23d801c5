// Package panics starts the goroutines and timers of what serves requests, such that
// a bug in one of them ends the work that met it and not the process.
package panics

import (
	"runtime/debug"
	"time"
)

// A Handler hears of each panic that was recovered. It is safe for concurrent use;
// nil hears of none.
type Handler func(value any, stack []byte)

// Go calls f in a goroutine of its own and recovers its panic. In the end over is
// called, unless it is nil; by then h has heard of the panic.
func Go(h Handler, f, over func()) {
	go func() {
		if over != nil {
			defer over()
		}
		defer Recover(h, nil)
		f()
	}()
}

// AfterFunc is time.AfterFunc with f's panic recovered.
func AfterFunc(h Handler, wait time.Duration, f func()) *time.Timer {
	return time.AfterFunc(wait, func() {
		defer Recover(h, nil)
		f()
	})
}

// Recover is for a defer statement of its own. It ends a panic: h hears of it, and
// then is called, unless it is nil, to end what the panic has left open.
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
