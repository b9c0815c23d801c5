package transport

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"

	"sidenote/proxy/transport/tcp"
)

// HeadPatience is how long a head may take to arrive while a server is nearly full.
const HeadPatience = 5 * time.Second

// A State is what a connection is doing.
type State int8

// States of connections. The first ones are the last to be closed.
const (
	Serving     State = iota // a request is being served
	ReadingHead              // the head of a request is incomplete
	Idle                     // no request is in progress
	Refused                  // idle, and the last request was refused
)

// A Conn is a connection in a Set.
type Conn interface {
	comparable
	// State returns the connection's state and, by tcp.Clock, since when.
	State() (State, time.Duration)
	// CloseUnused closes the connection if it is still in state, and reports whether it did.
	CloseUnused(state State) bool
}

// rescan is the least time between two searches of a full Set when nothing could be closed.
const rescan = 50 * time.Millisecond

// A Set holds the open connections of a server.
type Set[C Conn] struct {
	MaxConnections int        // maximum of open connections
	Addresses      *Addresses // counts connections by address; may be nil

	mu      sync.Mutex
	members map[C]*member
	closing int           // members that were closed to make room and have not ended yet
	again   time.Duration // by tcp.Clock: no search for connections to close before then
}

type member struct {
	addr    netip.Addr
	closing bool
}

// Add adds c, which Enter admitted from addr.
func (s *Set[C]) Add(c C, addr netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.members == nil {
		s.members = map[C]*member{}
	}
	s.members[c] = &member{addr: addr}
}

// Locate sets the address of c, which was added without one, and counts it like Enter.
func (s *Set[C]) Locate(c C, addr netip.Addr) (ok bool, closed int) {
	if ok, closed = s.Enter(addr); !ok {
		return false, closed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.members[c]; m != nil && !m.closing {
		m.addr = addr
	} else {
		s.Addresses.leave(addr)
	}
	return true, closed
}

// Remove removes c, which has ended.
func (s *Set[C]) Remove(c C) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[c]
	if m == nil {
		return
	}
	delete(s.members, c)
	if m.closing {
		s.closing--
	} else {
		s.Addresses.leave(m.addr)
	}
}

// Len returns the number of connections that have not ended.
func (s *Set[C]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members)
}

// All returns the connections that have not ended.
func (s *Set[C]) All() []C {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]C, 0, len(s.members))
	for c := range s.members {
		all = append(all, c)
	}
	return all
}

// Pressed reports whether the Set is three quarters full.
func (s *Set[C]) Pressed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open() >= s.MaxConnections-s.MaxConnections/4
}

// open returns how many connections are open.
func (s *Set[C]) open() int { return len(s.members) - s.closing }

// MakeRoom reports whether there is room for one more connection. If the Set is full it closes
// connections without a request: first those whose last request was refused, then idle ones, then
// those whose head has been incomplete for longer than HeadPatience; within each group the oldest
// first. It returns how many it closed.
func (s *Set[C]) MakeRoom() (ok bool, closed int) {
	s.mu.Lock()
	open := s.open()
	s.mu.Unlock()
	if open < s.MaxConnections {
		return true, 0
	}
	closed = s.Relieve()
	return closed > 0, closed
}

// Relieve closes some connections without a request, in the order of MakeRoom, and returns how
// many.
func (s *Set[C]) Relieve() (closed int) {
	s.mu.Lock()
	wait := tcp.Clock() < s.again
	s.mu.Unlock()
	if wait {
		return 0
	}
	// Closing several at a time saves a search for each.
	if closed = s.close(max(1, s.MaxConnections/64), func(*member) bool { return true }); closed == 0 {
		s.mu.Lock()
		s.again = tcp.Clock() + rescan
		s.mu.Unlock()
	}
	return closed
}

// Enter counts a connection from addr and reports whether it is admitted. If addr has its maximum,
// one of its connections without a request is closed to make room, in the order of MakeRoom. The
// zero Addr has no limit.
func (s *Set[C]) Enter(addr netip.Addr) (ok bool, closed int) {
	if s.Addresses.enter(addr) {
		return true, 0
	}
	network := networkOf(addr)
	closed = s.close(1, func(m *member) bool { return m.addr.IsValid() && networkOf(m.addr) == network })
	return closed > 0 && s.Addresses.enter(addr), closed
}

// close closes up to most connections without a request for which may returns true.
func (s *Set[C]) close(most int, may func(*member) bool) (closed int) {
	type candidate struct {
		conn  C
		state State
		since time.Duration
	}
	var candidates []candidate
	now := tcp.Clock()
	s.mu.Lock()
	for c, m := range s.members {
		if m.closing || !may(m) {
			continue
		}
		state, since := c.State()
		if state == Serving || state == ReadingHead && now-since < HeadPatience {
			continue
		}
		candidates = append(candidates, candidate{c, state, since})
	}
	s.mu.Unlock()
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(-cmp.Compare(a.state, b.state), cmp.Compare(a.since, b.since))
	})
	for _, c := range candidates {
		if closed == most {
			break
		}
		if !c.conn.CloseUnused(c.state) { // a request has begun
			continue
		}
		closed++
		s.mu.Lock()
		if m := s.members[c.conn]; m != nil {
			m.closing = true
			s.closing++
			s.Addresses.leave(m.addr)
		}
		s.mu.Unlock()
	}
	return closed
}

// Addresses counts the connections of several servers by client address. IPv6 addresses in the same
// /64 count as one, since a client usually has a whole /64. A nil Addresses counts nothing.
type Addresses struct {
	MaxConnections int            // maximum for one address
	Trusted        []netip.Prefix // proxies, which carry requests of many clients: not counted

	mu     sync.Mutex
	counts map[netip.Prefix]int
}

func networkOf(addr netip.Addr) netip.Prefix {
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	network, _ := addr.Prefix(bits) // cannot fail: bits is at most the address length
	return network
}

// exempt reports whether connections from addr are not counted.
func (a *Addresses) exempt(addr netip.Addr) bool {
	return a == nil || !addr.IsValid() || slices.ContainsFunc(a.Trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// enter counts a connection of addr, unless that has too many.
func (a *Addresses) enter(addr netip.Addr) bool {
	if a.exempt(addr) {
		return true
	}
	network := networkOf(addr)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts[network] >= a.MaxConnections {
		return false
	}
	if a.counts == nil {
		a.counts = map[netip.Prefix]int{}
	}
	a.counts[network]++
	return true
}

// leave undoes enter.
func (a *Addresses) leave(addr netip.Addr) {
	if a.exempt(addr) {
		return
	}
	network := networkOf(addr)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts[network]--; a.counts[network] <= 0 {
		delete(a.counts, network)
	}
}
