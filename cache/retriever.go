package cache

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"sidenote/retrieval"
)

// A Retriever is a cache in front of one base, or of several that are searched together
// (Candidates), or of the whole pipeline (Selected). A result is stored if it is complete, final
// and of the requested generations. Without a far tier, candidates that are found without waiting
// (retrieval.ImmediateRetriever) are not stored, since finding them again is faster.
//
// When its context ends, a caller returns with an error that wraps retrieval.ErrUnavailable.
type Retriever struct {
	next  retrieval.Retriever
	cache Tiered[retrieval.Result]
}

// NewRetriever returns a cache in front of next. observe may be nil.
func NewRetriever(next retrieval.Retriever, kind Kind, tiers []Tier, observe func(Event)) *Retriever {
	return &Retriever{next, Tiered[retrieval.Result]{
		Kind: kind, Tiers: tiers, Observe: observe,
		Encode: Encode, Decode: Decode, Empty: func(res retrieval.Result) bool { return len(res.Sources) == 0 }, Size: memoryOf,
	}}
}

// memoryOf returns the approximate memory of a result. It is negative for results that reference
// an engine's texts: these may be files that are no longer in use, so such results must not be
// cached decoded.
func memoryOf(res retrieval.Result) int {
	if res.Texts != nil {
		return -1
	}
	const perSource = 256
	n := perSource*len(res.Sources) + res.Excluded.Bytes()
	for i := range res.Sources {
		s := &res.Sources[i]
		n += len(s.Text) + len(s.Before) + len(s.After)
	}
	return n
}

// Retrieve answers q from a tier, else from the next retriever. A query that cannot be cached is
// passed to the next retriever.
func (r *Retriever) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	if r.bypasses(q) {
		r.cache.observe(Event{Result: Bypass})
		return r.next.Retrieve(ctx, q)
	}
	start := time.Now()
	var written [writtenRoom]byte
	var l Lookup[retrieval.Result]
	id := appendQuery(written[:0], r.cache.Kind, &q)
	res, hit := r.cache.Decoded(ctx, q.Tenant, id, &l)
	if hit {
		res.Cache, res.CacheKey, res.Took = retrieval.CacheHit, l.key.short(), time.Since(start)
		return res, nil
	}
	if q.Hits = nil; l.value == nil && l.err == nil && ctx.Err() == nil && r.cache.alone() && retrieval.AnswersAtOnce(r.next, q) {
		return r.findNow(ctx, q, &l)
	}
	return r.far(ctx, q, id, l)
}

// bypasses reports whether q is not cached at all.
func (r *Retriever) bypasses(q retrieval.Query) bool {
	return !cacheable(&q) || r.cache.Kind == Candidates && r.cache.alone() && retrieval.AnswersAtOnce(r.next, q)
}

// AnswersAtOnce reports whether the next retriever answers q without waiting.
func (r *Retriever) AnswersAtOnce(q retrieval.Query) bool { return retrieval.AnswersAtOnce(r.next, q) }

// cacheable reports whether the generation of every base of q is known, so that its result can be
// cached.
func cacheable(q *retrieval.Query) bool {
	return len(q.Bases) > 0 && !slices.ContainsFunc(q.Bases, func(b retrieval.Ref) bool { return b.Generation == "" })
}

// findNow calls the next retriever directly, because its answer is faster than sharing a flight.
func (r *Retriever) findNow(ctx context.Context, q retrieval.Query, l *Lookup[retrieval.Result]) (res retrieval.Result, err error) {
	r.cache.observe(Event{Tier: r.cache.Tiers[0].Name, Result: Miss})
	func() {
		defer recovered(&err) // a panic would end the process
		found, failure := r.next.Retrieve(ctx, q)
		if failure == nil && complete(&found, q.Bases) {
			r.cache.keepFound(ctx, l, found)
		}
		res, err = found, failure
	}()
	res.Cache, res.CacheKey = retrieval.CacheMiss, l.key.short()
	return res, failed(&res, err)
}

// far handles a query after a miss of Decoded. It is a separate function so that q and l move to
// the heap here, and not in Retrieve, where hits are answered.
func (r *Retriever) far(ctx context.Context, q retrieval.Query, id []byte, l Lookup[retrieval.Result]) (retrieval.Result, error) {
	f, landed := r.cache.Load(ctx, id, l, Search[retrieval.Result]{
		Immediate: retrieval.AnswersAtOnce(r.next, q),
		Complete:  func(ctx context.Context, res *retrieval.Result) error { return r.readTexts(ctx, q, res) },
		Find: func(ctx context.Context) (retrieval.Result, bool, error) {
			res, err := r.next.Retrieve(ctx, q)
			return res, complete(&res, q.Bases), err
		},
	})
	if !landed {
		res := retrieval.Result{Reason: retrieval.ReasonTimeout, Partial: true, Cache: retrieval.CacheMiss, CacheKey: l.key.short()}
		return res, fmt.Errorf("%s: no answer in time: %w: %w", r.cache.Kind, retrieval.ErrUnavailable, context.Cause(ctx))
	}
	res := f.Value
	res.Cache, res.CacheKey = retrieval.CacheMiss, l.key.short()
	if f.Hit {
		res.Cache, res.Took = retrieval.CacheHit, f.Took
	}
	return res, failed(&res, f.Err)
}

// failed sets the reason of res to that of err, and makes err wrap retrieval.ErrUnavailable. If
// err is nil, it does nothing.
func failed(res *retrieval.Result, err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, retrieval.ErrUnavailable) {
		err = fmt.Errorf("search: %w: %w", retrieval.ErrUnavailable, err)
	}
	switch {
	case res.Reason.Failed():
	case errors.Is(err, context.DeadlineExceeded):
		res.Reason = retrieval.ReasonTimeout
	default:
		res.Reason = retrieval.ReasonError
	}
	return err
}

// complete reports whether res is complete, final and of the requested generations: a base may
// have changed between lookup and search.
func complete(res *retrieval.Result, asked []retrieval.Ref) bool {
	return !res.Partial && !res.Provisional && res.Degraded == "" && !res.Reason.Failed() && slices.Equal(res.Bases, asked)
}

// readTexts adds the texts that an engine keeps to a stored result. If the generation does not
// have a document, the value is a Mismatch.
func (r *Retriever) readTexts(ctx context.Context, q retrieval.Query, res *retrieval.Result) error {
	all, n := keptOf(res)
	if len(all) == 0 {
		return nil
	}
	texts, err := r.Locate(ctx, q, all)
	switch {
	case errors.Is(err, retrieval.ErrNoHit):
		return MismatchBody
	case err != nil:
		return err
	case r.cache.Kind == Candidates: // texts are read only for what is selected
		res.Texts = texts
		return nil
	}
	if err := texts.Read(all[:n]); err != nil {
		return err
	}
	res.Excluded, err = res.Excluded.WithNames(func(add func(retrieval.Label)) error { return label(texts, q.Bases, all[n:], add) })
	return err
}

// keptOf returns the parts of res whose text is in an engine: n sources, then excluded candidates.
func keptOf(res *retrieval.Result) (all []*retrieval.Source, n int) {
	for i := range res.Sources {
		if s := &res.Sources[i]; s.At.Kept {
			all = append(all, s)
		}
	}
	n = len(all)
	for x := range res.Excluded.All() {
		if x.At.Kept {
			all = append(all, new(retrieval.ExcludedSource(&x)))
		}
	}
	return all, n
}

// label calls add with the labels of located sources.
func label(texts retrieval.Texts, bases []retrieval.Ref, of []*retrieval.Source, add func(retrieval.Label)) error {
	if len(of) == 0 {
		return nil
	}
	hits, pointers := make([]retrieval.Hit, len(of)), make([]*retrieval.Hit, len(of))
	for i, src := range of {
		hits[i] = retrieval.Hit{At: src.At, Base: slices.IndexFunc(bases, func(ref retrieval.Ref) bool { return ref.Knowledge == src.Knowledge })}
		pointers[i] = &hits[i]
	}
	if err := texts.Mark(hits); err != nil {
		return err
	}
	return texts.Label(pointers, add)
}

// Locate returns the texts of hits, if the next retriever keeps texts.
func (r *Retriever) Locate(ctx context.Context, q retrieval.Query, hits []*retrieval.Source) (retrieval.Texts, error) {
	behind, ok := r.next.(retrieval.Locator)
	if !ok {
		return nil, fmt.Errorf("texts are not kept here: %w", retrieval.ErrNoHit)
	}
	return behind.Locate(ctx, q, hits)
}

// maxBody limits the body of a value, whose length is stored in 32 bits.
const maxBody = 1 << 30

// The minimum sizes of list elements: a source has flags, three strings, its chunk, its score and
// its place, a ref two lengths. They limit what a decoder allocates for the claimed length of a
// list.
const (
	minSource = 8
	minRef    = 2
)

// Encode returns the value that stores r under k, in a binary format: lists with their length plus
// one (0 is nil), strings with their length, integers as varints, scores and relevances in as few
// bytes as keep all their bits. For a source whose text its engine keeps, it stores only the
// reference to the text, in about 20 bytes: base, document, chunk and place. Repeated strings
// become numbers, see columnWriter.
//
// Cache, CacheKey, Lookups, Took, Partial, Provisional, Degraded, Planned, Reranked, Graded and
// Texts are not stored. It returns nil if the result is too large.
func Encode(k Key, r retrieval.Result) []byte {
	list := r.Excluded.Packed(r.Floor)
	size := sizeOf(r) + len(list)
	if size > maxBody {
		return nil
	}
	var room [2 << 10]byte // enough for most values
	b := room[:0]
	if size += sealed + len(k.Tenant); size > len(room) {
		b = make([]byte, 0, size)
	}
	b, bodyAt := seal(b, k)
	e := encoder{floor: r.Floor}
	b = retrieval.AppendFloat(retrieval.AppendFloat(b, r.Floor), r.Least)
	b = appendCount(b, len(r.Sources), r.Sources == nil)
	for i := range r.Sources {
		b = e.source(b, &r.Sources[i])
	}
	b = retrieval.AppendString(b, list)
	b = appendCount(b, len(r.Bases), r.Bases == nil)
	for _, ref := range r.Bases {
		b = retrieval.AppendString(b, ref.Knowledge)
		b = retrieval.AppendString(b, ref.Generation)
	}
	b = retrieval.AppendString(b, string(r.Reason))
	b = binary.AppendVarint(b, int64(r.Retrieved))
	b = binary.AppendVarint(b, int64(r.Unique))
	exact := make([]byte, 0, len(b)+sumSize) // a long-lived value should not waste capacity
	return finish(append(exact, b...), bodyAt)
}

// Decode returns the result that Encode stored under k. Texts that an engine keeps are still to be
// read. Anything else (the value of another key, tenant or schema, a flipped bit, a byte too many)
// is a Mismatch. It allocates at most a small multiple of len(data) and keeps no reference to
// data.
func Decode(k Key, data []byte) (retrieval.Result, error) {
	body, err := Body(k, data)
	if err != nil {
		return retrieval.Result{}, err
	}
	d := decoder{BinaryReader: retrieval.BinaryReader{Rest: string(body)}} // one copy, which all strings of the result share
	var r retrieval.Result
	r.Floor, r.Least = d.Float(), d.Float()
	d.floor = r.Floor
	if n, ok := d.Count(minSource); ok {
		r.Sources = make([]retrieval.Source, n)
		for i := range r.Sources {
			d.source(&r.Sources[i])
		}
	}
	list, whole := retrieval.ReadExcludedList(d.String(), r.Floor)
	if r.Excluded = list; !whole {
		d.Fail()
	}
	if n, ok := d.Count(minRef); ok {
		r.Bases = make([]retrieval.Ref, n)
		for i := range r.Bases {
			r.Bases[i] = retrieval.Ref{Knowledge: d.String(), Generation: d.String()}
		}
	}
	r.Reason = retrieval.Reason(d.String())
	r.Retrieved, r.Unique = d.Int(), d.Int()
	if d.Broken || d.Rest != "" {
		return retrieval.Result{}, MismatchBody
	}
	return r, nil
}

// sizeOf estimates the encoded size of r without the excluded candidates.
func sizeOf(r retrieval.Result) int {
	const perSource, perRef, fixed = 16, 4, 128
	n := fixed
	for i := range r.Sources {
		n += perSource + stringsOf(&r.Sources[i])
	}
	for _, ref := range r.Bases {
		n += perRef + len(ref.Knowledge) + len(ref.Generation)
	}
	return n
}

func stringsOf(s *retrieval.Source) int {
	if s.At.Kept {
		return len(s.Doc)/4 + len(s.Date)
	}
	return len(s.Doc) + len(s.Date) + len(s.Name) + len(s.Section) + len(s.Text) + len(s.Before) + len(s.After) + len(s.Sketch) + len(s.Attributes)
}

// A decoder reads a body.
type decoder struct {
	retrieval.BinaryReader
	floor float64
	names columnReader // bases and types
	docs  columnReader
}

// grades are the grades of sources by their number in a body.
var grades = [...]retrieval.Grade{retrieval.GradeNone, retrieval.GradeRelevant, retrieval.GradeAmbiguous, retrieval.GradeIrrelevant}

// The lists of a body have columns: strings that often repeat or share a prefix. A repeated string
// is written as its number, from 1; a new one as 0, the length of the prefix shared with the last
// new one (a byte), and the rest.
const (
	// maxSeen is the number of strings that can be referenced.
	maxSeen = 127
	// maxLately is how many of the last strings a writer searches: bases and documents mostly
	// repeat soon.
	maxLately = 16
	// maxCommon limits what a body can claim to hold by repeating one prefix.
	maxCommon = 63
)

// A columnWriter writes a column.
type columnWriter struct {
	lately [maxLately]string // string i is at i%maxLately
	n      int               // number of strings
	last   string
}

// append writes the next string.
func (c *columnWriter) append(b []byte, s string) []byte {
	for i := c.n - 1; i >= max(0, c.n-maxLately); i-- {
		if c.lately[i%maxLately] == s {
			return append(b, byte(i+1))
		}
	}
	if c.n < maxSeen {
		c.lately[c.n%maxLately] = s
		c.n++
	}
	common := 0
	for most := min(len(s), len(c.last), maxCommon); common < most && s[common] == c.last[common]; {
		common++
	}
	c.last = s
	return retrieval.AppendString(append(b, 0, byte(common)), s[common:])
}

// A columnReader reads the output of a columnWriter.
type columnReader struct {
	seen []string
	last string
}

// next reads the next string.
func (c *columnReader) next(d *decoder) string {
	n := d.Byte()
	if n > 0 {
		if int(n) > len(c.seen) {
			d.Fail()
			return ""
		}
		return c.seen[n-1]
	}
	common := int(d.Byte())
	s := d.String()
	if common > min(len(c.last), maxCommon) {
		d.Fail()
		return ""
	}
	if common > 0 {
		s = c.last[:common] + s
	}
	if c.last = s; len(c.seen) < maxSeen {
		c.seen = append(c.seen, s)
	}
	return s
}

// An encoder appends the parts of a body.
type encoder struct {
	floor float64
	names columnWriter // bases and types
	docs  columnWriter
}

func appendCount(b []byte, n int, isNil bool) []byte {
	if isNil {
		return append(b, 0)
	}
	return binary.AppendUvarint(b, uint64(n)+1)
}

func (e *encoder) source(b []byte, s *retrieval.Source) []byte {
	b = e.names.append(b, s.Type)
	b = e.names.append(b, s.Knowledge)
	b = e.docs.append(b, s.Doc)
	b = binary.AppendVarint(b, int64(s.Chunk))
	scores := retrieval.Scores{Score: s.Score, Relevance: s.Relevance, Strength: s.Strength, Arm: s.Arm, ByArm: s.ByArm, RerankScore: s.RerankScore, GradeScore: s.GradeScore}
	b = scores.Append(b, e.floor)
	b = append(b, byte(max(0, slices.Index(grades[:], s.Grade))))
	b = retrieval.AppendString(b, s.Date)
	if b = s.At.Append(b); s.At.Kept {
		return b
	}
	for _, text := range [...]string{s.Name, s.Section, s.Text, s.Before, s.After, s.Sketch, s.Attributes} {
		b = retrieval.AppendString(b, text)
	}
	return binary.AppendVarint(b, int64(s.Tokens))
}

func (d *decoder) source(s *retrieval.Source) {
	s.Type, s.Knowledge, s.Doc = d.names.next(d), d.names.next(d), d.docs.next(d)
	s.Chunk = d.Int()
	scores := retrieval.ReadScores(&d.BinaryReader, d.floor)
	s.Score, s.Relevance, s.Strength, s.Arm, s.ByArm = scores.Score, scores.Relevance, scores.Strength, scores.Arm, scores.ByArm
	s.RerankScore, s.GradeScore = scores.RerankScore, scores.GradeScore
	grade := d.Byte()
	if int(grade) >= len(grades) {
		d.Fail()
		return
	}
	s.Grade, s.Date = grades[grade], d.String()
	if s.At = retrieval.ReadPlace(&d.BinaryReader); s.At.Kept {
		return
	}
	s.Name, s.Section = d.String(), d.String()
	s.Text, s.Before, s.After = d.String(), d.String(), d.String()
	s.Sketch, s.Attributes = d.String(), d.String()
	s.Tokens = d.Int()
}

// answers caches what the nearest tier returned last: keys and decoded values. It works with
// stores in this process, which return the very same bytes each time: a popular query is then
// neither hashed nor decoded again, and all callers share one value. A popular question takes 4 µs
// with it and 62 without (BenchmarkWarm of the engine).
type answers[V any] struct{ table retrieval.Recent[answer[V]] }

// An answer keeps its value alive, so that no other value can get its address.
type answer[V any] struct {
	id      string // input of the key's digest, by which answers are compared
	key     Key
	name    string // the key as stores use it
	value   []byte
	decoded V
}

// maxAnswer limits the sum of a value's size and its id, in bytes, for a cached answer. All
// answers together take at most 20 MiB in addition to the store.
const maxAnswer = 40 << 10

// get returns the answer for an id, or nil.
func (r *answers[V]) get(id []byte) *answer[V] {
	if a := r.table.At(retrieval.HashBytes(id)); a != nil && a.id == string(id) {
		return a
	}
	return nil
}

// put caches decoded, which was decoded from l's value.
func (r *answers[V]) put(id []byte, l *Lookup[V], decoded V) {
	r.table.Put(retrieval.HashBytes(id), &answer[V]{string(id), l.key, l.name, l.value, decoded})
}

// same reports whether two slices are the same memory.
func same(a, b []byte) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }
