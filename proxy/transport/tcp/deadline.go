package tcp

import (
	"errors"
	"math"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// slack is the inverse of how much longer a wait may last than requested: up to 1/16. So a deadline
// set a moment ago can serve for the next piece, which saves setting one: that costs more than
// reading the Clock.
const slack = 16

// epoch is the time that Clock counts from.
var epoch = time.Now()

// Clock returns the time since epoch. It reads one of the system's clocks, where time.Now reads
// two.
func Clock() time.Duration { return time.Since(epoch) }

// A deadline is the one last set for one direction of a connection.
type deadline struct{ at atomic.Int64 } // a reading of Clock; 0: unknown

// serves reports whether d can stay for an operation that begins now and may take wait: it must end
// the operation between wait and a sixteenth later.
func (d *deadline) serves(now, wait time.Duration) bool {
	left := time.Duration(d.at.Load()) - now
	return !plain && left >= wait && left <= wait+wait/slack
}

// extend returns the deadline to set for an operation that may take wait. ok is false if the
// current deadline serves.
func (d *deadline) extend(wait time.Duration) (at time.Time, ok bool) {
	now := Clock()
	if d.serves(now, wait) {
		return at, false
	}
	until := now + wait + wait/slack
	d.at.Store(int64(until))
	return epoch.Add(until), true
}

// A Timed is a connection that sets a deadline only if the current one does not serve. It supports
// one reader and one writer at a time.
type Timed struct {
	net.Conn
	read, write deadline
}

// inner is for Of.
func (t *Timed) inner() net.Conn { return t.Conn }

// WaitRead gives the next Read that much time, see slack.
func (t *Timed) WaitRead(wait time.Duration) error {
	if at, ok := t.read.extend(wait); ok {
		return t.Conn.SetReadDeadline(at)
	}
	return nil
}

// WaitWrite gives the next Write that much time, see slack.
func (t *Timed) WaitWrite(wait time.Duration) error {
	if at, ok := t.write.extend(wait); ok {
		return t.Conn.SetWriteDeadline(at)
	}
	return nil
}

// A backlog reports how many written bytes have not arrived at the peer yet. known is false if the
// system cannot tell.
type backlog interface {
	Backlog() (unarrived int, known bool)
}

// WriteWithin writes p. It fails if the peer accepts nothing during a wait. The kernel frees its
// buffer in steps of up to a megabyte, so a Write may make no progress for long although a slow
// peer reads earlier data. Therefore the kernel is asked at each deadline how much has arrived. At
// the first deadline there is nothing to compare with, so a peer that accepts nothing gets two
// waits.
func (t *Timed) WriteWithin(p []byte, wait time.Duration) (n int, err error) {
	if waitBelow(t.Conn, wait) {
		return t.Conn.Write(p)
	}
	for before := math.MaxInt; ; {
		if err := t.WaitWrite(wait); err != nil {
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

// WaitBoth gives the next Write and the Read after it that much time together. now is a reading of
// Clock.
func (t *Timed) WaitBoth(now, wait time.Duration) error {
	if t.read.serves(now, wait) && t.write.serves(now, wait) {
		return nil
	}
	at := now + wait + wait/slack
	t.read.at.Store(int64(at))
	t.write.at.Store(int64(at))
	return t.Conn.SetDeadline(epoch.Add(at))
}

// SetDeadline implements net.Conn. The deadline is exact.
func (t *Timed) SetDeadline(at time.Time) error {
	t.read.at.Store(0)
	t.write.at.Store(0)
	return t.Conn.SetDeadline(at)
}

// SetReadDeadline implements net.Conn. The deadline is exact.
func (t *Timed) SetReadDeadline(at time.Time) error {
	t.read.at.Store(0)
	return t.Conn.SetReadDeadline(at)
}

// SetWriteDeadline implements net.Conn. The deadline is exact.
func (t *Timed) SetWriteDeadline(at time.Time) error {
	t.write.at.Store(0)
	return t.Conn.SetWriteDeadline(at)
}
