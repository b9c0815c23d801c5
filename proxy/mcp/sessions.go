package mcp

import (
	"crypto/rand"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxSessions is how many sessions there are at once. One more ends another, that was used
// longest ago of the tenant that has the most.
const maxSessions = 1024

// sessionIdle is how long a session without a request lives.
const sessionIdle = time.Hour

// sessions are those that clients have open, and whose they are. Clients of protocol 2026-07-28
// and later have none.
type sessions struct {
	make func(newID func() string) *sdk.Server

	mu      sync.Mutex
	servers map[string]*sdk.Server // by tenant
	all     map[string]session     // by id; some have ended
}

type session struct {
	tenant string
	used   time.Time // last
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

// open returns the id of a new session of a tenant.
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
		_ = ended.Close() // it waits for calls that are running
	}
	return id
}

// use tells whether a session is a tenant's, and notes that it is used.
func (s *sessions) use(id, tenant string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one, ok := s.all[id]; !ok || one.tenant != tenant {
		return false
	}
	s.all[id] = session{tenant, now}
	return true
}

// makeRoom forgets sessions that have ended. If there is none, it forgets one that has not, and
// returns that. The caller has s.mu.
func (s *sessions) makeRoom(now time.Time) *sdk.ServerSession {
	open, count := s.connected(), map[string]int{}
	for id, one := range s.all {
		// One that was made just now may not be connected yet.
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

// connected are the open sessions by id. The caller has s.mu.
func (s *sessions) connected() map[string]*sdk.ServerSession {
	all := map[string]*sdk.ServerSession{}
	for _, server := range s.servers {
		for one := range server.Sessions() {
			if id := one.ID(); id != "" { // else it is of one request
				all[id] = one
			}
		}
	}
	return all
}

// count returns how many sessions are open.
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
