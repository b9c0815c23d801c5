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

// keySize is the length of a key of AES-256.
const keySize = 32

// maxKeyID bounds the length of a key's id, which every value carries.
const maxKeyID = 32

// Keys are the keys that a CodecStore encrypts with (AES-256-GCM, random nonces): the first
// encrypts, all decrypt. They are never printed; printing shows their ids.
//
// To change keys, add the new one below everywhere, then move it to the top everywhere,
// and drop the old one when the last values made with it have expired. Do so long
// before one key has encrypted 2^32 values, counted over all processes that share it:
// that is the limit of random nonces.
type Keys struct {
	// A pointer, because fmt prints unexported fields by itself without asking them how
	// they want to be printed.
	ring *ring
}

type ring struct {
	ids  []string // in the file's order
	byID map[string]cipher.AEAD
}

// ParseKeys reads a file of keys: one a line, its id and its 32 bytes in base64. Blank
// lines and lines that begin with # are skipped. No error shows any of the text,
// because a malformed line may hold a key anywhere.
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

// parseKey reads one line.
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

// String returns the ids of the keys, the one that encrypts first.
func (k *Keys) String() string {
	if k == nil || k.ring == nil {
		return ""
	}
	return strings.Join(k.ring.ids, ",")
}

// GoString is String, for %#v.
func (k *Keys) GoString() string { return k.String() }

// MarshalText is String, for encoders.
func (k *Keys) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// current returns the key that encrypts.
func (k *Keys) current() (id string, aead cipher.AEAD) {
	return k.ring.ids[0], k.ring.byID[k.ring.ids[0]]
}

// find returns the key with an id, nil if there is none.
func (k *Keys) find(id []byte) cipher.AEAD { return k.ring.byID[string(id)] }
