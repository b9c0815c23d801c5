package transport_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"sidenote/proxy/transport"
	"sidenote/proxy/transport/tcp"
)

// A conn has been in a state for some time. If it is busy, a request begins on it before it is
// closed.
type conn struct {
	name   string
	state  transport.State
	age    time.Duration
	busy   bool
	closed *[]string
}

func (c *conn) State() (transport.State, time.Duration) { return c.state, tcp.Clock() - c.age }

func (c *conn) CloseUnused(transport.State) bool {
	if !c.busy {
		*c.closed = append(*c.closed, c.name)
	}
	return !c.busy
}

// A full Set closes refused connections first, then idle ones, then those with a late head; within
// each group the oldest first. One that serves a request, or whose head is arriving, is not closed.
func TestSetClosesUnused(t *testing.T) {
	var closed []string
	s := transport.Set[*conn]{MaxConnections: 9}
	for _, c := range []conn{
		{name: "serving", state: transport.Serving, age: time.Hour},
		{name: "new head", state: transport.ReadingHead, age: transport.HeadPatience / 2},
		{name: "old head", state: transport.ReadingHead, age: 2 * transport.HeadPatience},
		{name: "older head", state: transport.ReadingHead, age: 3 * transport.HeadPatience},
		{name: "idle", state: transport.Idle, age: time.Second},
		{name: "begins", state: transport.Idle, age: time.Minute, busy: true},
		{name: "older idle", state: transport.Idle, age: 2 * time.Second},
		{name: "refused", state: transport.Refused, age: time.Millisecond},
		{name: "older refused", state: transport.Refused, age: 2 * time.Millisecond},
	} {
		c.closed = &closed
		s.Add(&c, netip.Addr{})
	}
	want := []string{"older refused", "refused", "older idle", "idle", "older head", "old head"}
	for i := range want {
		if ok, n := s.MakeRoom(); !ok || n != 1 {
			t.Fatalf("closed %q, then %d more", closed, n)
		}
		if ok, n := s.MakeRoom(); !ok || n != 0 { // there is room for one, though the closed one has not ended
			t.Fatalf("closed %d more", n)
		}
		s.Add(&conn{name: "served", state: transport.Serving, age: time.Duration(i)}, netip.Addr{})
	}
	if !slices.Equal(closed, want) {
		t.Errorf("closed %q, want %q", closed, want)
	}
	if ok, n := s.MakeRoom(); ok || n != 0 {
		t.Errorf("closed %q", closed)
	}
	for _, c := range s.All() {
		if c.name == "serving" || c.name == "old head" {
			s.Remove(c)
		}
	}
	if ok, _ := s.MakeRoom(); !ok || s.Len() != 13 {
		t.Errorf("%d connections; one has ended, and there is no room", s.Len())
	}
}

// Counts of addresses go down when their connections end, in whatever order these are closed.
func TestAddressesAreCounted(t *testing.T) {
	var closed []string
	a := &transport.Addresses{MaxConnections: 2}
	data, mcp := transport.Set[*conn]{MaxConnections: 100, Addresses: a}, transport.Set[*conn]{MaxConnections: 100, Addresses: a}
	addr, other := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8:0:1::1")
	enter := func(s *transport.Set[*conn], from netip.Addr, c *conn) bool {
		ok, _ := s.Enter(from)
		if ok {
			c.closed = &closed
			s.Add(c, from)
		}
		return ok
	}
	first, second := &conn{name: "first", state: transport.Serving}, &conn{name: "second", state: transport.Serving}
	if !enter(&data, addr, first) || !enter(&mcp, addr.Next(), second) {
		t.Fatal("refused")
	}
	if enter(&data, addr, &conn{}) || enter(&mcp, addr, &conn{}) {
		t.Error("one network has more than it may")
	}
	if !enter(&data, other, &conn{}) {
		t.Error("another network is refused")
	}
	if first.state = transport.Idle; enter(&mcp, addr, &conn{}) {
		t.Error("a connection of another server made room")
	}
	if !enter(&data, addr, &conn{name: "third", state: transport.Serving}) || !slices.Equal(closed, []string{"first"}) {
		t.Errorf("closed %q", closed)
	}
	data.Remove(first)
	if enter(&data, addr, &conn{}) {
		t.Error("a connection that was closed was counted twice")
	}
	mcp.Remove(second)
	if !enter(&data, addr, &conn{}) {
		t.Error("a connection that has ended is counted")
	}
}
