package transport

import (
	"errors"
	"math"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// slack is the part of a wait by which it may be longer than was asked for, so
// that a deadline which was set a moment ago serves for the next piece as well: to
// set one costs more than to look at the clock.
const slack = 16

// epoch is what the clock of this package counts from.
var epoch = time.Now()

// clock is the time since epoch. It is one reading, where time.Now is two.
func clock() time.Duration { return time.Since(epoch) }

// A deadline is what one direction of a connection was last told.
type deadline struct{ at atomic.Int64 } // on clock; 0: not known

// serves reports whether it ends an operation that begins now after wait, or up to
// a sixteenth later.
func (d *deadline) serves(now, wait time.Duration) bool {
	left := time.Duration(d.at.Load()) - now
	return left >= wait && left <= wait+wait/slack
}

// extend returns what to tell a direction whose next operation may take wait; ok is
// false where the deadline that stands serves.
func (d *deadline) extend(wait time.Duration) (at time.Time, ok bool) {
	now := clock()
	if d.serves(now, wait) {
		return at, false
	}
	until := now + wait + wait/slack
	d.at.Store(int64(until))
	return epoch.Add(until), true
}

// A timed is a connection that sets a deadline only where the one that stands does
// not serve. Reading and writing may be on different goroutines.
type timed struct {
	net.Conn
	read, write deadline
}

// waitRead gives the next Read that long, see slack.
func (t *timed) waitRead(wait time.Duration) error {
	if at, ok := t.read.extend(wait); ok {
		return t.Conn.SetReadDeadline(at)
	}
	return nil
}

// waitWrite gives the next Write that long, see slack.
func (t *timed) waitWrite(wait time.Duration) error {
	if at, ok := t.write.extend(wait); ok {
		return t.Conn.SetWriteDeadline(at)
	}
	return nil
}

// A backlog tells how many bytes that were written have not arrived yet. known is
// false where the system does not say.
type backlog interface {
	Backlog() (unarrived int, known bool)
}

// writeWithin writes p to a peer that takes some of it in each wait. The kernel makes
// room in steps of up to a megabyte, so that a Write may get nowhere for long while a
// slow reader takes what was written before: at the deadline, and never before it, the
// kernel is asked. The first time there is nothing to compare with, so a peer that
// takes nothing has two waits.
func (t *timed) writeWithin(p []byte, wait time.Duration) (n int, err error) {
	for before := math.MaxInt; ; {
		if err := t.waitWrite(wait); err != nil {
			return n, err
		}
		more, err := t.Conn.Write(p[n:])
		n += more
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		now, known := arriving(t.Conn)
		if now += len(p) - n; !known || now >= before {
			return n, err
		}
		before = now
	}
}

// arriving returns the backlog of conn.
func arriving(conn net.Conn) (int, bool) {
	if b, ok := conn.(backlog); ok {
		return b.Backlog()
	}
	return 0, false
}

// waitBoth gives the next Write and the Read after it that long together, from now
// on, which is on clock.
func (t *timed) waitBoth(now, wait time.Duration) error {
	if t.read.serves(now, wait) && t.write.serves(now, wait) {
		return nil
	}
	at := now + wait + wait/slack
	t.read.at.Store(int64(at))
	t.write.at.Store(int64(at))
	return t.Conn.SetDeadline(epoch.Add(at))
}

// SetDeadline implements net.Conn. The deadline is exact.
func (t *timed) SetDeadline(at time.Time) error {
	t.read.at.Store(0)
	t.write.at.Store(0)
	return t.Conn.SetDeadline(at)
}

// SetReadDeadline implements net.Conn. The deadline is exact.
func (t *timed) SetReadDeadline(at time.Time) error {
	t.read.at.Store(0)
	return t.Conn.SetReadDeadline(at)
}

// SetWriteDeadline implements net.Conn. The deadline is exact.
func (t *timed) SetWriteDeadline(at time.Time) error {
	t.write.at.Store(0)
	return t.Conn.SetWriteDeadline(at)
}
