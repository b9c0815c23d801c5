package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/index/dense"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
	"sidenote/retrieval/services"
)

const (
	// pageSize is how many chunks are looked up in the state folder at a time.
	pageSize = 256
	// indexEvery is how often what is made joins the search while more is being made.
	indexEvery = time.Minute
	// maxRefused bounds what is remembered of chunks that the service does not take.
	maxRefused = 10_000
)

// A VectorMaker makes vectors of the chunks of bases. One batch is under way at a time, whoever asks: a
// process that is killed loses no more than that.
type VectorMaker struct {
	client  *services.Embedder
	library *library.Library
	perDay  int // tokens; 0: no limit
	now     func() time.Time

	turn    chan struct{}            // full while somebody makes vectors
	refused map[store.VectorKey]bool // what the service does not take; for the holder of turn
}

// NewVectorMaker returns a VectorMaker for the bases of a library that is open for writing. perDay is how
// many tokens may be sent on a day of UTC; 0 is no limit.
func NewVectorMaker(client *services.Embedder, l *library.Library, perDay int) *VectorMaker {
	return &VectorMaker{client: client, library: l, perDay: perDay, now: time.Now, turn: make(chan struct{}, 1), refused: map[store.VectorKey]bool{}}
}

// EmbeddingProgress is how far a base has come.
type EmbeddingProgress struct {
	Knowledge    string
	Done, Chunks int
	Tokens       int // that were sent
}

// An EmbeddingReport is what became of a base.
type EmbeddingReport struct {
	Chunks  int `json:"chunks"`
	Had     int `json:"had"`     // a vector already
	Made    int `json:"made"`    // vectors
	Refused int `json:"refused"` // by the service
	Tokens  int `json:"tokens"`  // that were sent

	Why  error         `json:"-"` // of the last that was refused for good
	Took time.Duration `json:"-"`
}

// Missing is how many chunks have no vector.
func (r EmbeddingReport) Missing() int { return r.Chunks - r.Had - r.Made }

// A LimitError says that no more tokens may be sent today.
type LimitError struct {
	PerDay int
	Until  time.Time
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("embeddings.tokens_per_day, %d, are used up until %s", e.PerDay, e.Until.Format("2006-01-02 15:04 MST"))
}

// A LaterError says that the service has answered some chunks with an error that may pass.
type LaterError struct {
	Chunks int
	Why    error // of the last
}

func (e *LaterError) Error() string {
	return fmt.Sprintf("%s to be sent again: %v", terminal.Plural(e.Chunks, "chunk"), e.Why)
}

// Unwrap returns what the service answered.
func (e *LaterError) Unwrap() error { return e.Why }

// Embed makes the vectors that chunks of a base lack. What is made stays, whatever happens then:
// the next call goes on from there. progress may be nil. The error is a *LimitError where the
// tokens of the day are used up, and a *LaterError where some may have a vector another time.
func (m *VectorMaker) Embed(ctx context.Context, base string, progress func(EmbeddingProgress)) (EmbeddingReport, error) {
	if err := m.await(ctx); err != nil {
		return EmbeddingReport{}, err
	}
	defer func() { <-m.turn }()
	c := m.library.Base(base).Content()
	if c == nil {
		return EmbeddingReport{}, nil
	}
	start := m.now()
	report, err := m.embed(ctx, base, c, progress)
	if _, _, indexErr := m.library.IndexVectors(ctx, base); err == nil {
		err = indexErr
	}
	report.Took = m.now().Sub(start)
	return report, err
}

// EmbedContent is Embed of a content that is not in the library: Library.WithVectors finds the
// vectors then.
func (m *VectorMaker) EmbedContent(ctx context.Context, base string, c *knowledge.Content, progress func(EmbeddingProgress)) (EmbeddingReport, error) {
	if err := m.await(ctx); err != nil {
		return EmbeddingReport{}, err
	}
	defer func() { <-m.turn }()
	return m.embed(ctx, base, c, progress)
}

// await waits until nobody else makes vectors.
func (m *VectorMaker) await(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// embed is for the holder of turn.
func (m *VectorMaker) embed(ctx context.Context, base string, c *knowledge.Content, progress func(EmbeddingProgress)) (EmbeddingReport, error) {
	if progress == nil {
		progress = func(EmbeddingProgress) {}
	}
	p := &pass{VectorMaker: m, base: base, vectors: library.VectorsOf(m.library), tell: progress, indexed: m.now()}
	p.Had, p.Chunks = c.Embedded()
	err := p.run(ctx, c)
	return p.EmbeddingReport, err
}

// Forget removes vectors that no chunk of some bases has had for thirty days. bases are all that
// are embedded; where one of them cannot be looked at, nothing is removed.
func (m *VectorMaker) Forget(ctx context.Context, bases []string) error {
	vectors := library.VectorsOf(m.library)
	for _, id := range bases {
		c := m.library.Base(id).Content()
		if c == nil {
			return nil
		}
		if err := vectors.Use(ctx, id, keys(m.client.Space(), c), m.now()); err != nil {
			return err
		}
	}
	_, err := vectors.Forget(ctx, m.now())
	return err
}

// keys goes through those of all chunks, and of what the base is measured by.
func keys(space retrieval.Space, c *knowledge.Content) iter.Seq[store.VectorKey] {
	return func(yield func(store.VectorKey) bool) {
		for passage := range c.Passages() {
			if !yield(space.Key(passage)) {
				return
			}
		}
		for _, key := range library.MeasureKeys(space, c) {
			if !yield(key) {
				return
			}
		}
	}
}

// A pass is one Embed.
type pass struct {
	*VectorMaker
	EmbeddingReport
	base    string
	vectors store.Vectors
	tell    func(EmbeddingProgress)
	indexed time.Time // when what was made joined the search

	keys     []store.VectorKey // of what is to be sent
	passages []string
	twice    map[store.VectorKey]int // chunks besides the first, of a text that several have
	later    LaterError
}

func (p *pass) run(ctx context.Context, c *knowledge.Content) error {
	p.twice = map[store.VectorKey]int{}
	page := make([]string, 0, pageSize)
	for passage := range c.Unembedded() {
		if page = append(page, passage); len(page) < pageSize {
			continue
		}
		if err := p.take(ctx, page); err != nil {
			return err
		}
		page = page[:0]
	}
	if err := p.take(ctx, page); err != nil {
		return err
	}
	for len(p.passages) > 0 {
		if err := p.send(ctx); err != nil {
			return err
		}
	}
	if p.later.Chunks > 0 && ctx.Err() == nil {
		return &p.later
	}
	return ctx.Err()
}

// take looks which of some passages have to be sent, and sends what fills batches.
func (p *pass) take(ctx context.Context, passages []string) error {
	space, page := p.client.Space(), make([]store.VectorKey, len(passages))
	for i, passage := range passages {
		page[i] = space.Key(passage)
	}
	kept, err := p.vectors.Get(ctx, page...)
	if err != nil {
		return err
	}
	if err := p.vectors.Touch(ctx, p.now(), slices.Collect(maps.Keys(kept))...); err != nil {
		return err
	}
	for i, key := range page {
		switch _, waits := p.twice[key]; {
		case kept[key] != nil:
			p.Had++
		case p.refused[key]:
			p.Refused++
		case waits:
			p.twice[key]++
		default:
			p.twice[key] = 0
			p.keys, p.passages = append(p.keys, key), append(p.passages, passages[i])
		}
	}
	p.progress()
	for {
		if n, _ := p.client.Fit(p.passages); n == len(p.passages) {
			return nil
		}
		if err := p.send(ctx); err != nil {
			return err
		}
	}
}

func (p *pass) progress() {
	p.tell(EmbeddingProgress{Knowledge: p.base, Done: p.Had + p.Made, Chunks: p.Chunks, Tokens: p.Tokens})
}

// send sends one batch of what is to be sent, and keeps what comes of it.
func (p *pass) send(ctx context.Context) error {
	n, err := p.affordable(ctx)
	if err != nil {
		return err
	}
	made, sendErr := p.client.Passages(ctx, p.passages[:n])
	vectors := map[store.VectorKey][]byte{}
	for i, v := range made.Vectors {
		if v == nil {
			continue
		}
		if vectors[p.keys[i]], err = dense.Quantize(v); err != nil {
			return err
		}
	}
	// Also where the caller has left meanwhile: these have been paid for.
	if err := p.vectors.Put(context.WithoutCancel(ctx), spaceName(p.client.Space()), vectors, made.Tokens, p.now()); err != nil {
		// What was sent counts, though none of it can be kept.
		spentErr := p.vectors.Put(context.WithoutCancel(ctx), spaceName(p.client.Space()), nil, made.Tokens, p.now())
		p.Tokens += made.Tokens
		return errors.Join(sendErr, sizeError(err), spentErr)
	}
	p.Tokens += made.Tokens
	for key := range maps.Keys(vectors) {
		p.Made += 1 + p.twice[key]
	}
	if sendErr != nil {
		return sendErr
	}
	p.refuse(vectors, p.keys[:n], made)
	for _, key := range p.keys[:n] {
		delete(p.twice, key)
	}
	p.keys, p.passages = p.keys[n:], p.passages[n:]
	p.progress()
	if now := p.now(); now.Sub(p.indexed) >= indexEvery {
		p.indexed = now
		_, _, err = p.library.IndexVectors(ctx, p.base)
	}
	return err
}

// refuse notes what the service did not take, so that it is not sent again and again, unless it may
// take it another time.
func (p *pass) refuse(taken map[store.VectorKey][]byte, sent []store.VectorKey, made services.Passages) {
	for i, key := range sent {
		chunks := 1 + p.twice[key]
		switch {
		case taken[key] != nil:
		case made.Later[i]:
			p.later.Chunks, p.later.Why = p.later.Chunks+chunks, made.Why
		default:
			p.Refused += chunks
			p.Why = made.Why
			if len(p.refused) < maxRefused {
				p.refused[key] = true
			}
		}
	}
}

// affordable is how many passages the next batch has, by its size and by what is left of the day.
func (p *pass) affordable(ctx context.Context) (n int, err error) {
	n, tokens := p.client.Fit(p.passages)
	if p.perDay == 0 {
		return n, nil
	}
	spent, err := p.vectors.Spent(ctx, p.now())
	if err != nil {
		return 0, err
	}
	for spent+tokens > p.perDay && n > 0 {
		n, tokens = p.client.Fit(p.passages[:n/2])
	}
	if n == 0 {
		return 0, &LimitError{PerDay: p.perDay, Until: p.now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)}
	}
	return n, nil
}

// spaceName is what the state folder knows a space by.
func spaceName(s retrieval.Space) string {
	return fmt.Sprintf("%q %d %q", s.Model, s.Dimensions, s.Input)
}

// sizeError says in dimensions what the state folder says in bytes.
func sizeError(err error) error {
	var size *store.VectorSizeError
	if !errors.As(err, &size) {
		return err
	}
	return &services.DimensionError{Got: dense.Dimensions(make([]byte, size.Got)), Want: dense.Dimensions(make([]byte, size.Want))}
}
