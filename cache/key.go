package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"sidenote/retrieval"
)

// schema is the version of keys and values. It changes with either, so that two releases that
// share a store never read each other's entries.
const schema = 7

// A Kind says what the entries of a cache hold. It is a metric label.
type Kind string

// The kinds of entries.
const (
	Candidates Kind = "candidates" // search result of one base, or of several searched together, for one question
	Selected   Kind = "selected"   // sources of one request
	Embedded   Kind = "embedded"   // vector of one question
	Planned    Kind = "plans"      // answers of planners
	Scored     Kind = "scores"     // scores of rerankers
	Turns      Kind = "turns"      // the part of a turn with tools that clients do not see
	Outputs    Kind = "outputs"    // answers of stages before the last one

	Calibration Kind = "calibration" // token calibration of an upstream's model; no search results
)

// A Key identifies one entry. Queries that differ in any field have different digests.
type Key struct {
	Kind   Kind
	Tenant string
	Digest [sha256.Size]byte
}

// short returns a prefix of the digest, by which people can compare keys.
func (k *Key) short() uint32 { return binary.BigEndian.Uint32(k.Digest[:]) }

// digestKey returns the key of the entry that id identifies.
func digestKey(kind Kind, tenant string, id []byte) Key {
	return Key{Kind: kind, Tenant: tenant, Digest: sha256.Sum256(id)}
}

// writtenRoom is the size of a stack buffer that fits most queries.
const writtenRoom = 512

// appendQuery appends the schema version, the kind and every field of q. Each has a fixed width or
// a length prefix, so that no two queries give the same bytes.
func appendQuery(b []byte, kind Kind, q *retrieval.Query) []byte {
	b = append(b, schema)
	b = retrieval.AppendString(b, string(kind))
	b = retrieval.AppendString(b, q.Tenant)
	b = retrieval.AppendString(b, q.Filter.String())
	b = binary.AppendUvarint(b, uint64(len(q.Bases)))
	for _, ref := range q.Bases {
		b = retrieval.AppendString(b, ref.Knowledge)
		b = retrieval.AppendString(b, ref.Generation)
	}
	b = binary.AppendVarint(b, int64(q.Settings.TopK))
	b = binary.AppendVarint(b, int64(q.Settings.NumCandidates))
	b = binary.AppendVarint(b, int64(q.Settings.MaxPerDocument))
	b = retrieval.AppendFloat(b, q.Settings.ScoreThreshold)
	b = retrieval.AppendFloat(b, q.Settings.DenseWeight)
	b = binary.AppendVarint(b, int64(q.Settings.Deadline))
	b = binary.AppendUvarint(b, uint64(len(q.Settings.Thresholds)))
	for _, t := range q.Settings.Thresholds {
		b = retrieval.AppendString(b, t.Knowledge)
		b = retrieval.AppendFloat(b, t.Relevance)
	}
	b = retrieval.AppendString(b, q.Encoding)
	b = retrieval.AppendString(b, q.Text)
	b = binary.AppendUvarint(b, uint64(len(q.Previous)))
	for _, turn := range q.Previous {
		b = retrieval.AppendString(b, turn.Text)
		b = retrieval.AppendFloat(b, turn.Weight)
	}
	plain := q.Settings.Fusion == retrieval.FusionScores
	if len(q.Further) == 0 && q.Reranking == nil && q.Grading == nil && plain { // the format from before there were plans
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(q.Further)))
	for _, query := range q.Further {
		b = retrieval.AppendString(b, query)
	}
	if q.Reranking == nil && q.Grading == nil && plain {
		return b
	}
	var by retrieval.RerankSettings
	if q.Reranking != nil {
		by = q.Reranking.RerankSettings
	}
	for _, text := range []string{by.Upstream, by.Address, by.Model, by.Dialect} {
		b = retrieval.AppendString(b, text)
	}
	b = binary.AppendVarint(b, int64(by.Documents))
	b = retrieval.AppendFloat(b, by.Threshold)
	b = binary.AppendVarint(b, int64(by.Timeout))
	if q.Grading == nil && plain {
		return b
	}
	var g retrieval.GradeSettings
	if q.Grading != nil {
		g = q.Grading.GradeSettings
	}
	for _, text := range []string{string(g.By), g.Upstream, g.Address, g.Model} {
		b = retrieval.AppendString(b, text)
	}
	b = retrieval.AppendFloat(retrieval.AppendFloat(b, g.Relevant), g.Irrelevant)
	b = binary.AppendVarint(b, int64(g.Timeout))
	if plain {
		return b
	}
	return retrieval.AppendString(b, string(q.Settings.Fusion))
}

// NamedKey returns the key of a value that belongs to no tenant and is identified by names. The
// digest covers the schema version, the kind and every name with its length.
func NamedKey(kind Kind, names ...string) Key { return digestKey(kind, "", appendNames(kind, names)) }

// appendNames returns the schema version, the kind and every name with its length.
func appendNames(kind Kind, names []string) []byte {
	b := retrieval.AppendString([]byte{schema}, string(kind))
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = retrieval.AppendString(b, name)
	}
	return b
}

// String returns the key as stores use it: version, kind, {tenant}, digest. The first three are
// for people who look into a store; the digest alone identifies the entry. The braces keep all
// keys of a tenant on one node of a Redis cluster.
func (k Key) String() string {
	const most = 64 // bytes of the tenant's name
	b := make([]byte, 0, 192)
	b = append(b, 'v')
	b = strconv.AppendInt(b, schema, 10)
	b = append(b, ':')
	b = append(b, k.Kind...)
	b = append(b, ":{"...)
	for _, c := range []byte(k.Tenant[:min(len(k.Tenant), most)]) {
		if !keySafe(c) {
			c = '_'
		}
		b = append(b, c)
	}
	b = append(b, "}:"...)
	b = hex.AppendEncode(b, k.Digest[:])
	return string(b)
}

// keySafe reports whether a byte of a tenant's name can be part of a key without being mistaken
// for its structure or, on Redis, for a hash tag.
func keySafe(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}
