package tcp_test

import (
	"net"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sidenote/proxy/transport/tcp"
)

// A told connection records the deadlines that are set.
type told struct {
	net.Conn
	read, write time.Time
	times       int
}

func (c *told) SetReadDeadline(t time.Time) error  { c.read = t; c.times++; return nil }
func (c *told) SetWriteDeadline(t time.Time) error { c.write = t; c.times++; return nil }
func (c *told) SetDeadline(t time.Time) error      { c.read, c.write = t, t; c.times++; return nil }

// Whatever deadline was set before, a wait ends no earlier than requested and at most a sixteenth
// later.
func TestDeadlinesHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := new(told)
		conn, read, write, both := timed(c)
		waits := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Minute + time.Second, time.Hour})
		holds := func(name string, before time.Time, wait time.Duration, deadline time.Time) {
			if deadline.Before(before.Add(wait)) || deadline.After(time.Now().Add(wait+wait/16)) {
				t.Fatalf("%s for %v: deadline in %v", name, wait, deadline.Sub(before))
			}
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			wait, before := waits.Draw(t, "wait"), time.Now()
			var err error
			switch step := rapid.SampledFrom([]string{"read", "write", "both", "set read", "set write", "set"}).Draw(t, "step"); step {
			case "read":
				err = read(wait)
				holds(step, before, wait, c.read)
			case "write":
				err = write(wait)
				holds(step, before, wait, c.write)
			case "both":
				err = both(wait)
				holds(step, before, wait, c.read)
				holds(step, before, wait, c.write)
			case "set read":
				err = conn.SetReadDeadline(time.Time{})
			case "set write":
				err = conn.SetWriteDeadline(time.Unix(1, 0))
			case "set":
				err = conn.SetDeadline(before.Add(wait))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A deadline that serves is not set again, which is the purpose of Timed.
func TestDeadlinesAreSetOnce(t *testing.T) {
	c := new(told)
	_, read, write, both := timed(c)
	for range 1000 {
		for _, wait := range []func(time.Duration) error{both, read, write} {
			if err := wait(24 * time.Hour); err != nil {
				t.Fatal(err)
			}
		}
	}
	if c.times != 1 {
		t.Errorf("set %d times, want once", c.times)
	}
}

// timed returns c as a Timed, and its methods that set deadlines.
func timed(c net.Conn) (_ net.Conn, read, write, both func(time.Duration) error) {
	t := &tcp.Timed{Conn: c}
	return t, t.WaitRead, t.WaitWrite, func(wait time.Duration) error { return t.WaitBoth(tcp.Clock(), wait) }
}
