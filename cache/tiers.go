package cache

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/singleflight"

	"sidenote/retrieval"
)

// jitter is the fraction of a TTL by which it varies at random, so that entries do not expire
// together.
const jitter = 0.1

// A Tier is a store that a cache uses.
type Tier struct {
	Name  string // a metric label: "memory", "redis"
	Store Store

	TTL      time.Duration // lifetime of values
	EmptyTTL time.Duration // lifetime of empty values, such as results without sources

	// Wait limits how long a request may wait for this tier in all its lookups together; 0 is for
	// a store that never blocks. It does not apply to writes: put a WriteBehind before a store
	// with slow writes.
	Wait time.Duration
}

// ErrSkipped is the error of a Store that did not try a call because it knows that it would fail.
// It does not count as a failure.
var ErrSkipped = errors.New("not tried")

// get looks name up in the store, within the time that the request may still wait.
func (t *Tier) get(ctx context.Context, name string) (value []byte, err error) {
	defer recovered(&err)
	if t.Wait > 0 {
		var done func()
		if ctx, done, err = spend(ctx, t.Wait); err != nil {
			return nil, err
		}
		defer done()
	}
	return t.Store.Get(ctx, name)
}

func (t *Tier) set(ctx context.Context, name string, value []byte, ttl time.Duration) (err error) {
	defer recovered(&err)
	return t.Store.Set(ctx, name, value, ttl)
}

// lifetime returns how long a value is stored.
func (t *Tier) lifetime(empty bool) time.Duration {
	ttl := t.TTL
	if empty {
		ttl = t.EmptyTTL
	}
	return ttl + time.Duration(jitter*(2*rand.Float64()-1)*float64(ttl))
}

// flightTimeout limits a flight, independently of how long its callers wait.
const flightTimeout = 10 * time.Second

// An Event is an outcome of a cache operation, for metrics.
type Event struct {
	Kind     Kind
	Tier     string // name of the tier; "" for a Bypass
	Result   Outcome
	Mismatch Mismatch // what is wrong with a Mismatched value
	Err      error    // error of a GetError or SetError
}

// Outcome is the result of a lookup in a tier, or of a write to it. It is from a closed list and a
// metric label. Each tier that is asked for a request counts it once, with one of the first six.
type Outcome string

// The outcomes.
const (
	Hit        Outcome = "hit"
	Miss       Outcome = "miss"
	Bypass     Outcome = "bypass"      // not cached: a base has no generation yet, so the key would be incomplete, or the search is faster than the cache
	Mismatched Outcome = "mismatch"    // a miss: the store returned something other than this key's value
	GetError   Outcome = "get_error"   // a miss: the store failed or was too slow
	Skipped    Outcome = "skipped"     // a miss: not asked, because no time was left or the store is known to be down
	SetError   Outcome = "store_error" // a value could not be written
)

// A Tiered caches values of one type in tiers.
//
// A tier that fails, hangs, or loses or mixes up values costs time, never correctness: everything
// but an intact value of the exact key is a miss.
//
// Concurrent callers with one key share one flight: one lookup in the far tiers and, if that
// misses, one search. A flight continues when its callers leave, and its late value is still
// written to the tiers.
//
// Only Observe, Size and Remaining may be nil, and Empty if Remaining is set. The fields must not
// change once it is in use.
type Tiered[V any] struct {
	Kind  Kind
	Tiers []Tier // nearest first; a value found in a far one is written to the nearer ones

	Encode func(Key, V) []byte          // returns the sealed value (see Seal); nil if it is too large to store
	Decode func(Key, []byte) (V, error) // reverses Encode; anything else is a Mismatch
	Empty  func(V) bool                 // reports whether a value gets the EmptyTTL of a tier
	// Remaining returns the remaining lifetime of a value, in all tiers; if it is not positive, the
	// value is a miss. If nil, the tiers determine the lifetime.
	Remaining func(V) time.Duration
	// Size returns the approximate memory of a decoded value, for caching it beside the nearest
	// tier; negative if it must not be cached there.
	Size func(V) int

	Observe func(Event) // called concurrently

	flights singleflight.Group
	recent  answers[V]
}

// A Lookup is the state of a key's lookups in the tiers.
type Lookup[V any] struct {
	key        Key
	name       string     // the key as stores use it
	known      *answer[V] // the cached answer of the nearest tier, or nil
	value      []byte     // as a tier returned it, or as it is to be stored
	err        error      // of the nearest tier
	unwritable uint       // a bit for each tier that must not be written
}

// A Search computes a value that the cache does not have.
type Search[V any] struct {
	// Complete adds after Decode what Encode left out; may be nil. If the value is wrong, it
	// returns a Mismatch; any other error counts as a miss.
	Complete func(context.Context, *V) error
	// Find computes the value. It is cached if whole is true.
	Find func(context.Context) (v V, whole bool, err error)
	// Immediate says that Find does not block. Without a far tier, a caller then calls it directly,
	// since sharing a flight would take longer.
	Immediate bool
}

// Decoded looks in the nearest tier; it hits only if the value is already decoded. The digest of
// the key is made of id, which contains the schema, the kind and everything that the value depends
// on. On a miss, pass l to Load.
func (c *Tiered[V]) Decoded(ctx context.Context, tenant string, id []byte, l *Lookup[V]) (v V, hit bool) {
	l.known = c.recent.get(id)
	if l.known != nil {
		l.key, l.name = l.known.key, l.known.name
	} else {
		l.key = digestKey(c.Kind, tenant, id)
		l.name = l.key.String()
	}
	l.value, l.err = c.Tiers[0].get(ctx, l.name)
	if l.known == nil || l.err != nil || !same(l.known.value, l.value) {
		return v, false
	}
	c.observe(Event{Tier: c.Tiers[0].Name, Result: Hit})
	return l.known.decoded, true
}

// Found is the result of a lookup in the tiers, or of a flight.
type Found[V any] struct {
	Value V
	Hit   bool          // found in a tier
	Took  time.Duration // to find it there
	Err   error         // of the search; a panic of it is an error, too
}

// Load continues after a miss of Decoded: with the undecoded value of the nearest tier, a far tier,
// or s.Find. It returns false if ctx ends first. id must be that of Decoded.
func (c *Tiered[V]) Load(ctx context.Context, id []byte, l Lookup[V], s Search[V]) (Found[V], bool) {
	start := time.Now()
	value, err := l.value, l.err
	l.known, l.value, l.err = nil, nil, nil
	if v, outcome := c.judge(ctx, 0, &l, value, err, s.Complete); outcome == Hit {
		c.remember(id, &l, v)
		return Found[V]{Value: v, Hit: true, Took: time.Since(start)}, true
	}
	if ctx.Err() != nil { // the caller has left, so no search is started
		return Found[V]{}, false
	}
	if s.Immediate && c.alone() {
		return c.find(ctx, l, s), true
	}
	flight := c.flights.DoChan(l.name, func() (any, error) { return c.fly(ctx, l, s), nil })
	var landed singleflight.Result
	select {
	case landed = <-flight:
	case <-ctx.Done():
		select {
		case landed = <-flight: // both were ready
		default:
			return Found[V]{}, false
		}
	}
	return landed.Val.(Found[V]), true
}

// Put stores v in all tiers, replacing the value of the same id; see Decoded. It returns when v is
// written; write errors are only observed.
func (c *Tiered[V]) Put(ctx context.Context, tenant string, id []byte, v V) {
	l := Lookup[V]{key: digestKey(c.Kind, tenant, id)}
	l.name = l.key.String()
	if l.value = c.Encode(l.key, v); l.value != nil {
		c.keep(ctx, len(c.Tiers), l, v)
	}
}

var errNotKept = errors.New("not kept")

// Get returns the value of id from a tier; see Decoded. On a miss it does not search.
func (c *Tiered[V]) Get(ctx context.Context, tenant string, id []byte) (v V, ok bool) {
	var l Lookup[V]
	if v, hit := c.Decoded(ctx, tenant, id, &l); hit {
		return v, true
	}
	none := func(context.Context) (v V, whole bool, err error) { return v, false, errNotKept }
	f, landed := c.Load(ctx, id, l, Search[V]{Immediate: true, Find: none})
	return f.Value, landed && f.Hit
}

// remember caches a decoded value for as long as the nearest tier has it.
func (c *Tiered[V]) remember(id []byte, l *Lookup[V], v V) {
	size := len(l.value)
	if c.Size != nil {
		size = c.Size(v)
	}
	if size >= 0 && len(id)+size <= maxAnswer {
		c.recent.put(id, l, v)
	}
}

// fly serves all callers that wait for l.
func (c *Tiered[V]) fly(ctx context.Context, l Lookup[V], s Search[V]) Found[V] {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flightTimeout)
	defer cancel()
	// If the search ignores its deadline, later callers start a new flight instead of waiting for
	// this one.
	stop := context.AfterFunc(ctx, func() { c.flights.Forget(l.name) })
	defer stop()
	for at := 1; at < len(c.Tiers); at++ {
		ctx = withWaitBudget(ctx, c.Tiers[at].Wait)
		value, err := c.Tiers[at].get(ctx, l.name)
		if v, outcome := c.judge(ctx, at, &l, value, err, s.Complete); outcome == Hit {
			c.keep(ctx, at, l, v)
			return Found[V]{Value: v, Hit: true, Took: time.Since(start)}
		}
	}
	return c.find(ctx, l, s)
}

// find calls s.Find and stores its value in all tiers.
func (c *Tiered[V]) find(ctx context.Context, l Lookup[V], s Search[V]) (f Found[V]) {
	defer recovered(&f.Err) // a panic would end the process
	v, whole, err := s.Find(ctx)
	if err == nil && whole {
		c.keepFound(ctx, &l, v)
	}
	return Found[V]{Value: v, Err: err}
}

// keepFound stores v, found for l, in all tiers.
func (c *Tiered[V]) keepFound(ctx context.Context, l *Lookup[V], v V) {
	if l.value = c.Encode(l.key, v); l.value != nil {
		c.keep(ctx, len(c.Tiers), *l, v)
	}
}

// alone reports whether there is no far tier.
func (c *Tiered[V]) alone() bool { return len(c.Tiers) == 1 }

// judge evaluates what a tier returned. After a Hit, l holds the value.
func (c *Tiered[V]) judge(ctx context.Context, at int, l *Lookup[V], value []byte, err error, complete func(context.Context, *V) error) (v V, _ Outcome) {
	event := Event{Tier: c.Tiers[at].Name}
	outdated := false
	if err == nil && value != nil {
		v, outdated, err = c.read(ctx, l.key, value, complete)
	}
	var mismatch Mismatch
	broken := false
	if err != nil {
		mismatch, broken = errors.AsType[Mismatch](err)
	}
	switch {
	case err == nil && value == nil, outdated:
		event.Result = Miss
	case err == nil:
		event.Result, l.value = Hit, value
	case broken:
		event.Result, event.Mismatch = Mismatched, mismatch
	case errors.Is(err, ErrSkipped):
		event.Result = Skipped
	case ctx.Err() != nil: // the request ran out of time, not the store
		event.Result = Miss
	default:
		event.Result, event.Err = GetError, fmt.Errorf("cache get: %w", err)
	}
	// If the content of the key is unknown, it could be somebody else's data, so it is not
	// overwritten.
	if err != nil && !outdated && (!broken || mismatch == MismatchType) {
		l.unwritable |= 1 << at
	}
	c.observe(event)
	return v, event.Result
}

// read decodes and completes a value. An outdated one counts as missing.
func (c *Tiered[V]) read(ctx context.Context, key Key, value []byte, complete func(context.Context, *V) error) (v V, outdated bool, err error) {
	if v, err = c.Decode(key, value); err != nil {
		return v, false, err
	}
	if complete != nil {
		if err = complete(ctx, &v); err != nil {
			_, wrong := errors.AsType[Mismatch](err)
			return v, !wrong, err
		}
	}
	return v, c.Remaining != nil && c.Remaining(v) <= 0, nil
}

// keep writes l's value to the tiers before end. v is its decoded form.
func (c *Tiered[V]) keep(ctx context.Context, end int, l Lookup[V], v V) {
	for at := range c.Tiers[:end] {
		tier := &c.Tiers[at]
		if l.unwritable&(1<<at) != 0 {
			continue
		}
		if err := tier.set(ctx, l.name, l.value, c.lifetime(tier, v)); err != nil && !errors.Is(err, ErrSkipped) {
			c.observe(Event{Tier: tier.Name, Result: SetError, Err: fmt.Errorf("cache set: %w", err)})
		}
	}
}

// lifetime returns how long tier t should keep v.
func (c *Tiered[V]) lifetime(t *Tier, v V) time.Duration {
	if c.Remaining != nil {
		return c.Remaining(v)
	}
	return t.lifetime(c.Empty(v))
}

func (c *Tiered[V]) observe(e Event) {
	if c.Observe != nil {
		e.Kind = c.Kind
		c.Observe(e)
	}
}

// recovered, when deferred, converts a panic to an error.
func recovered(err *error) {
	if broken := recover(); broken != nil {
		*err = fmt.Errorf("panic: %v", broken)
	}
}

// A stored value carries its own identity, because stores can mix up replies, hold values of old
// schemas, corrupt bits or be restored from another installation:
//
//	magic "SN", schema version, flags
//	digest of the key (32 bytes)
//	tenant (uvarint length, bytes)
//	id of the key that it is encrypted with, if it is (uvarint length, bytes)
//	body (uint32 length, bytes)
//	CRC-32C of everything before (4 bytes)
//
// Numbers are little-endian. A plain value has no flags. Flags say how a CodecStore changed the
// body; only the store behind a CodecStore holds such values.
const (
	magic      = "SN"
	flagsAt    = len(magic) + 1
	headerSize = flagsAt + 1
	digestSize = len(Key{}.Digest)
	lengthSize = 4
	sumSize    = 4
)

// A Mismatch is the error for a value that is not what was stored under its key. It is from a
// closed list and a metric label; each one counts as a miss.
type Mismatch string

// The kinds of mismatch.
const (
	MismatchVersion    Mismatch = "version"    // not a value of this package, or of another schema
	MismatchChecksum   Mismatch = "checksum"   // corrupt or truncated
	MismatchTenant     Mismatch = "tenant"     // another tenant's
	MismatchKey        Mismatch = "key"        // another key's
	MismatchBody       Mismatch = "body"       // intact, but not in the expected form
	MismatchEncryption Mismatch = "encryption" // not encrypted although required, or with an unknown key
	MismatchSize       Mismatch = "size"       // larger than any stored value
	MismatchType       Mismatch = "type"       // the store holds another type than a string
)

// Error returns a message with the kind.
func (m Mismatch) Error() string { return "cached value: " + string(m) + " mismatch" }

// castagnoli is computed once and never changes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal returns the value that stores body, in any format, under k; nil if it is too large.
func Seal(k Key, body []byte) []byte {
	if len(body) > maxBody {
		return nil
	}
	b, bodyAt := seal(make([]byte, 0, sealed+len(k.Tenant)+len(body)), k)
	return finish(append(b, body...), bodyAt)
}

// sealed is an upper bound for the size of a value without tenant and body.
const sealed = 64

// seal appends the beginning of a value for k. The caller appends the body and then calls finish.
func seal(b []byte, k Key) (_ []byte, bodyAt int) {
	b = append(b, magic...)
	b = append(b, schema, 0)
	b = append(b, k.Digest[:]...)
	b = retrieval.AppendString(b, k.Tenant)
	return appendLength(b)
}

// appendLength appends four bytes for the length of a body, which finish sets.
func appendLength(b []byte) (_ []byte, bodyAt int) {
	b = append(b, 0, 0, 0, 0)
	return b, len(b)
}

// finish completes a value whose body begins at bodyAt.
func finish(b []byte, bodyAt int) []byte {
	binary.LittleEndian.PutUint32(b[bodyAt-lengthSize:], uint32(len(b)-bodyAt))
	return appendSum(b)
}

func appendSum(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// An envelope is a value split into its parts, which are subslices of it.
type envelope struct {
	flags  byte
	head   []byte // everything up to the end of the tenant
	digest []byte
	tenant []byte
	rest   []byte // everything after the tenant, without the checksum
}

// parse splits data, which may only have flags in known. Its error is a Mismatch.
func parse(data []byte, known byte) (envelope, error) {
	if len(data) < headerSize+sumSize || string(data[:len(magic)]) != magic || data[len(magic)] != schema {
		return envelope{}, MismatchVersion
	}
	all, sum := data[:len(data)-sumSize], data[len(data)-sumSize:]
	if crc32.Checksum(all, castagnoli) != binary.LittleEndian.Uint32(sum) {
		return envelope{}, MismatchChecksum
	}
	if data[flagsAt]&^known != 0 {
		return envelope{}, MismatchVersion // unknown or disallowed flags
	}
	if len(all) < headerSize+digestSize {
		return envelope{}, MismatchBody
	}
	tenant, rest, ok := cutString(all[headerSize+digestSize:])
	if !ok {
		return envelope{}, MismatchBody
	}
	return envelope{
		flags:  data[flagsAt],
		head:   all[:len(all)-len(rest)],
		digest: all[headerSize : headerSize+digestSize],
		tenant: tenant,
		rest:   rest,
	}, nil
}

// cutString reads a string with a length prefix.
func cutString(b []byte) (s, rest []byte, ok bool) {
	n, width := binary.Uvarint(b)
	if width <= 0 || n > uint64(len(b)-width) {
		return nil, nil, false
	}
	b = b[width:]
	return b[:n], b[n:], true
}

// bodyIn returns the body in rest, which is a length and as many bytes.
func bodyIn(rest []byte) ([]byte, error) {
	if len(rest) < lengthSize || uint64(binary.LittleEndian.Uint32(rest)) != uint64(len(rest)-lengthSize) {
		return nil, MismatchBody
	}
	return rest[lengthSize:], nil
}

// Body returns the body that was passed to Seal with k, as a subslice of value. Anything else is a
// Mismatch.
func Body(k Key, value []byte) ([]byte, error) {
	e, err := parse(value, 0)
	switch {
	case err != nil:
		return nil, err
	case string(e.tenant) != k.Tenant:
		return nil, MismatchTenant
	case !bytes.Equal(e.digest, k.Digest[:]):
		return nil, MismatchKey
	}
	return bodyIn(e.rest)
}
