package transport

import (
	"sync/atomic"
	"time"
)

// beforeWatch is how long an answer may take before anybody looks for the
// client's hang-up. Most answers that take less are whole before a client could
// leave, and to begin and end a watch costs more than a relay's system call.
const beforeWatch = 2 * time.Millisecond

// A patience is the timer of a client's connection that begins the watch of its
// exchanges, which come one after another.
//
// The timer may fire for an exchange and run when that is over. Then it finds none;
// or the same, which knows that it is not watched any more; or the next, whose watch
// merely begins early. A watch that has begun is of the exchange that began it, so
// one client's leaving never ends the request of another.
type patience struct {
	exchange atomic.Pointer[exchange] // the one that is watched
	timer    *time.Timer              // nil before the first
}

func (p *patience) begin(x *exchange) {
	p.exchange.Store(x)
	if p.timer == nil {
		p.timer = time.AfterFunc(beforeWatch, p.over)
	} else {
		p.timer.Reset(beforeWatch)
	}
}

func (p *patience) end() {
	p.exchange.Store(nil)
	p.timer.Stop()
}

// over runs when the time is.
func (p *patience) over() {
	if x := p.exchange.Load(); x != nil {
		x.beginWatch()
	}
}
