// Package postgres searches and writes knowledge bases in Postgres, from version 14, with pgvector
// from version 0.7. Without pgvector bases are searched by words only.
//
// It keeps its own tables in one schema (schema.go) or reads a table that others write, see
// engine.Mapping (mapping.go). Everything that a search needs is one pipeline of statements, so one
// round trip. Statements are never prepared by name: a connection pooler that lends a server for a
// transaction, such as PgBouncer, would lend the next one to a session that does not know the name.
package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"sidenote/retrieval/engine"
)

// Options say how to reach a database and which bases are tables of others.
type Options struct {
	engine.Connection
	// Mappings are the tables that others write, by base. The other bases are in Sidenote's schema.
	Mappings map[string]engine.Mapping
}

// A Server reads and writes knowledge bases in a database. It implements engine.Server.
type Server struct {
	options Options
	schema  string // quoted
	pool    *pgxpool.Pool

	mu      sync.Mutex
	ids     map[string]int     // of bases in the schema, by name
	vectors extension          // pgvector, as it was last seen
	lacks   string             // what pgvector lacks for searches by vector, for people; "" if nothing
	known   bool               // vectors is known
	trouble map[string]string  // messages for people, by base or table
	remarks map[string]string  // about what is as it should be
	tables  map[string]*mapped // by base, of Mappings
}

var _ engine.Server = (*Server)(nil)

// An extension is an installed pgvector; its schema is "" if there is none.
type extension struct {
	schema    string // quoted
	version   string
	iterative bool // it can continue a scan whose results a filter rejects (from 0.8)
}

// Open returns the Server of a database. It does not connect.
func Open(o Options) (*Server, error) {
	if o.Namespace == "" {
		o.Namespace = "sidenote"
	}
	if !validName(o.Namespace) {
		return nil, fmt.Errorf("postgres: schema %q: want at most %d letters, digits, hyphens and underscores", o.Namespace, maxName)
	}
	config, err := poolConfig(&o.Connection)
	if err != nil {
		return nil, err
	}
	s := &Server{options: o, schema: quoteName(o.Namespace), ids: map[string]int{}, trouble: map[string]string{}, remarks: map[string]string{}, tables: map[string]*mapped{}}
	for base, m := range o.Mappings {
		t, err := newMapped(base, m)
		if err != nil {
			return nil, err
		}
		s.tables[base] = t
	}
	if s.pool, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return s, nil
}

// maxName leaves room in Postgres's 63 bytes.
const maxName = 40

// validName reports whether a schema may have a name: the statements that create it hold it also
// within literals.
func validName(name string) bool {
	for i, c := range name {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

// Close closes all connections.
func (s *Server) Close() error {
	s.pool.Close()
	return nil
}

// Trouble returns what does not work as it should, for people: a missing extension, a missing
// index, a table of which no row can be read. It is sorted.
func (s *Server) Trouble() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sortedValues(s.trouble)
}

// Remarks returns what people may want to know although all works: rows that are skipped. It is
// sorted.
func (s *Server) Remarks() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sortedValues(s.remarks)
}

// note sets the trouble with something; "" removes it.
func (s *Server) note(about, message string) { s.set(s.trouble, about, message) }

// remark sets the remark about something; "" removes it.
func (s *Server) remark(about, message string) { s.set(s.remarks, about, message) }

func (s *Server) set(messages map[string]string, about, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if message == "" {
		delete(messages, about)
	} else {
		messages[about] = message
	}
}

// within returns a context that ends when a call must have returned.
func (s *Server) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.options.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.options.Timeout)
}

// remaining returns the milliseconds until ctx ends, at least 1; 0 if it does not end.
func remaining(ctx context.Context) int64 {
	end, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(1, time.Until(end).Milliseconds())
}

// id returns the number of a base in the schema.
func (s *Server) id(ctx context.Context, base string) (int, error) {
	ids, err := s.existing(ctx, []string{base})
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// existing returns the numbers of bases, 0 for those that do not exist; one must exist. It asks the
// database only about those that were not seen yet, as a number never changes.
func (s *Server) existing(ctx context.Context, bases []string) ([]int, error) {
	ids, ok := s.knownIDs(bases)
	if !ok {
		if _, err := s.ownStates(ctx, bases); err != nil {
			return nil, err
		}
		ids, _ = s.knownIDs(bases)
	}
	for _, id := range ids {
		if id != 0 {
			return ids, nil
		}
	}
	return nil, fmt.Errorf("postgres: bases %q: %w", bases, engine.ErrNoBase)
}

// knownIDs returns the known numbers of bases, 0 for others. ok is false if one is unknown, or
// whether there is pgvector.
func (s *Server) knownIDs(bases []string) (ids []int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids, ok = make([]int, len(bases)), s.known
	for i, base := range bases {
		ids[i] = s.ids[base]
		ok = ok && ids[i] != 0
	}
	return ids, ok
}

// forget removes what is known about bases that may have been dropped and created again.
func (s *Server) forget(bases []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, base := range bases {
		delete(s.ids, base)
	}
}

// pgvector returns the installed pgvector, as it was last seen.
func (s *Server) pgvector() extension {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vectors
}
