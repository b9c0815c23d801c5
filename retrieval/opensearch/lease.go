package opensearch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"sidenote/retrieval/engine"
)

// A lease is a part of the state document, which is changed by scripts that check it: the check and the
// change are one operation, and ctx._now is the server's clock. A token that grows with each lease
// says whose it is.
//
// A writer that is stopped in the middle of a request and continues after another one took the base
// over can still send that request. Each write of a document's record is conditional, so it is
// refused if the other writer touched the document; what remains are chunks without a
// record, which Commit finds by their number (see commit.go).

// acquireScript takes a lease that has ended. The number of the next generation grows, so that two
// writers never write the same ids.
const acquireScript = `
def s = ctx._source;
s.now = ctx._now;
if (s.schema == params.schema && (s.lease == null || s.lease.until <= ctx._now || s.lease.id == params.id)) {
  s.token = s.token + 1;
  s.next = (s.next > s.current ? s.next : s.current) + 1;
  s.lease = ['owner': params.owner, 'id': params.id, 'since': ctx._now, 'until': ctx._now + params.ttl];
}`

// holdScript renews a lease and changes fields of the state, if the lease is still the caller's.
const holdScript = `
def s = ctx._source;
if (s.token == params.token && s.lease != null) {
  s.now = ctx._now;
  for (def e : params.set.entrySet()) { s[e.getKey()] = e.getValue(); }
  s.lease.until = ctx._now + params.ttl;
  if (params.set.containsKey('current')) {
    if (s.history == null) { s.history = []; }
    s.history.add(['number': params.set.current, 'at': ctx._now]);
    while (s.history.size() > params.history) { s.history.remove(0); }
  }
  if (params.release) { s.lease = null; }
} else { ctx.op = 'none'; }`

// mostHistory is how many generations the state remembers the time of. Clean removes nothing that
// ended in an earlier one before the oldest of them is older than grace.
const mostHistory = 100

// A lease implements engine.Lease. Its methods are called one at a time, except Renew.
type lease struct {
	server  *Server
	dialect dialect
	base    string
	token   int64
	ttl     time.Duration

	state  state           // as of the start of the method that runs
	torn   bool            // a Put may have written only a part; see recover
	fields map[int]bool    // dimensions whose field exists
	fresh  map[string]bool // keys of vectors that were put since the last refresh

	mu      sync.Mutex
	renewed time.Time // when the last renewal was sent
}

// Acquire makes the caller the only writer of a base.
func (s *Server) Acquire(ctx context.Context, base, owner string, ttl time.Duration) (engine.Lease, error) {
	if err := s.own(base); err != nil {
		return nil, err
	}
	d, err := s.kind(ctx)
	if err != nil {
		return nil, err
	}
	id := rand.Text()
	st, err := s.change(ctx, base, acquireScript, object{"schema": schema, "owner": owner, "id": id, "ttl": ttl.Milliseconds()}, false)
	if missing(err) {
		return nil, fmt.Errorf("base %s: %w", base, engine.ErrNoBase)
	}
	if err != nil {
		return nil, fmt.Errorf("acquire %s: %w", base, err)
	}
	if st.Lease == nil || st.Lease.ID != id {
		return nil, taken(st)
	}
	l := &lease{
		server: s, dialect: d, base: base, token: st.Token, ttl: ttl, state: st, torn: true,
		fields: map[int]bool{}, fresh: map[string]bool{},
	}
	if err := l.recover(ctx); err != nil {
		return nil, err
	}
	return l, l.refresh(ctx, s.chunksOf(base), s.documentsOf(base))
}

func taken(st state) error {
	if st.Lease == nil {
		return engine.ErrLeaseTaken
	}
	age := time.Duration(st.Now-st.Lease.Since) * time.Millisecond
	return fmt.Errorf("%w: %s, for %s", engine.ErrLeaseTaken, oneLine(st.Lease.Owner, 100), age.Round(time.Second))
}

// change runs a script on the state document and returns the document.
func (s *Server) change(ctx context.Context, base, script string, params object, visible bool) (state, error) {
	path := "/" + s.stateIndex() + "/_update/" + base + "?require_alias=true&retry_on_conflict=10&_source=true"
	if visible {
		path += "&refresh=true"
	}
	body, err := s.client.call(ctx, "POST", path, mustJSON(object{"script": object{"lang": "painless", "source": script, "params": params}}))
	if err != nil {
		return state{}, err
	}
	var answer struct {
		Get struct {
			Source json.RawMessage `json:"_source"`
		} `json:"get"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return state{}, fmt.Errorf("%w: %w", errAnswer, err)
	}
	return parseState(base, answer.Get.Source)
}

// hold renews the lease, changes fields of the state and reads it. It returns ErrLeaseLost if the
// lease is not the caller's any more.
func (l *lease) hold(ctx context.Context, set object) error {
	st, err := l.update(ctx, set, false)
	if err == nil {
		l.state = st
	}
	return err
}

func (l *lease) update(ctx context.Context, set object, release bool) (state, error) {
	if set == nil {
		set = object{}
	}
	sent := time.Now()
	params := object{"token": l.token, "ttl": l.ttl.Milliseconds(), "set": set, "release": release, "history": mostHistory}
	st, err := l.server.change(ctx, l.base, holdScript, params, len(set) > 0)
	switch {
	case missing(err):
		return state{}, fmt.Errorf("base %s: %w", l.base, engine.ErrNoBase)
	case err != nil:
		return state{}, fmt.Errorf("lease of %s: %w", l.base, err)
	case st.Token != l.token || st.Lease == nil && !release:
		return state{}, fmt.Errorf("base %s: %w", l.base, engine.ErrLeaseLost)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = sent
	return st, nil
}

// keep renews the lease if a third of its time has passed.
func (l *lease) keep(ctx context.Context) error {
	l.mu.Lock()
	age := time.Since(l.renewed)
	l.mu.Unlock()
	if age < l.ttl/3 {
		return nil
	}
	return l.Renew(ctx)
}

// Renew renews the lease. It may be called while another method runs.
func (l *lease) Renew(ctx context.Context) error {
	_, err := l.update(ctx, nil, false)
	return err
}

// Release ends the lease.
func (l *lease) Release(ctx context.Context) error {
	_, err := l.update(ctx, nil, true)
	return err
}

// refresh makes what was written to indexes searchable.
func (l *lease) refresh(ctx context.Context, indexes ...string) error {
	for _, index := range indexes {
		if _, err := l.server.client.call(ctx, "POST", "/"+index+"/_refresh", nil); err != nil {
			return fmt.Errorf("refresh %s: %w", index, err)
		}
		if index == l.server.chunksOf(l.base) {
			clear(l.fresh)
		}
	}
	return nil
}
