package server

import (
	"context"
	"errors"
	"fmt"
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
	// indexEvery is how often new vectors join the index while more are being made.
	indexEvery = time.Minute
	// maxRefused limits the remembered chunks that the service rejected.
	maxRefused = 10_000
)

// A VectorMaker makes the vectors of chunks. Only one batch is in flight at a time, whoever calls,
// so a process that is killed loses at most one.
type VectorMaker struct {
	client  *services.Embedder
	library *library.Library
	perDay  int // tokens; 0: no limit
	now     func() time.Time

	turn    chan struct{}            // full while vectors are being made
	refused map[store.VectorKey]bool // rejected by the service; guarded by turn
}

// NewVectorMaker returns a VectorMaker for a library that is open for writing. perDay limits the
// tokens sent per day (UTC); 0 means no limit.
func NewVectorMaker(client *services.Embedder, l *library.Library, perDay int) *VectorMaker {
	return &VectorMaker{client: client, library: l, perDay: perDay, now: time.Now, turn: make(chan struct{}, 1), refused: map[store.VectorKey]bool{}}
}

// EmbeddingProgress is the progress in one base.
type EmbeddingProgress struct {
	Knowledge    string
	Done, Chunks int
	Tokens       int // sent
}

// An EmbeddingReport is the result of embedding a base.
type EmbeddingReport struct {
	Chunks          int `json:"chunks"`
	AlreadyEmbedded int `json:"had"`     // chunks that had a vector already
	NewVectors      int `json:"made"`    // new vectors
	Refused         int `json:"refused"` // rejected by the service
	Tokens          int `json:"tokens"`  // sent

	LastRefusal error         `json:"-"` // the reason of the last rejection that is final
	Took        time.Duration `json:"-"`
}

// Missing returns the number of chunks without a vector.
func (r EmbeddingReport) Missing() int { return r.Chunks - r.AlreadyEmbedded - r.NewVectors }

// A LimitError means that no more tokens may be sent today.
type LimitError struct {
	PerDay int
	Until  time.Time
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("embeddings.tokens_per_day, %d, are used up until %s", e.PerDay, e.Until.Format("2006-01-02 15:04 MST"))
}

// A LaterError means that the service failed for some chunks in a way that may pass.
type LaterError struct {
	Chunks int
	Why    error // the last failure
}

func (e *LaterError) Error() string {
	return fmt.Sprintf("%s to be sent again: %v", terminal.Plural(e.Chunks, "chunk"), e.Why)
}

// Unwrap returns the error of the service.
func (e *LaterError) Unwrap() error { return e.Why }

// Embed makes the missing vectors of a base. Vectors already made are kept in any case, and the
// next call continues from there. progress may be nil. The error is a *LimitError if the tokens of
// the day are used up, and a *LaterError if some chunks should be retried.
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

// EmbedContent is Embed for content that is not in the library; Library.WithVectors then finds the
// vectors.
func (m *VectorMaker) EmbedContent(ctx context.Context, base string, c *knowledge.Content, progress func(EmbeddingProgress)) (EmbeddingReport, error) {
	if err := m.await(ctx); err != nil {
		return EmbeddingReport{}, err
	}
	defer func() { <-m.turn }()
	return m.embed(ctx, base, c, progress)
}

// await waits for turn.
func (m *VectorMaker) await(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// embed requires turn.
func (m *VectorMaker) embed(ctx context.Context, base string, c *knowledge.Content, progress func(EmbeddingProgress)) (EmbeddingReport, error) {
	if progress == nil {
		progress = func(EmbeddingProgress) {}
	}
	p := &pass{VectorMaker: m, base: base, vectors: library.VectorsOf(m.library), tell: progress, indexed: m.now()}
	p.AlreadyEmbedded, p.Chunks = c.Embedded()
	err := p.run(ctx, c)
	return p.EmbeddingReport, err
}

// Forget removes vectors that no chunk of the bases has used for thirty days. bases are all
// embedded bases; if the content of one is not available, nothing is removed.
func (m *VectorMaker) Forget(ctx context.Context, bases []string) error {
	vectors := library.VectorsOf(m.library)
	for _, id := range bases {
		c := m.library.Base(id).Content()
		if c == nil {
			return nil
		}
		if err := vectors.Use(ctx, id, library.VectorKeys(m.client.Space(), c), m.now()); err != nil {
			return err
		}
	}
	_, err := vectors.Forget(ctx, m.now())
	return err
}

// A pass is one call of Embed.
type pass struct {
	*VectorMaker
	EmbeddingReport
	base    string
	vectors store.Vectors
	tell    func(EmbeddingProgress)
	indexed time.Time // when new vectors last joined the index

	keys     []store.VectorKey // to be sent
	passages []string
	twice    map[store.VectorKey]int // duplicates: further chunks with the same text
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

// take finds which passages must be sent, and sends full batches.
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
			p.AlreadyEmbedded++
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
	p.tell(EmbeddingProgress{Knowledge: p.base, Done: p.AlreadyEmbedded + p.NewVectors, Chunks: p.Chunks, Tokens: p.Tokens})
}

// send sends one batch and stores the vectors.
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
	// Not cancelled with the caller: these vectors have been paid for.
	if err := p.vectors.Put(context.WithoutCancel(ctx), spaceName(p.client.Space()), vectors, made.Tokens, p.now()); err != nil {
		// The tokens count even if no vector can be stored.
		spentErr := p.vectors.Put(context.WithoutCancel(ctx), spaceName(p.client.Space()), nil, made.Tokens, p.now())
		p.Tokens += made.Tokens
		return errors.Join(sendErr, sizeError(err), spentErr)
	}
	p.Tokens += made.Tokens
	for key := range maps.Keys(vectors) {
		p.NewVectors += 1 + p.twice[key]
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

// refuse notes the rejected chunks so that they are not sent again, except those that may succeed
// later.
func (p *pass) refuse(taken map[store.VectorKey][]byte, sent []store.VectorKey, made services.Passages) {
	for i, key := range sent {
		chunks := 1 + p.twice[key]
		switch {
		case taken[key] != nil:
		case made.Retryable[i]:
			p.later.Chunks, p.later.Why = p.later.Chunks+chunks, made.Why
		default:
			p.Refused += chunks
			p.LastRefusal = made.Why
			if len(p.refused) < maxRefused {
				p.refused[key] = true
			}
		}
	}
}

// affordable returns the number of passages in the next batch, limited by its size and by the
// tokens left today.
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

// spaceName returns the name of a vector space in the state folder.
func spaceName(s retrieval.Space) string {
	return fmt.Sprintf("%q %d %q", s.Model, s.Dimensions, s.Input)
}

// sizeError converts the state folder's error about bytes into one about dimensions.
func sizeError(err error) error {
	var size *store.VectorSizeError
	if !errors.As(err, &size) {
		return err
	}
	return &services.DimensionError{Got: dense.Dimensions(make([]byte, size.Got)), Want: dense.Dimensions(make([]byte, size.Want))}
}
