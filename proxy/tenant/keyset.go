package tenant

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	maxKeySet    = 1 << 20 // of a JWKS, in bytes
	maxKeys      = 1000    // of a JWKS
	minRSABits   = 2048
	fetchWait    = 5 * time.Second
	refreshEvery = 15 * time.Minute
	rereadEvery  = 10 * time.Second // for a file
	retryFirst   = 10 * time.Second // after a failure; doubles up to refreshEvery
	unknownWait  = time.Minute      // least time between two reads for an unknown kid
)

// keys are the public keys of one JWKS. They are immutable.
type keys struct {
	byID   map[string][]publicKey
	digest [sha256.Size]byte // of the JWKS text
}

// A publicKey is a key for verifying signatures.
type publicKey struct {
	key       crypto.PublicKey
	algorithm jose.SignatureAlgorithm // the only algorithm allowed; "" for any of the key's type
}

// ParseKeys reads a JWKS (RFC 7517) and returns how many of its keys can verify tokens: public
// keys with a kid, RSA keys with at least 2,048 bits. Other keys are ignored; a set without any
// usable key is an error.
func ParseKeys(text []byte) (usable int, err error) {
	k, err := parseKeys(text)
	if err != nil {
		return 0, err
	}
	for _, same := range k.byID {
		usable += len(same)
	}
	return usable, nil
}

func parseKeys(text []byte) (*keys, error) {
	if len(text) > maxKeySet {
		return nil, fmt.Errorf("is larger than %d bytes", maxKeySet)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("is not a JWKS: not JSON in the form of {\"keys\": [...]}")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("has %d keys; at most %d", len(set.Keys), maxKeys)
	}
	k := &keys{byID: map[string][]publicKey{}, digest: sha256.Sum256(text)}
	for _, raw := range set.Keys {
		var j jose.JSONWebKey
		if err := j.UnmarshalJSON(raw); err != nil || !usable(&j) {
			continue // unusable, such as a key for encryption
		}
		k.byID[j.KeyID] = append(k.byID[j.KeyID], publicKey{j.Key, jose.SignatureAlgorithm(j.Algorithm)})
	}
	if len(k.byID) == 0 {
		return nil, fmt.Errorf("has no public key with a kid that can verify tokens, among %d", len(set.Keys))
	}
	return k, nil
}

func usable(j *jose.JSONWebKey) bool {
	if j.KeyID == "" || j.Use != "" && j.Use != "sig" || !j.Valid() {
		return false
	}
	switch key := j.Key.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// fits reports whether the key's type is right for alg. The curve is checked when a signature is
// verified.
func (p publicKey) fits(alg jose.SignatureAlgorithm) bool {
	if p.algorithm != "" && p.algorithm != alg {
		return false
	}
	switch p.key.(type) {
	case *rsa.PublicKey:
		return alg[:2] == "RS" || alg[:2] == "PS"
	case *ecdsa.PublicKey:
		return alg[:2] == "ES"
	case ed25519.PublicKey:
		return alg == jose.EdDSA
	}
	return false
}

// A KeySet holds the public keys of an issuer. Run keeps them up to date in the background, so
// that no request waits for them. It is safe for concurrent use.
//
// go-jose parses the keys. The refresh is written here because go-oidc v3.21 fetches within the
// request that needs a key, jwkset v0.11.4 retries a failed refresh only at its fixed interval, and
// both read an answer of any size.
type KeySet struct {
	source  KeySource
	current atomic.Pointer[keys] // nil before the first successful read
	state   atomic.Pointer[state]
	wanted  chan struct{} // holds an element if a token had an unknown kid
}

// A state is the result of the last attempt to read the keys.
type state struct {
	err error
	at  time.Time // when the current keys were read; zero if there are none
}

// A KeySource reads a JWKS.
type KeySource struct {
	// Read returns the JWKS text. It stops when ctx is done.
	Read func(ctx context.Context) ([]byte, error)
	// Every is the time between two reads while they succeed.
	Every time.Duration
}

// NewKeySet returns a KeySet without keys; Run fetches them.
func NewKeySet(s KeySource) *KeySet {
	return &KeySet{source: s, wanted: make(chan struct{}, 1)}
}

// Run reads the keys until ctx is done: at once, then every KeySource.Every, and soon after a
// token with an unknown kid, but at most once a minute. After a failure the last good keys stay in
// use. changed is called with the error when reading starts to fail, and with nil when it works
// again.
func (s *KeySet) Run(ctx context.Context, changed func(error)) {
	retry, failing := retryFirst, false
	for ctx.Err() == nil {
		read := time.Now()
		select {
		case <-s.wanted: // this read serves the request
		default:
		}
		err := s.Read(ctx)
		if ctx.Err() != nil {
			return
		}
		if failing != (err != nil) {
			failing = err != nil
			changed(err)
		}
		wait := s.source.Every
		if failing {
			wait, retry = min(retry, wait), min(2*retry, refreshEvery)
		} else {
			retry = retryFirst
		}
		s.pause(ctx, read, wait)
	}
}

// pause waits until the next read is due. read is the time of the last one.
func (s *KeySet) pause(ctx context.Context, read time.Time, wait time.Duration) {
	next := time.NewTimer(wait)
	defer next.Stop()
	select {
	case <-ctx.Done():
	case <-next.C:
	case <-s.wanted:
		soon := time.NewTimer(min(time.Until(read.Add(unknownWait)), wait))
		defer soon.Stop()
		select {
		case <-ctx.Done():
		case <-soon.C:
		}
	}
}

// Read reads the keys once, with a timeout of 5 s.
func (s *KeySet) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	text, err := s.source.Read(ctx)
	var k *keys
	if err == nil {
		k, err = parseKeys(text)
	}
	now := state{err: err}
	if before := s.state.Load(); before != nil {
		now.at = before.at
	}
	if err == nil {
		now.at = time.Now()
		// Equal keys are not replaced, because verified tokens are cached as long as their keys
		// are in use.
		if have := s.current.Load(); have == nil || have.digest != k.digest {
			s.current.Store(k)
		}
	}
	s.state.Store(&now)
	return err
}

// Pending reports whether the first attempt to read the keys has not finished yet.
func (s *KeySet) Pending() bool { return s.state.Load() == nil }

// ReadAt returns when the keys in use were read, zero if there are none.
func (s *KeySet) ReadAt() time.Time {
	if st := s.state.Load(); st != nil {
		return st.at
	}
	return time.Time{}
}

// Trouble describes why the last attempt to read the keys failed, and which keys are in use; "" if
// it succeeded.
func (s *KeySet) Trouble() string {
	st := s.state.Load()
	switch {
	case st == nil || st.err == nil:
		return ""
	case st.at.IsZero():
		return fmt.Sprintf("no keys, so every token is refused: %v", st.err)
	}
	return fmt.Sprintf("reading its keys failed; the keys of %s stay in use: %v", st.at.UTC().Format(time.RFC3339), st.err)
}

// want makes Run read the keys soon.
func (s *KeySet) want() {
	select {
	case s.wanted <- struct{}{}:
	default: // already requested
	}
}
