package cache

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
)

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
}

// ParseKeys parses a key file: per line an id and 32 bytes in base64. Blank lines and lines that
// begin with # are skipped. Errors never quote the text, because a malformed line may contain a
// key anywhere.
func ParseKeys(text []byte) (*Keys, error) {
	r := &ring{byID: map[string]cipher.AEAD{}}
	number := 0
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
	}
	if len(r.ids) == 0 {
		return nil, errors.New("holds no key")
	}
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
