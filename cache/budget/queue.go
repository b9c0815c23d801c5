package budget

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// Defaults of QueueOptions.
const (
	DefaultQueueEntries = 16_384
	DefaultQueueTime    = 5 * time.Minute
)

// QueueOptions configure a Queue.
type QueueOptions struct {
	Entries int           // maximum number of queued settlements; 0 means DefaultQueueEntries
	For     time.Duration // how long a settlement is retried; 0 means DefaultQueueTime
	// Lost is called for each settlement that is given up, with the last error, or nil if the
	// queue was full: the ledger charges its estimate when the lease expires. It may be nil.
	Lost func(Settlement, error)
}

// A Queue settles in the background, so that no answer waits for the ledger, and retries while the
// ledger fails.
type Queue struct {
	ledger Ledger
	o      QueueOptions

	mu      sync.Mutex
	waiting []queued
	closed  bool
	work    chan struct{} // holds a value if settlements are queued

	stop  context.CancelFunc
	ended chan struct{}
}

type queued struct {
	Settlement
	since time.Time
}

// NewQueue starts a queue to a ledger. Call Close when done with it.
func NewQueue(l Ledger, o QueueOptions) *Queue {
	o.Entries, o.For = cmp.Or(o.Entries, DefaultQueueEntries), cmp.Or(o.For, DefaultQueueTime)
	if o.Lost == nil {
		o.Lost = func(Settlement, error) {}
	}
	ctx, stop := context.WithCancel(context.Background())
	q := &Queue{ledger: l, o: o, work: make(chan struct{}, 1), stop: stop, ended: make(chan struct{})}
	go q.run(ctx)
	return q
}

// Settle queues a settlement. It never blocks. After Close, or if the queue is full, the
// settlement is lost at once.
func (q *Queue) Settle(s Settlement) {
	q.mu.Lock()
	full := q.closed || len(q.waiting) >= q.o.Entries
	if !full {
		q.waiting = append(q.waiting, queued{s, time.Now()})
	}
	q.mu.Unlock()
	if full {
		q.o.Lost(s, nil)
		return
	}
	q.wake()
}

// Waiting returns the number of queued settlements.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// Close settles what is queued until ctx ends; the rest is lost, and passed to Lost.
func (q *Queue) Close(ctx context.Context) {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake()
	select {
	case <-q.ended:
	case <-ctx.Done():
		q.stop()
		<-q.ended
	}
	q.stop()
}

func (q *Queue) wake() {
	select {
	case q.work <- struct{}{}:
	default:
	}
}

// settleBatch is the number of settlements per call: those of a tenant cost less together.
const settleBatch = 512

// A failing ledger is asked again after firstPause, then after twice as long each time, up to
// lastPause.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

func (q *Queue) run(ctx context.Context) {
	defer close(q.ended)
	pause := firstPause
	for {
		batch, closed := q.take()
		if len(batch) == 0 {
			if closed {
				return
			}
			select {
			case <-q.work:
			case <-ctx.Done():
				return
			}
			continue
		}
		err := q.settle(ctx, batch)
		if ctx.Err() != nil {
			q.loseAll(ctx.Err())
			return
		}
		if err == nil {
			pause = firstPause
			continue
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)): // random, so that replicas do not retry in step
		case <-ctx.Done():
			q.loseAll(err)
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// take returns the next batch to settle, which stays queued until it is settled.
func (q *Queue) take() (batch []queued, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting[:min(len(q.waiting), settleBatch)], q.closed
}

// settle settles a batch and removes it from the queue. After an error, what may still be settled
// is put at the end, so that one tenant's problem does not block the others.
func (q *Queue) settle(ctx context.Context, batch []queued) error {
	all := make([]Settlement, len(batch))
	for i, s := range batch {
		all[i] = s.Settlement
	}
	_, err := q.ledger.Settle(ctx, all...)
	errs := make([]error, len(batch))
	for i := range errs {
		errs[i] = err
		if len(batch) > 1 && (errors.Is(err, ErrCorrupt) || errors.Is(err, ErrInvalid)) { // the error is about one of them
			_, errs[i] = q.ledger.Settle(ctx, all[i])
		}
	}
	again, lost := make([]queued, 0, len(batch)), make([]int, 0, len(batch))
	for i, s := range batch {
		switch late := time.Since(s.since) >= q.o.For; {
		case errs[i] == nil:
		case late, errors.Is(errs[i], ErrInvalid):
			lost = append(lost, i)
		default:
			again = append(again, s)
		}
	}
	q.mu.Lock()
	q.waiting = append(q.waiting[len(batch):], again...)
	q.mu.Unlock()
	for _, i := range lost {
		q.o.Lost(all[i], errs[i])
	}
	if len(again) == 0 {
		return nil
	}
	return err
}

func (q *Queue) loseAll(err error) {
	q.mu.Lock()
	all := q.waiting
	q.waiting, q.closed = nil, true
	q.mu.Unlock()
	for _, s := range all {
		q.o.Lost(s.Settlement, err)
	}
}
