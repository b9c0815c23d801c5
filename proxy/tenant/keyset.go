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
	rereadEvery  = 10 * time.Second // of a file
	retryFirst   = 10 * time.Second // after a failure; it doubles up to refreshEvery
	unknownWait  = time.Minute      // between two reads because of an unknown kid
)

// keys are the public keys of one JWKS. They are never changed.
type keys struct {
	byID   map[string][]publicKey
	digest [sha256.Size]byte // of the text
}

// A publicKey is a key that may verify signatures.
type publicKey struct {
	key       crypto.PublicKey
	algorithm jose.SignatureAlgorithm // the only one that it is for; "" for any of its type
}

// ParseKeys reads a JWKS (RFC 7517) and returns how many of its keys can verify tokens:
// public keys with a kid, RSA from 2,048 bits on. Other keys are left out. It is an error
// if there is none.
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
			continue // of another kind, such as those for encryption
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

// fits tells whether the key is for an algorithm. Which curve goes with it is checked when
// a signature is verified.
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

// A KeySet has the public keys of an issuer and keeps them up to date while Run runs. No
// request waits for that. It is safe for concurrent use.
type KeySet struct {
	source  KeySource
	current atomic.Pointer[keys] // nil until they were read for the first time
	state   atomic.Pointer[state]
	wanted  chan struct{} // has an element if a token had an unknown kid
}

// A state is what became of the last attempt to read the keys.
type state struct {
	err error
	at  time.Time // of the keys in use; zero: there are none
}

// A KeySource is where a JWKS comes from.
type KeySource struct {
	// Read returns the text. It ends with ctx.
	Read func(ctx context.Context) ([]byte, error)
	// Every is how often it is read while all is well.
	Every time.Duration
}

// NewKeySet returns a KeySet without keys; Run fetches them.
func NewKeySet(s KeySource) *KeySet {
	return &KeySet{source: s, wanted: make(chan struct{}, 1)}
}

// Run reads the keys until ctx ends: at once, then as often as its Source says, and soon
// after a token with an unknown kid, though once a minute at most. After a failure the last
// good keys stay in use. changed is called when reading begins to fail, with the error,
// and when it works again, with nil.
func (s *KeySet) Run(ctx context.Context, changed func(error)) {
	retry, failing := retryFirst, false
	for ctx.Err() == nil {
		read := time.Now()
		select {
		case <-s.wanted: // this read is what was asked for
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

// pause waits for the next time to read. read is the last one.
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

// Read reads the keys once, within 5 s.
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
		// Equal keys are not replaced: verified tokens are cached for as long as their keys
		// are in use.
		if have := s.current.Load(); have == nil || have.digest != k.digest {
			s.current.Store(k)
		}
	}
	s.state.Store(&now)
	return err
}

// Pending tells whether the keys have not been asked for to the end yet.
func (s *KeySet) Pending() bool { return s.state.Load() == nil }

// Trouble says why the last attempt to read the keys failed, and which are in use now; ""
// if it did not fail.
func (s *KeySet) Trouble() string {
	st := s.state.Load()
	switch {
	case st == nil || st.err == nil:
		return ""
	case st.at.IsZero():
		return fmt.Sprintf("no keys, so every token is refused: %v", st.err)
	}
	return fmt.Sprintf("its keys are those of %s: %v", st.at.UTC().Format(time.RFC3339), st.err)
}

// want asks for the keys to be read soon.
func (s *KeySet) want() {
	select {
	case s.wanted <- struct{}{}:
	default: // somebody has asked already
	}
}
