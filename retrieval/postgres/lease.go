package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"sidenote/retrieval/engine"
)

// A lease is a number in the row of its base, which grows with each Acquire. Every write of a lease
// first locks the row if the number is its own, in the same transaction, so a writer that was
// paused while another took over cannot write any more.
type lease struct {
	s    *Server
	base string
	id   int
	ttl  time.Duration
	mark int64 // the number
}

// Acquire makes the caller the only writer of a base. The base must have been created by Init.
func (s *Server) Acquire(ctx context.Context, base, owner string, ttl time.Duration) (engine.Lease, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	if m := s.tables[base]; m != nil {
		return nil, fmt.Errorf("postgres: base %q is the table %s, which others write: %w", base, m.Table, engine.ErrDenied)
	}
	if err := s.checkVersion(ctx); err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		id, err := s.id(ctx, base)
		if err != nil {
			return nil, err
		}
		l, err := s.acquireLease(ctx, base, id, owner, ttl)
		if !errors.Is(err, engine.ErrNoBase) || attempt > 0 {
			return l, err
		}
		s.forget([]string{base}) // it was dropped, and perhaps created again
	}
}

func (s *Server) acquireLease(ctx context.Context, base string, id int, owner string, ttl time.Duration) (engine.Lease, error) {
	l := &lease{s: s, base: base, id: id, ttl: ttl}
	there, holder, age := false, "", 0.0
	err := s.write(ctx, func(c *session) error {
		return c.run(ctx, []statement{
			{`update ` + s.schema + `.bases b set lease_owner = $2, lease_token = b.lease_token + 1,
				lease_renewed = clock_timestamp(), lease_until = clock_timestamp() + $3 * interval '1 second'
				where b.id = (select id from ` + s.schema + `.bases where id = $1
					and (lease_until is null or lease_until < clock_timestamp()) for update skip locked)
				returning b.lease_token`, []any{int64(id), owner, ttl.Seconds()}},
			{`select lease_owner, coalesce(extract(epoch from clock_timestamp() - lease_renewed), 0)::float8
				from ` + s.schema + `.bases where id = $1`, []any{int64(id)}},
		}, func(i int, r *row) {
			if i == 0 {
				l.mark = r.integer()
			} else {
				there, holder, age = true, r.text(), r.float()
			}
		})
	})
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, fmt.Errorf("postgres: base %q: %w", base, engine.ErrNoBase)
	}
	if l.mark == 0 {
		return nil, fmt.Errorf("postgres: base %q is written by %q, seen %v ago: %w",
			base, holder, time.Duration(age*float64(time.Second)).Round(time.Millisecond), engine.ErrLeaseTaken)
	}
	return l, nil
}

// checkVersion returns an error unless the schema is of this version: an older one must be migrated
// first.
func (s *Server) checkVersion(ctx context.Context) error {
	found, err := s.schemaVersion(ctx)
	switch {
	case err != nil:
		return err
	case found == 0:
		return fmt.Errorf("postgres: schema %s is missing: %w", s.options.Namespace, engine.ErrNoBase)
	case found != version:
		return schemaError(found)
	}
	return nil
}

// write runs do in a transaction, which ends by statement_timeout if the client vanishes.
func (s *Server) write(ctx context.Context, do func(c *session) error) error {
	c, err := s.begin(ctx)
	if err != nil {
		return s.failure(ctx, err)
	}
	defer c.release(ctx)
	err = do(c)
	if err == nil {
		err = c.run(ctx, []statement{{sql: "commit"}}, nil)
	}
	if errors.Is(err, engine.ErrLeaseLost) {
		return err
	}
	if isReadOnly(err) {
		s.pool.Reset() // the next connections may reach an address that takes writes
	}
	return needs("select, insert, update and delete, and usage of the schema and its sequences", s.failure(ctx, err))
}

// begin begins a transaction. A connection that is dead, as after a restart of the server, is
// replaced once.
func (s *Server) begin(ctx context.Context) (*session, error) {
	for attempt := 0; ; attempt++ {
		c, err := s.acquire(ctx)
		if err != nil {
			return nil, err
		}
		if err = c.run(ctx, []statement{{sql: "begin"}, s.settings(ctx, "")}, nil); err == nil {
			return c, nil
		}
		dead := c.conn.Conn().IsClosed()
		c.release(ctx)
		if attempt == 1 || !dead || ctx.Err() != nil {
			return nil, err
		}
		s.pool.Reset() // the idle connections are as dead
	}
}

// leased runs do in a transaction that holds the row of the base and renews the lease. next is the
// generation that the next Commit makes visible.
func (l *lease) leased(ctx context.Context, do func(c *session, next int64) error) error {
	return l.s.write(ctx, func(c *session) error {
		next := int64(0)
		err := c.run(ctx, []statement{l.renewal("returning current + 1")}, func(_ int, r *row) { next = r.integer() })
		if err != nil {
			return err
		}
		if next == 0 {
			return fmt.Errorf("postgres: base %q: %w", l.base, engine.ErrLeaseLost)
		}
		return do(c, next)
	})
}

// renewal is the statement that renews the lease if it was not taken over.
func (l *lease) renewal(returning string) statement {
	return statement{`update ` + l.s.schema + `.bases set lease_renewed = clock_timestamp(),
		lease_until = clock_timestamp() + $3 * interval '1 second' where id = $1 and lease_token = $2 ` + returning,
		[]any{int64(l.id), l.mark, l.ttl.Seconds()}}
}

// Renew renews the lease. A transaction of this lease that holds the row, such as a long Commit,
// keeps others out as well, and is not waited for.
func (l *lease) Renew(ctx context.Context) error {
	ctx, cancel := l.s.within(ctx)
	defer cancel()
	held := false
	err := l.s.write(ctx, func(c *session) error {
		return c.run(ctx, []statement{
			{`update ` + l.s.schema + `.bases b set lease_renewed = clock_timestamp(), lease_until = clock_timestamp() + $3 * interval '1 second'
				where b.id = (select id from ` + l.s.schema + `.bases where id = $1 and lease_token = $2 for update skip locked)`,
				[]any{int64(l.id), l.mark, l.ttl.Seconds()}},
			{`select true from ` + l.s.schema + `.bases where id = $1 and lease_token = $2`, []any{int64(l.id), l.mark}},
		}, func(_ int, r *row) { held = r.boolean() })
	})
	if err == nil && !held {
		err = fmt.Errorf("postgres: base %q: %w", l.base, engine.ErrLeaseLost)
	}
	return err
}

// Release ends the lease.
func (l *lease) Release(ctx context.Context) error {
	ctx, cancel := l.s.within(ctx)
	defer cancel()
	return l.s.write(ctx, func(c *session) error {
		return c.run(ctx, []statement{{`update ` + l.s.schema + `.bases set lease_owner = '', lease_until = null, lease_renewed = null,
			lease_token = lease_token + 1 where id = $1 and lease_token = $2`, []any{int64(l.id), l.mark}}}, nil)
	})
}

// knownPage is the number of documents that Known reads at a time.
const knownPage = 5000

// Known yields the documents that the next Commit makes visible.
func (l *lease) Known(ctx context.Context) iter.Seq2[engine.Known, error] {
	return func(yield func(engine.Known, error) bool) {
		after := int64(0)
		for {
			page, last, err := l.knownAfter(ctx, after)
			if err != nil {
				yield(engine.Known{}, err)
				return
			}
			for _, k := range page {
				if !yield(k, nil) {
					return
				}
			}
			if len(page) < knownPage {
				return
			}
			after = last
		}
	}
}

// knownAfter returns a page of documents, in the order of their keys.
func (l *lease) knownAfter(ctx context.Context, after int64) (page []engine.Known, last int64, err error) {
	err = l.leased(ctx, func(c *session, _ int64) error {
		return c.run(ctx, []statement{{`select key, id, source, stamp, sum, chunks, embedded from ` + l.s.schema + `.documents
			where base = $1 and died is null and key > $2 order by key limit $3`, []any{int64(l.id), after, int64(knownPage)}}},
			func(_ int, r *row) {
				last = r.integer()
				k := engine.Known{ID: r.text(), Source: r.text(), Stamp: r.text()}
				if copy(k.Sum[:], r.bytes()) != len(k.Sum) {
					r.fail("document %.100q has a sum of another length", k.ID)
				}
				k.Chunks, k.Embedded = r.count(), r.count()
				page = append(page, k)
			})
	})
	return page, last, err
}

// Vectors returns the stored vectors with some keys.
func (l *lease) Vectors(ctx context.Context, keys [][]byte) (map[string][]float32, error) {
	found := make(map[string][]float32, len(keys))
	err := l.leased(ctx, func(c *session, _ int64) error {
		return c.run(ctx, []statement{{`select distinct on (vector_key) vector_key, embedding from ` + l.s.schema + `.chunks
			where base = ` + fmt.Sprint(l.id) + ` and vector_key = any($1) and embedding is not null order by vector_key`, []any{keys}}},
			func(_ int, r *row) {
				key := string(r.bytes())
				found[key] = r.floats()
			})
	})
	return found, err
}

// SetMeasures stores what Measures returns.
func (l *lease) SetMeasures(ctx context.Context, version string, measures []byte) error {
	return l.leased(ctx, func(c *session, _ int64) error {
		return c.run(ctx, []statement{{`update ` + l.s.schema + `.bases set measures_version = $2, measures = $3 where id = $1`,
			[]any{int64(l.id), version, measures}}}, nil)
	})
}
