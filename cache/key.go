package cache

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sidenote/retrieval"
)

// schema is the version of keys and values. It changes with either, so that two releases that
// share a store never read each other's entries.
const schema = 12

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
	Links      Kind = "links"      // what later turns of a conversation need that an upstream holds
	Given      Kind = "given"      // sources of one turn, which later ones repeat
	Units      Kind = "units"      // of which unit of an experiment a turn is

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
	b = binary.AppendVarint(b, int64(q.Settings.MaxVariants))
	b = retrieval.AppendString(b, string(q.Settings.Versions))
	b = retrieval.AppendString(b, q.Settings.Synonyms.ID())
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

// keySize is the length of an AES-256 key in bytes.
const keySize = 32

// maxKeyID limits the length of a key's id, which every value carries.
const maxKeyID = 32

// Keys are the encryption keys of a CodecStore (AES-256-GCM with random nonces): the first one
// encrypts, all decrypt. Printing them shows only their ids.
//
// To rotate keys, add the new key at the end on all replicas, then move it to the top on all
// replicas, and remove the old one when the last values encrypted with it have expired. Rotate
// long before one key has encrypted 2^32 values, counted over all processes that share it: that is
// the limit for random nonces.
type Keys struct {
	// A pointer, because fmt prints unexported fields without calling their String methods.
	ring *ring
}

type ring struct {
	ids  []string // in the file's order
	byID map[string]cipher.AEAD
	sum  [sha256.Size]byte // of the lines, which tells whether two files have the same keys
}

// ParseKeys parses a key file: per line an id and 32 bytes in base64. Blank lines and lines that
// begin with # are skipped. Errors never quote the text, because a malformed line may contain a
// key anywhere.
func ParseKeys(text []byte) (*Keys, error) {
	r := &ring{byID: map[string]cipher.AEAD{}}
	number, sum := 0, sha256.New()
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		id, aead, err := parseKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if r.byID[id] != nil {
			return nil, fmt.Errorf("line %d: the id is that of an earlier key", number)
		}
		r.byID[id] = aead
		r.ids = append(r.ids, id)
		sum.Write(append(bytes.Join(bytes.Fields(line), []byte(" ")), '\n'))
	}
	if len(r.ids) == 0 {
		return nil, errors.New("holds no key")
	}
	sum.Sum(r.sum[:0])
	return &Keys{ring: r}, nil
}

// parseKey parses one line.
func parseKey(line []byte) (id string, aead cipher.AEAD, err error) {
	fields := bytes.Fields(line)
	if len(fields) != 2 {
		return "", nil, fmt.Errorf("want an id and a key, has %d words", len(fields))
	}
	if len(fields[0]) > maxKeyID || slices.ContainsFunc(fields[0], func(c byte) bool { return !keySafe(c) }) {
		return "", nil, fmt.Errorf("the id must be 1 to %d letters, digits, dots, underscores or hyphens", maxKeyID)
	}
	encoding := base64.StdEncoding
	if !bytes.HasSuffix(fields[1], []byte("=")) {
		encoding = base64.RawStdEncoding
	}
	key, err := encoding.Strict().AppendDecode(nil, fields[1])
	if err != nil {
		return "", nil, errors.New("the key is not base64")
	}
	if len(key) != keySize {
		return "", nil, fmt.Errorf("the key has %d bytes, want %d", len(key), keySize)
	}
	block, err := aes.NewCipher(key)
	if err == nil {
		aead, err = cipher.NewGCMWithRandomNonce(block)
	}
	if err != nil {
		return "", nil, fmt.Errorf("the key cannot be used: %w", err)
	}
	return string(fields[0]), aead, nil
}

// String returns the ids of the keys, the encrypting one first.
func (k *Keys) String() string {
	if k == nil || k.ring == nil {
		return ""
	}
	return strings.Join(k.ring.ids, ",")
}

// GoString returns String, for %#v.
func (k *Keys) GoString() string { return k.String() }

// MarshalText returns String, for encoders.
func (k *Keys) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// current returns the key for encrypting.
func (k *Keys) current() (id string, aead cipher.AEAD) {
	return k.ring.ids[0], k.ring.byID[k.ring.ids[0]]
}

// find returns the key with an id, or nil.
func (k *Keys) find(id []byte) cipher.AEAD { return k.ring.byID[string(id)] }

// IDs returns the ids of the keys, the encrypting one first.
func (k *Keys) IDs() []string { return slices.Clone(k.ring.ids) }

// Equal reports whether both have the same keys in the same order.
func (k *Keys) Equal(other *Keys) bool { return k.ring.sum == other.ring.sum }

// SealedOverhead is the number of bytes by which Seal makes a text longer: a nonce and a tag.
const SealedOverhead = 12 + 16

// Seal appends plain to dst, encrypted with the key of that id, which must exist. bound is
// authenticated with it.
func (k *Keys) Seal(dst []byte, id string, plain, bound []byte) []byte {
	return k.ring.byID[id].Seal(dst, nil, plain, bound)
}

// Open appends to dst what Seal encrypted. It returns an error if the key is missing or not the same,
// or if either text was changed.
func (k *Keys) Open(dst []byte, id string, sealed, bound []byte) ([]byte, error) {
	aead := k.ring.byID[id]
	if aead == nil {
		return nil, fmt.Errorf("there is no key %q", id)
	}
	return aead.Open(dst, nil, sealed, bound)
}
