package mcp

import (
	"crypto/rand"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxSessions is the maximum number of sessions. One more ends the least recently used session of
// the tenant with the most sessions.
const maxSessions = 1024

// sessionIdle is how long a session without requests lives.
const sessionIdle = time.Hour

// sessions holds the sessions of clients and their tenants. Clients of protocol 2026-07-28 and
// later have none.
type sessions struct {
	make func(newID func() string) *sdk.Server

	mu      sync.Mutex
	servers map[string]*sdk.Server // by tenant
	all     map[string]session     // by id; may include ended sessions
}

type session struct {
	tenant string
	used   time.Time // time of the last request
}

func newSessions(server func(newID func() string) *sdk.Server) *sessions {
	return &sessions{make: server, servers: map[string]*sdk.Server{}, all: map[string]session{}}
}

// of returns the server of a tenant.
func (s *sessions) of(tenant string) *sdk.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.servers[tenant] == nil {
		s.servers[tenant] = s.make(func() string { return s.open(tenant, time.Now()) })
	}
	return s.servers[tenant]
}

// open creates a session of a tenant and returns its id.
func (s *sessions) open(tenant string, now time.Time) string {
	id := rand.Text()
	s.mu.Lock()
	var ended *sdk.ServerSession
	if len(s.all) >= maxSessions {
		ended = s.makeRoom(now)
	}
	s.all[id] = session{tenant, now}
	s.mu.Unlock()
	if ended != nil {
		_ = ended.Close() // waits for running calls
	}
	return id
}

// use reports whether a session belongs to a tenant, and marks it as used.
func (s *sessions) use(id, tenant string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one, ok := s.all[id]; !ok || one.tenant != tenant {
		return false
	}
	s.all[id] = session{tenant, now}
	return true
}

// makeRoom forgets ended sessions. If none has ended, it forgets an open one and returns it. The
// caller must hold s.mu.
func (s *sessions) makeRoom(now time.Time) *sdk.ServerSession {
	open, count := s.connected(), map[string]int{}
	for id, one := range s.all {
		// A session made just now may not be connected yet.
		if open[id] == nil && now.Sub(one.used) > time.Second {
			delete(s.all, id)
			continue
		}
		count[one.tenant]++
	}
	if len(s.all) < maxSessions {
		return nil
	}
	victim := ""
	for id, one := range s.all {
		than := s.all[victim]
		if more := count[one.tenant] - count[than.tenant]; victim == "" || more > 0 || more == 0 && one.used.Before(than.used) {
			victim = id
		}
	}
	delete(s.all, victim)
	return open[victim]
}

// connected returns the open sessions by id. The caller must hold s.mu.
func (s *sessions) connected() map[string]*sdk.ServerSession {
	all := map[string]*sdk.ServerSession{}
	for _, server := range s.servers {
		for one := range server.Sessions() {
			if id := one.ID(); id != "" { // "" for a single request
				all[id] = one
			}
		}
	}
	return all
}

// count returns the number of open sessions.
func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.connected())
}

// close ends all sessions.
func (s *sessions) close() {
	s.mu.Lock()
	all := s.connected()
	clear(s.all)
	s.mu.Unlock()
	for _, one := range all {
		_ = one.Close()
	}
}
