package opensearch

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"sidenote/retrieval/engine"
)

// An object is JSON that is sent.
type object map[string]any

// schema is the version of what is stored. A change of mappings needs an index of the next number,
// which is filled from the last one before the alias is moved to it.
const schema = 1

// never is the value of died of what is not deleted. A float64 can represent it, as some parsers of
// JSON use no other numbers.
const never = int64(1) << 53

// The indexes of a base. A name has a dot between its parts, which neither a namespace nor a base has,
// so that no two are equal.
func (s *Server) chunksOf(base string) string    { return s.namespace + "." + base + ".chunks" }
func (s *Server) documentsOf(base string) string { return s.namespace + "." + base + ".documents" }
func (s *Server) termsOf(base string) string     { return s.namespace + "." + base + ".terms" }
func (s *Server) stateIndex() string             { return s.namespace + ".state" }

// idOf returns an id for a text of any length: of documents and of terms.
func idOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// chunkID returns the id of a chunk. It says which version of the document it belongs to, so
// that a write that is repeated changes nothing.
func chunkID(document string, born int64, ordinal int) string {
	return document + "." + strconv.FormatInt(born, 10) + "." + strconv.Itoa(ordinal)
}

func vectorField(dimensions int) string { return "vector_" + strconv.Itoa(dimensions) }

// The analyzer whitespace splits terms that are longer than 255 characters.
const maxTerm = 255

// wordOf returns a term as the field words holds it: terms that the analyzer would split become a digest.
func wordOf(term string) string {
	if len(term) > maxTerm || strings.ContainsFunc(term, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return "#" + idOf(term)
	}
	return term
}

// A request is one of those that create the schema.
type request struct {
	method, path string
	body         object
}

// requests returns what creates the schema of a base.
func (s *Server) requests(d dialect, base string) []request {
	keyword, long := object{"type": "keyword"}, object{"type": "long"}
	stored := object{"type": "keyword", "index": false, "doc_values": false}
	index := func(alias string, settings, source object, properties object) request {
		mappings := object{"dynamic": false, "properties": properties}
		if source != nil {
			mappings["_source"] = source
		}
		return request{"PUT", "/" + alias + "-" + strconv.Itoa(schema), object{
			"settings": object{"index": settings},
			"aliases":  object{alias: object{"is_write_index": true}},
			"mappings": mappings,
		}}
	}
	plainIndex := object{"auto_expand_replicas": "0-1"}
	return []request{
		index(s.stateIndex(), plainIndex, nil, object{"base": stored}),
		// A vector is stored once more as bytes, which are smaller and faster to read.
		index(s.chunksOf(base), d.indexSettings(), object{"excludes": []string{"vector_*"}}, object{
			"base": keyword, "doc": keyword, "ordinal": object{"type": "integer"}, "born": long, "died": long,
			"words": object{"type": "text", "analyzer": "whitespace", "index_options": "freqs"},
			"attrs": keyword, "key": keyword, "sample": long, "length": long,
		}),
		index(s.documentsOf(base), plainIndex, nil, object{"doc": keyword, "born": long, "gone": long}),
		index(s.termsOf(base), plainIndex, nil, object{"texts": long, "term": object{"type": "keyword", "ignore_above": 8000}, "born": long}),
		{"PUT", "/" + s.stateIndex() + "/_create/" + url.PathEscape(base), object{
			"schema": schema, "current": 0, "next": 1, "token": 0,
		}},
	}
}

// Setup returns the requests that create the schema of a base: a line with method and path, then a line of JSON.
// They are for OpenSearch unless the server was found to be Elasticsearch.
func (s *Server) Setup(base string) (string, error) {
	if err := s.own(base); err != nil {
		return "", err
	}
	var d dialect
	if known := s.dialect.Load(); known != nil {
		d = *known
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Sidenote knowledge %s, schema version %d\n", base, schema)
	for _, r := range s.requests(d, base) {
		fmt.Fprintf(&b, "%s %s\n%s\n", r.method, r.path, mustJSON(r.body))
	}
	return b.String(), nil
}

// Init sends the requests of Setup. What exists is left as it is.
func (s *Server) Init(ctx context.Context, base string) error {
	if err := s.own(base); err != nil {
		return err
	}
	d, err := s.kind(ctx)
	if err != nil {
		return err
	}
	if _, err := s.read(ctx, []string{base}); err != nil { // of another version
		return err
	}
	for _, r := range s.requests(d, base) {
		if _, err := s.client.call(ctx, r.method, r.path, mustJSON(r.body)); err != nil && !exists(err) {
			return fmt.Errorf("%s %s: %w", r.method, r.path, err)
		}
	}
	return nil
}

// exists reports whether an error says that what was to be created is there.
func exists(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && (e.Type == "resource_already_exists_exception" || e.Type == "version_conflict_engine_exception")
}

// own returns an error for a base that others write, and for a name that is no base's.
func (s *Server) own(base string) error {
	if _, mapped := s.mappings[base]; mapped {
		return fmt.Errorf("base %s: is an index that others write; nothing is written there", base)
	}
	if !validBase(base) {
		return fmt.Errorf("base %.100q: is not [a-z0-9_-]{1,64}", base)
	}
	return nil
}

func validBase(base string) bool {
	return len(base) > 0 && len(base) <= 64 && !strings.ContainsFunc(base, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

// mustJSON encodes what is built here, which cannot fail: floats are finite.
func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("BUG: %v", err))
	}
	return text
}

// checkSchema returns ErrSchema for what another version of Sidenote wrote.
func checkSchema(base string, found int) error {
	if found == schema || found == 0 {
		return nil
	}
	return fmt.Errorf("base %s has version %d, this Sidenote has %d: %w", base, found, schema, engine.ErrSchema)
}

// sortedKeys returns the keys of a map in order, for requests that do not vary.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
