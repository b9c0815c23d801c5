package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/services"
)

// lookEvery is the interval between two reads of the states of all bases of an engine, in one round
// trip. A change is seen within two of them. Sidecars that start together read at different times: the
// second read comes after a random part of the interval.
const lookEvery = time.Second

// DefaultTimeout is used if Options.Timeout is 0.
const DefaultTimeout = 10 * time.Second

// Options configure an Engine. Server, Name, Bases and Neutralise are required.
type Options struct {
	Server Server
	Name   string   // for people, such as "postgres at db.example:5432"
	Bases  []string // ids, [a-z0-9_-]{1,64}
	Mapped []string // those of Bases that have a Mapping; each must be searched alone

	// Neutralise defuses everything in a text that looks like Sidenote's own tags. Version
	// identifies it, and is part of the generation: replicas that neutralise differently must not
	// share results.
	Neutralise func(base, text string) string
	Version    string

	Timeout time.Duration // of a call, unless its context ends earlier
	Calls   int           // maximum number of concurrent calls; 0: services.MaxCalls

	Questions knowledge.Questions // nil to search by words only
	// Space returns the vector space of a base; false if it is searched by words only.
	Space    func(base string) (retrieval.Space, bool)
	Analysed *analysis.Recent // may be nil

	// Looked is called with the state of a base each time it was read, Searched with the outcome of
	// each base of each search, and Changed with a line when something stops working, and when it
	// works again. All may be nil, and may be called concurrently.
	Looked   func(State)
	Searched func(base string, reason retrieval.Reason)
	Changed  func(line string, bad bool)
}

// An Engine searches some bases on one Server. It reads their states continually, limits calls, and
// skips them while the Server does not answer. It is a retrieval.Retriever for several of its bases
// at once, which it ranks as one, and a retrieval.Reader.
type Engine struct {
	options Options
	guard   *services.Guard
	health  services.Health
	bases   map[string]*Base

	asked func()          // called after the first read of the states
	first chan struct{}   // closed by asked
	life  context.Context // ends when the Engine is closed
	stop  context.CancelFunc
	ended chan struct{}  // closed when watch has ended
	loads sync.WaitGroup // of measures

	mu      sync.Mutex
	known   *knownState       // of the bases, by id; replaced as a whole
	loading map[string]string // versions of measures that are read or were, by base
	joined  joinedVocabularies
	urls    urls
}

// A Base is one base of an Engine.
type Base struct {
	engine *Engine
	id     string
}

// Open returns an Engine and starts reading the states in the background; its bases can be searched
// at once. Call Close when done with it.
func Open(o Options) *Engine {
	e := newEngine(o)
	go e.watch()
	return e
}

// newEngine returns an Engine whose states have not been read yet.
func newEngine(o Options) *Engine {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Space == nil {
		o.Space = func(string) (retrieval.Space, bool) { return retrieval.Space{}, false }
	}
	e := &Engine{
		options: o, bases: map[string]*Base{}, first: make(chan struct{}), ended: make(chan struct{}),
		known: &knownState{}, loading: map[string]string{},
	}
	e.life, e.stop = context.WithCancel(context.Background())
	e.asked = sync.OnceFunc(func() { close(e.first) })
	for _, id := range o.Bases {
		e.bases[id] = &Base{e, id}
	}
	e.health.Subject, e.health.Every, e.health.Changed = "knowledge engine "+o.Name, lookEvery, o.Changed
	e.guard = services.NewGuard(services.GuardOptions{
		Calls: o.Calls, OnHang: e.health.Called,
		Probe: func(ctx context.Context) error {
			_, err := o.Server.States(ctx, o.Bases)
			if isAnswer(err) {
				return nil
			}
			return err
		},
	})
	return e
}

// Close stops reading the states, and closes the Server.
func (e *Engine) Close() error {
	e.stop()
	<-e.ended
	e.loads.Wait()
	e.guard.Close()
	return e.options.Server.Close()
}

// Base returns the base with an id, nil if there is none.
func (e *Engine) Base(id string) *Base { return e.bases[id] }

// Server returns the Server.
func (e *Engine) Server() Server { return e.options.Server }

// Name returns the name for people. Engines of different Servers have different names.
func (e *Engine) Name() string { return e.options.Name }

// Skips reports whether searches are skipped because the Server does not answer.
func (e *Engine) Skips() bool { return e.guard.Skips() }

// Answered reports whether the Server has ever answered.
func (e *Engine) Answered() bool { return e.health.Answered() }

// A troubled Server reports what it cannot do, such as search by vector, for people.
type troubled interface{ Trouble() []string }

// Trouble returns what does not work at present with all bases, a line each; nil if all is well.
func (e *Engine) Trouble() []string {
	lines := e.health.Lines()
	if t, ok := e.options.Server.(troubled); ok {
		for _, line := range t.Trouble() {
			lines = append(lines, e.about(line))
		}
	}
	return lines
}

// about returns a line about the Server.
func (e *Engine) about(what string) string { return e.health.Subject + ": " + what }

// A remarker reports what people may want to know although all works, such as rows that it skips.
type remarker interface{ Remarks() []string }

// Remarks returns what people may want to know although all works, a line each.
func (e *Engine) Remarks() []string {
	if r, ok := e.options.Server.(remarker); ok {
		return r.Remarks()
	}
	return nil
}

// call makes a call within the limits, and records its outcome.
func (e *Engine) call(ctx context.Context, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, e.options.Timeout)
	defer cancel()
	err := e.guard.Do(ctx, isAnswer, func() error { return call(ctx) })
	if !errors.Is(err, services.ErrDown) && !errors.Is(err, services.ErrBusy) { // else nothing was sent
		e.health.Called(err)
	}
	return err
}

// isAnswer reports whether an error is an answer of a Server that works.
func isAnswer(err error) bool {
	for _, answer := range []error{ErrNoBase, ErrSchema, ErrDenied, ErrLogin, ErrRefused, ErrLeaseTaken, ErrLeaseLost} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// ID returns the id of the base.
func (b *Base) ID() string { return b.id }

// Engine returns the engine that has the base.
func (b *Base) Engine() *Engine { return b.engine }

// Ref returns the base's id and current generation; "" until something was written.
func (b *Base) Ref() retrieval.Ref { return b.engine.state().ref(b.id, b.engine.options.Version) }

// State returns the state of the base that was read last.
func (b *Base) State() State { return b.engine.state().of(b.id).State }

// Retrieve searches the base, see Engine.Retrieve.
func (b *Base) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	q.Bases = []retrieval.Ref{{Knowledge: b.id}}
	return b.engine.Retrieve(ctx, q)
}

// FirstRead returns a channel that is closed after the first attempt to read the states.
func (b *Base) FirstRead() <-chan struct{} { return b.engine.first }

// Trouble returns what does not work at present, a line each; nil if all is well.
func (b *Base) Trouble() []string {
	lines := b.engine.Trouble()
	if why := b.State().Trouble; why != "" {
		lines = append(lines, b.engine.about(why))
	}
	return lines
}

// Remarks returns what people may want to know although all works, a line each.
func (b *Base) Remarks() []string { return b.engine.Remarks() }

// Answered reports whether the Server has ever answered, and has no Trouble with the base.
func (b *Base) Answered() bool { return b.engine.Answered() && b.State().Trouble == "" }

// Answers reports whether the base can be searched at present, though the Server may have Trouble.
func (b *Base) Answers() bool { return len(b.engine.health.Lines()) == 0 && b.State().Trouble == "" }

// Skips reports whether searches are skipped because the Server does not answer.
func (b *Base) Skips() bool { return b.engine.Skips() }

// Mapped reports whether the base is a table that others write, which is searched alone.
func (b *Base) Mapped() bool { return b.engine.sampled(b.id) }

// Refresh reads the states of all bases of the engine, and what was measured, now.
func (b *Base) Refresh(ctx context.Context) error {
	if err := b.engine.look(ctx); err != nil {
		return err
	}
	return b.engine.load(ctx, b.id)
}

// idsOf returns the distinct ids of the bases of a query, sorted.
func idsOf(bases []retrieval.Ref) []string {
	ids := make([]string, len(bases))
	for i, ref := range bases {
		ids[i] = ref.Knowledge
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Bases searches bases of several Engines: those of one query must have one Engine.
type Bases struct {
	// Base returns the base with an id, nil if there is none.
	Base func(id string) *Base
}

// Retrieve searches the bases of q.
func (s *Bases) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	e, err := s.engine(&q)
	if err != nil {
		return retrieval.Result{Reason: retrieval.ReasonError}, err
	}
	return e.Retrieve(ctx, q)
}

// engine returns the Engine of the bases of q.
func (s *Bases) engine(q *retrieval.Query) (e *Engine, err error) {
	for _, ref := range q.Bases {
		b := s.Base(ref.Knowledge)
		if b == nil || e != nil && b.engine != e {
			return nil, fmt.Errorf("search knowledge %s: %w: not in the engine", ref.Knowledge, retrieval.ErrUnavailable)
		}
		e = b.engine
	}
	if e == nil {
		return nil, fmt.Errorf("search knowledge: %w: no base", retrieval.ErrUnavailable)
	}
	return e, nil
}
