// Package enginetest has a Server in memory, and tests that every Server must pass.
package enginetest

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/chunk"
)

// A Memory is a Server in memory that searches all chunks one by one. The zero Memory has no base.
type Memory struct {
	// Now is the clock of leases; nil is time.Now.
	Now func() time.Time
	// Before, if not nil, is called with the name of each method; its error is that of the call.
	Before func(method string) error

	mu    sync.Mutex
	bases map[string]*memoryBase
}

type memoryBase struct {
	visible, next map[string]engine.Document // next is nil while nothing was put
	state         engine.State
	terms         map[string]engine.TermCount // of the visible documents
	measures      []byte
	owner         string
	token         int
	until         time.Time
	ttl           time.Duration
}

func (m *Memory) begin(ctx context.Context, method string) (func(), error) {
	if m.Before != nil {
		if err := m.Before(method); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	return m.mu.Unlock, nil
}

func (m *Memory) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}

// States implements engine.Server.
func (m *Memory) States(ctx context.Context, bases []string) ([]engine.State, error) {
	done, err := m.begin(ctx, "States")
	if err != nil {
		return nil, err
	}
	defer done()
	return m.states(bases), nil
}

func (m *Memory) states(bases []string) []engine.State {
	states := make([]engine.State, len(bases))
	for i, id := range bases {
		if b := m.bases[id]; b != nil {
			states[i] = b.state
		}
		states[i].Base = id
	}
	return states
}

// Search implements engine.Server.
func (m *Memory) Search(ctx context.Context, s *engine.Search) (*engine.Found, error) {
	done, err := m.begin(ctx, "Search")
	if err != nil {
		return nil, err
	}
	defer done()
	f := &engine.Found{States: m.states(s.Bases), Counts: m.counts(s)}
	var all []engine.Candidate
	var scores []float64
	for i, id := range s.Bases {
		if m.bases[id] == nil {
			continue
		}
		for _, d := range sorted(m.bases[id].visible) {
			if !matches(s.Filter, d.Attributes) {
				continue
			}
			lengths := int64(0)
			for _, c := range d.Chunks {
				lengths += int64(c.Length)
			}
			for j := range d.Chunks {
				c := engine.Candidate{Chunk: chunkOf(&d, j), Base: i, Chunks: len(d.Chunks), AllLengths: lengths}
				c.Cosine = dot(s.Vector, c.Vector)
				all, scores = append(all, c), append(scores, score(s, f, &c.Chunk))
			}
		}
	}
	rank(all, s.Depth, func(i int) float64 { return scores[i] }, func(c *engine.Candidate, rank int) { c.ByWords = rank })
	if s.Vector != nil {
		rank(all, s.Depth, func(i int) float64 {
			if all[i].Vector == nil {
				return 0
			}
			return 2 + all[i].Cosine
		}, func(c *engine.Candidate, rank int) { c.ByVector = rank })
	}
	for _, c := range all {
		if c.ByWords == 0 && c.ByVector == 0 {
			continue
		}
		if near := c.ByWords > 0 && c.ByWords <= s.Neighbours || c.ByVector > 0 && c.ByVector <= s.Neighbours; !near {
			c.Before, c.After = "", ""
		}
		c.Vector, c.VectorKey = nil, nil
		f.Candidates = append(f.Candidates, c)
	}
	return f, nil
}

func (m *Memory) counts(s *engine.Search) [][]engine.TermCount {
	counts := make([][]engine.TermCount, len(s.Terms))
	for i, t := range s.Terms {
		counts[i] = make([]engine.TermCount, len(s.Bases))
		for j, id := range s.Bases {
			counts[i][j].Text = t.Text
			if m.bases[id] == nil {
				continue
			}
			counts[i][j].Texts, counts[i][j].Total = m.bases[id].terms[t.Text].Texts, m.bases[id].terms[t.Text].Total
		}
	}
	return counts
}

// score is BM25.
func score(s *engine.Search, f *engine.Found, c *engine.Chunk) (sum float64) {
	texts, length := 0, uint64(0)
	for _, state := range f.States {
		texts, length = texts+state.Chunks, length+state.Length
	}
	for i, t := range s.Terms {
		n, freq := 0, float64(engine.Count(c.Packed, t.Text))
		for _, counts := range f.Counts[i] {
			n += counts.Texts
		}
		idf := math.Log1p((float64(texts) - float64(n) + .5) / (float64(n) + .5))
		norm := 1.2 * (.25 + .75*float64(c.Length)/(float64(length)/float64(texts)))
		sum += t.Weight * idf * freq / (freq + norm)
	}
	return sum
}

// rank ranks the depth candidates with the greatest positive scores.
func rank(all []engine.Candidate, depth int, score func(i int) float64, set func(*engine.Candidate, int)) {
	var order []int
	for i := range all {
		if score(i) > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score(b), score(a)) })
	for rank, i := range order[:min(len(order), depth)] {
		set(&all[i], rank+1)
	}
}

func dot(a, b []float32) (sum float64) {
	for i := range min(len(a), len(b)) {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func sorted(documents map[string]engine.Document) []engine.Document {
	return slices.SortedFunc(maps.Values(documents), func(a, b engine.Document) int { return cmp.Compare(a.ID, b.ID) })
}

func matches(f *filter.Filter, attributes string) bool {
	decoded, err := chunk.DecodeAttributes(attributes)
	return f == nil || err == nil && f.Match(decoded)
}

// chunkOf returns a chunk as a search returns it.
func chunkOf(d *engine.Document, i int) engine.Chunk {
	c := d.Chunks[i]
	c.Doc, c.Name, c.Ordinal, c.Attributes = d.ID, d.Name, i, d.Attributes
	if i > 0 {
		c.Before = d.Chunks[i-1].Text
	}
	if i+1 < len(d.Chunks) {
		c.After = d.Chunks[i+1].Text
	}
	return c
}

// Passage implements engine.Server.
func (m *Memory) Passage(ctx context.Context, base, doc string, first, end int, f *filter.Filter, _ string) ([]engine.Chunk, error) {
	done, err := m.begin(ctx, "Passage")
	if err != nil {
		return nil, err
	}
	defer done()
	if m.bases[base] == nil {
		return nil, nil
	}
	d, ok := m.bases[base].visible[doc]
	if !ok || !matches(f, d.Attributes) {
		return nil, nil
	}
	var list []engine.Chunk
	for i := first; i < min(end, len(d.Chunks)); i++ {
		list = append(list, chunkOf(&d, i))
	}
	return list, nil
}

// Sample implements engine.Server.
func (m *Memory) Sample(ctx context.Context, base string, n int) (list []engine.Chunk, err error) {
	done, err := m.begin(ctx, "Sample")
	if err != nil {
		return nil, err
	}
	defer done()
	if m.bases[base] == nil {
		return nil, nil
	}
	for _, d := range sorted(m.bases[base].visible) {
		for i := range d.Chunks {
			list = append(list, chunkOf(&d, i))
		}
	}
	return list[:min(n, len(list))], nil
}

// Vocabulary implements engine.Server.
func (m *Memory) Vocabulary(ctx context.Context, base string, most int) (list []engine.TermCount, err error) {
	done, err := m.begin(ctx, "Vocabulary")
	if err != nil {
		return nil, err
	}
	defer done()
	if m.bases[base] == nil {
		return nil, nil
	}
	list = slices.SortedFunc(maps.Values(m.bases[base].terms), func(a, b engine.TermCount) int {
		return cmp.Or(cmp.Compare(b.Texts, a.Texts), cmp.Compare(a.Text, b.Text))
	})
	return list[:min(most, len(list))], nil
}

// Measures implements engine.Server.
func (m *Memory) Measures(ctx context.Context, base string) ([]byte, error) {
	done, err := m.begin(ctx, "Measures")
	if err != nil {
		return nil, err
	}
	defer done()
	if m.bases[base] == nil {
		return nil, nil
	}
	return m.bases[base].measures, nil
}

// Filterable implements engine.Server.
func (m *Memory) Filterable(string, *filter.Filter) error { return nil }

// Setup implements engine.Server.
func (m *Memory) Setup(base string) (string, error) { return "CREATE " + base + "\n", nil }

// Init implements engine.Server.
func (m *Memory) Init(ctx context.Context, base string) error {
	done, err := m.begin(ctx, "Init")
	if err != nil {
		return err
	}
	defer done()
	if m.bases == nil {
		m.bases = map[string]*memoryBase{}
	}
	if m.bases[base] == nil {
		m.bases[base] = &memoryBase{visible: map[string]engine.Document{}}
	}
	return nil
}

// Close implements engine.Server.
func (m *Memory) Close() error { return nil }

// Acquire implements engine.Server.
func (m *Memory) Acquire(ctx context.Context, base, owner string, ttl time.Duration) (engine.Lease, error) {
	done, err := m.begin(ctx, "Acquire")
	if err != nil {
		return nil, err
	}
	defer done()
	b := m.bases[base]
	if b == nil {
		return nil, engine.ErrNoBase
	}
	if m.now().Before(b.until) {
		return nil, fmt.Errorf("%w: %s", engine.ErrLeaseTaken, b.owner)
	}
	b.token++
	b.owner, b.ttl, b.until = owner, ttl, m.now().Add(ttl)
	return &memoryLease{m, b, b.token}, nil
}

type memoryLease struct {
	m     *Memory
	b     *memoryBase
	token int
}

// write begins a call that renews the lease.
func (l *memoryLease) write(ctx context.Context, method string) (func(), error) {
	done, err := l.m.begin(ctx, method)
	if err != nil {
		return nil, err
	}
	if l.b.token != l.token || l.b.until.IsZero() {
		done()
		return nil, engine.ErrLeaseLost
	}
	l.b.until = l.m.now().Add(l.b.ttl)
	return done, nil
}

func (l *memoryLease) Renew(ctx context.Context) error {
	done, err := l.write(ctx, "Renew")
	if err == nil {
		done()
	}
	return err
}

// coming returns the documents that the next Commit makes visible.
func (b *memoryBase) coming() map[string]engine.Document {
	if b.next == nil {
		b.next = maps.Clone(b.visible)
	}
	return b.next
}

func (l *memoryLease) Known(ctx context.Context) iter.Seq2[engine.Known, error] {
	return func(yield func(engine.Known, error) bool) {
		done, err := l.write(ctx, "Known")
		if err != nil {
			yield(engine.Known{}, err)
			return
		}
		documents := sorted(l.b.coming())
		done()
		for _, d := range documents {
			k := engine.Known{ID: d.ID, Source: d.Source, Stamp: d.Stamp, Sum: d.Sum, Chunks: len(d.Chunks)}
			for _, c := range d.Chunks {
				if c.Vector != nil {
					k.Embedded++
				}
			}
			if !yield(k, nil) {
				return
			}
		}
	}
}

func (l *memoryLease) Vectors(ctx context.Context, keys [][]byte) (map[string][]float32, error) {
	done, err := l.write(ctx, "Vectors")
	if err != nil {
		return nil, err
	}
	defer done()
	found := map[string][]float32{}
	for _, documents := range []map[string]engine.Document{l.b.visible, l.b.next} {
		for _, d := range documents {
			for _, c := range d.Chunks {
				if c.Vector != nil && slices.ContainsFunc(keys, func(k []byte) bool { return string(k) == string(c.VectorKey) }) {
					found[string(c.VectorKey)] = c.Vector
				}
			}
		}
	}
	return found, nil
}

func (l *memoryLease) Put(ctx context.Context, documents []engine.Document, deleted []string) error {
	done, err := l.write(ctx, "Put")
	if err != nil {
		return err
	}
	defer done()
	next := l.b.coming()
	for _, d := range documents {
		next[d.ID] = d
	}
	for _, id := range deleted {
		delete(next, id)
	}
	return nil
}

func (l *memoryLease) Commit(ctx context.Context, generation, space string) error {
	done, err := l.write(ctx, "Commit")
	if err != nil {
		return err
	}
	defer done()
	l.b.visible, l.b.next = l.b.coming(), nil
	s := engine.State{Generation: generation, Space: space, Measures: l.b.state.Measures, Documents: len(l.b.visible)}
	l.b.terms = map[string]engine.TermCount{}
	for _, d := range l.b.visible {
		for _, t := range d.Terms {
			was := l.b.terms[t.Text]
			l.b.terms[t.Text] = engine.TermCount{Text: t.Text, Texts: was.Texts + t.Texts, Total: was.Total + t.Total}
		}
		for _, c := range d.Chunks {
			s.Chunks++
			s.Bytes, s.Length, s.Distinct = s.Bytes+int64(len(c.Text)), s.Length+uint64(c.Length), s.Distinct+uint64(engine.Distinct(c.Packed))
			if c.Vector != nil {
				s.Embedded, s.Dimensions = s.Embedded+1, len(c.Vector)
			}
		}
	}
	l.b.state = s
	return nil
}

func (l *memoryLease) SetMeasures(ctx context.Context, version string, measures []byte) error {
	done, err := l.write(ctx, "SetMeasures")
	if err != nil {
		return err
	}
	defer done()
	l.b.state.Measures, l.b.measures = version, measures
	return nil
}

func (l *memoryLease) Clean(ctx context.Context, _ time.Duration) (bool, error) {
	done, err := l.write(ctx, "Clean")
	if err == nil {
		done()
	}
	return false, err
}

func (l *memoryLease) Release(ctx context.Context) error {
	done, err := l.write(ctx, "Release")
	if err != nil {
		return err
	}
	l.b.until = time.Time{}
	done()
	return nil
}
