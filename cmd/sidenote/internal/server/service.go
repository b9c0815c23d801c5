package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index/dense"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/services"
)

const (
	// A base whose chunks could not be embedded is retried after a pause that grows from minRetry
	// to maxRetry.
	minRetry = 2 * time.Second
	maxRetry = 10 * time.Minute
	// lookEvery is how often a process checks whether it may write the state folder by now, and
	// forgetEvery how often unused vectors are removed.
	lookEvery   = 5 * time.Second
	forgetEvery = 24 * time.Hour
)

// EmbeddingOptions are callbacks into the process. Each may be called concurrently.
type EmbeddingOptions struct {
	Log     func(level slog.Level, line string)
	Counted func(use, result string, tokens int) // called for each request
}

// An EmbeddingService embeds the chunks of a process's embedded bases in the background. A nil
// EmbeddingService stands for a configuration without embeddings.
type EmbeddingService struct {
	Client *services.Embedder

	config  func() *config.Config // the running configuration
	options EmbeddingOptions
	wake    chan struct{} // signals that something has changed

	mu     sync.Mutex
	maker  *VectorMaker
	states map[string]*state
}

// A state is the status of one base.
type state struct {
	changed bool // since the last pass began
	running bool
	report  EmbeddingReport
	err     error         // of the last pass
	next    time.Time     // the earliest time of the next pass
	retry   time.Duration // the pause before next; 0 after a pass that succeeded
}

// NewEmbedder returns the embedding client of a configuration, or nil without embeddings.
func NewEmbedder(cfg *config.Config, counter retrieval.Counter, o EmbeddingOptions) *services.Embedder {
	options := config.Embedder(cfg)
	if options.BaseURL == nil {
		return nil
	}
	options.Counter = counter
	options.OnRequest = func(use services.Use, result services.EmbedResult, tokens int) {
		o.Counted(string(use), string(result), tokens)
	}
	options.Changed = func(line string, bad bool) {
		if bad {
			o.Log(slog.LevelWarn, line)
			return
		}
		o.Log(slog.LevelInfo, "over: "+line)
	}
	return services.NewEmbedder(options)
}

// NewEmbeddingService returns the service of a configuration, or nil without embeddings. Call
// Close when done with it.
func NewEmbeddingService(cfg func() *config.Config, counter retrieval.Counter, o EmbeddingOptions) *EmbeddingService {
	client := NewEmbedder(cfg(), counter, o)
	if client == nil {
		return nil
	}
	return &EmbeddingService{Client: client, config: cfg, options: o, wake: make(chan struct{}, 1), states: map[string]*state{}}
}

// Close closes the client.
func (s *EmbeddingService) Close() {
	if s != nil {
		s.Client.Close()
	}
}

// Space returns the vector space of a base; ok is false if it is not embedded.
func (s *EmbeddingService) Space(base string) (retrieval.Space, bool) {
	if s == nil {
		return retrieval.Space{}, false
	}
	return SpaceOf(s.config(), s.Client)(base)
}

// SpaceOf returns a function that returns the vector space of a base of cfg, if it is embedded.
func SpaceOf(cfg *config.Config, client *services.Embedder) func(base string) (retrieval.Space, bool) {
	return func(base string) (retrieval.Space, bool) {
		if !cfg.Knowledge[config.Name(base)].Embed {
			return retrieval.Space{}, false
		}
		return client.Space(), true
	}
}

// Changed reports that the content of a base has changed.
func (s *EmbeddingService) Changed(base string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.state(base).changed = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // a signal is already pending
	}
}

// state returns the state of a base. The caller holds mu.
func (s *EmbeddingService) state(base string) *state {
	one := s.states[base]
	if one == nil {
		one = &state{}
		s.states[base] = one
	}
	return one
}

// Learn tells the client the dimensions of the vectors in a library, so that vectors of another
// model are noticed from the first answer on.
func (s *EmbeddingService) Learn(ctx context.Context, l *library.Library) {
	if l.Standing() == library.NotOpen { // there is no folder
		return
	}
	size, err := library.VectorsOf(l).Size(ctx, spaceName(s.Client.Space()))
	if err == nil && size > 0 {
		s.Client.Expect(dense.Dimensions(make([]byte, size)))
	}
}

// Run makes the missing vectors of a library until ctx ends, whenever this process writes its
// folder.
func (s *EmbeddingService) Run(ctx context.Context, l *library.Library) {
	s.mu.Lock()
	s.maker = NewVectorMaker(s.Client, l, int(s.config().Embeddings.TokensPerDay))
	s.mu.Unlock()
	forgotten := time.Time{}
	for ctx.Err() == nil {
		base, wait := "", lookEvery
		if l.Standing() == library.Writing {
			base, wait = s.due(time.Now())
		}
		if base != "" {
			s.embed(ctx, base)
			continue
		}
		if now := time.Now(); l.Standing() == library.Writing && now.Sub(forgotten) >= forgetEvery && s.settled() {
			forgotten = now
			if err := s.maker.Forget(ctx, config.Texts(config.Embedded(s.config()))); err != nil && ctx.Err() == nil {
				s.options.Log(slog.LevelWarn, "state: "+err.Error())
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// due returns a base to embed now, or how long to wait for one.
func (s *EmbeddingService) due(now time.Time) (base string, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait = time.Hour
	for _, id := range config.Texts(config.Embedded(s.config())) {
		one := s.state(id)
		if !one.changed && one.err == nil || s.maker.library.Base(id).Content() == nil {
			continue
		}
		left := one.next.Sub(now)
		if left <= 0 {
			return id, 0
		}
		wait = min(wait, left)
	}
	return "", wait
}

// settled reports whether all bases are embedded completely.
func (s *EmbeddingService) settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range config.Texts(config.Embedded(s.config())) {
		if one := s.state(id); one.changed || one.err != nil {
			return false
		}
	}
	return true
}

// embed makes one pass over a base.
func (s *EmbeddingService) embed(ctx context.Context, base string) {
	s.mu.Lock()
	one := s.state(base)
	one.changed, one.running = false, true
	s.mu.Unlock()
	report, err := s.maker.Embed(ctx, base, func(p EmbeddingProgress) {
		s.mu.Lock()
		defer s.mu.Unlock()
		one.report.Chunks, one.report.AlreadyEmbedded, one.report.NewVectors = p.Chunks, p.Done, 0
	})
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	s.mu.Lock()
	before := one.err
	one.running, one.report, one.err = false, report, err
	one.retry = min(max(2*one.retry, minRetry), maxRetry)
	limit := (*LimitError)(nil)
	switch {
	case err == nil:
		one.retry, one.next = 0, time.Time{}
	case errors.As(err, &limit):
		one.next = limit.Until
	default:
		one.next = now.Add(one.retry)
	}
	s.mu.Unlock()
	s.tell(base, report, before, err)
}

// tell logs what was done, or an error that was not logged before.
func (s *EmbeddingService) tell(base string, r EmbeddingReport, before, err error) {
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		s.options.Log(slog.LevelWarn, problem(base, r, err))
	case err == nil && r.NewVectors > 0:
		line := fmt.Sprintf("knowledge %s: %s embedded, %s (%.1f s)", base, terminal.Plural(r.NewVectors, "chunk"), terminal.Plural(r.Tokens, "token"), r.Took.Seconds())
		s.options.Log(slog.LevelInfo, line)
	}
	if err == nil && r.LastRefusal != nil {
		s.options.Log(slog.LevelWarn, fmt.Sprintf("knowledge %s: %s without a vector, found by words alone, because the service refused: %v", base, terminal.Plural(r.Refused, "chunk"), r.LastRefusal))
	}
}

// problem returns how much of a base is embedded and why not more.
func problem(base string, r EmbeddingReport, err error) string {
	return fmt.Sprintf("knowledge %s: %s of %s embedded, the others are found by words alone: %v", base,
		terminal.Thousands(r.Chunks-r.Missing()), terminal.Plural(r.Chunks, "chunk"), err)
}

// Problems lists the current problems, a line each.
func (s *EmbeddingService) Problems() (lines []string) {
	if s == nil {
		return nil
	}
	lines = s.Client.Trouble()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range config.Texts(config.Embedded(s.config())) {
		if one := s.state(id); one.err != nil {
			lines = append(lines, problem(id, one.report, one.err))
		}
	}
	return lines
}

// An EmbeddingStatus is the embedding status of a base.
type EmbeddingStatus struct {
	Model   string
	Running bool // a pass is running
	Refused int  // rejected by the service in the last pass
	Problem string
}

// Status returns the status of a base; ok is false if it is not embedded.
func (s *EmbeddingService) Status(base string) (_ EmbeddingStatus, ok bool) {
	space, ok := s.Space(base)
	if !ok {
		return EmbeddingStatus{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.state(base)
	out := EmbeddingStatus{Model: space.String(), Running: one.running, Refused: one.report.Refused}
	if one.err != nil {
		out.Problem = one.err.Error()
	}
	return out, true
}
