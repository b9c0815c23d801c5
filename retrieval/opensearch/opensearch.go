// Package opensearch searches and writes knowledge bases in an OpenSearch (from 2.19) or an
// Elasticsearch (from 8.4), as an engine.Server.
//
// A base has three indexes behind aliases, NAMESPACE.BASE.chunks, .documents and .terms, and a
// document in NAMESPACE.state, which all bases share. A chunk says from which generation on it
// exists, and up to which: born and died. A search filters by the base's current generation, which
// the base's state document holds, so a change of that one document makes all that was written
// visible at once, without a copy of the index. See search.go for searches, put.go and commit.go
// for writes, and lease.go for the lease.
//
// The text of a chunk is not analysed by the server: the field words holds Sidenote's own terms,
// separated by spaces, and a question's terms are searched in it by BM25.
//
// A process that only searches needs a role that may GET / (cluster:monitor/main in OpenSearch, monitor in
// Elasticsearch), read the indexes by _search, _msearch, _mget and _doc (indices:data/read/*, read), and,
// for an index that others write, get its mapping (indices:admin/mappings/fields/get*, view_index_metadata).
package opensearch

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"sidenote/retrieval/engine"
)

const (
	// DefaultTimeout limits a call if Connection.Timeout is 0.
	DefaultTimeout = 10 * time.Second
	// DefaultNamespace is the prefix of indexes if Connection.Namespace is "".
	DefaultNamespace = "sidenote"
)

// Options configure a Server.
type Options struct {
	engine.Connection
	Mappings map[string]engine.Mapping // of indexes that others write, by base
}

// A Server is an OpenSearch or an Elasticsearch.
type Server struct {
	client    *client
	namespace string
	mappings  map[string]engine.Mapping
	dialect   atomic.Pointer[dialect] // nil: not known yet

	mu     sync.Mutex
	states map[string]state     // last seen, by base
	views  map[string]*mapState // of Mappings, by base
}

var _ engine.Server = (*Server)(nil)

// Open returns a Server. It sends nothing; the first call does. Call Close when done with it.
func Open(o Options) (*Server, error) {
	if len(o.URL) == 0 {
		return nil, fmt.Errorf("url: is missing")
	}
	for _, u := range o.URL {
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("url: %s is neither http://HOST nor https://HOST", u.Redacted())
		}
	}
	namespace := cmp.Or(o.Namespace, DefaultNamespace)
	if !validNamespace(namespace) {
		return nil, fmt.Errorf("namespace: %q is not a prefix of index names, [a-z0-9][a-z0-9_-]{0,63}", namespace)
	}
	for base, m := range o.Mappings {
		if err := checkMapping(m); err != nil {
			return nil, fmt.Errorf("base %s: %w", base, err)
		}
	}
	return &Server{
		client: newClient(o.Connection), namespace: namespace, mappings: o.Mappings,
		states: map[string]state{}, views: map[string]*mapState{},
	}, nil
}

// Close closes idle connections.
func (s *Server) Close() error {
	s.client.http.CloseIdleConnections()
	return nil
}

// kind returns the product and version of the server, which it asks for once.
func (s *Server) kind(ctx context.Context) (dialect, error) {
	if d := s.dialect.Load(); d != nil {
		return *d, nil
	}
	body, err := s.client.call(ctx, "GET", "/", nil)
	if err != nil {
		return dialect{}, err
	}
	d, err := parseDialect(body)
	if err != nil {
		return dialect{}, err
	}
	s.dialect.Store(&d)
	return d, nil
}

func validNamespace(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (i == 0 || c != '_' && c != '-') {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 64
}
