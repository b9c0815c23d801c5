package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"time"

	"sidenote/proxy/panics"
	"sidenote/proxy/record"
)

// A Selection chooses records.
type Selection struct {
	record.Query
	Last int // at most so many, the latest; 0: all
}

// ErrEmpty means that no record is chosen.
var ErrEmpty = errors.New("no recorded question is chosen")

// A Run replays the records of a store in parallel.
type Run struct {
	Replayer *Replayer
	Store    record.Store
	Select   Selection
	Keep     int // changed outcomes to keep; see KeepAll
	Progress func(done, total int)
	Panicked panics.Handler
}

// Do replays the records. It holds a few of them at once, and the outcomes to keep. If ctx ends it
// returns the report of what was done, and the error of ctx.
func (r *Run) Do(ctx context.Context) (*Report, error) {
	start := time.Now()
	records, total, err := chosen(ctx, r.Store, r.Select)
	if err != nil {
		return nil, err
	}
	tally, done := NewTally(r.Keep), 0
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	outcomes, failure := r.start(ctx, records)
	var fatal error
	for o := range outcomes {
		if o.Answer != nil && o.Answer.fatal != nil {
			fatal = o.Answer.fatal
			cancel()
		}
		if fatal != nil {
			continue
		}
		tally.Add(o)
		done++
		r.Progress(done, total)
	}
	report := tally.Report()
	report.Policy, report.Model, report.TookMS = r.Replayer.Policy, r.Replayer.Model, float64(time.Since(start).Milliseconds())
	if ask := r.Replayer.Ask; ask != nil && report.Answers != nil {
		report.Answers.BudgetUSD, report.Answers.SpentUSD = dollars(ask.Budget), dollars(ask.Spent())
	}
	if fatal != nil {
		return nil, fatal
	}
	if err := failure(); err != nil {
		return report, fmt.Errorf("read the records: %w", err)
	}
	if err := outer.Err(); err != nil {
		return report, fmt.Errorf("stopped after %d of %d questions: %w", done, total, err)
	}
	return report, nil
}

// start replays records in the background. outcomes is closed after the last; then failure returns the
// error of the store, if any.
func (r *Run) start(ctx context.Context, records iter.Seq2[*record.Record, error]) (outcomes <-chan *Outcome, failure func() error) {
	work, replayed := make(chan *record.Record), make(chan *Outcome)
	var failed error
	panics.Go(r.Panicked, func() {
		for rec, err := range records {
			if failed = err; err != nil {
				return
			}
			select {
			case work <- rec:
			case <-ctx.Done():
				return
			}
		}
	}, func() { close(work) })
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Add(1)
		panics.Go(r.Panicked, func() {
			for rec := range work {
				if o := r.Replayer.Replay(ctx, rec); ctx.Err() == nil { // else it was cut short
					replayed <- o
				}
			}
		}, workers.Done)
	}
	go func() {
		workers.Wait()
		close(replayed)
	}()
	return replayed, func() error { return failed }
}

// chosen returns the selected records, and their number. The store is read twice, so that nothing is
// held: records that come in between are left out.
func chosen(ctx context.Context, from record.Store, s Selection) (records iter.Seq2[*record.Record, error], total int, err error) {
	if s.Until.IsZero() {
		s.Until = time.Now()
	}
	for _, err := range from.All(s.Query) {
		if err != nil {
			return nil, 0, fmt.Errorf("read the records: %w", err)
		}
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		total++
	}
	if total == 0 {
		return nil, 0, ErrEmpty
	}
	skip := 0
	if s.Last > 0 && total > s.Last {
		skip, total = total-s.Last, s.Last
	}
	return func(yield func(*record.Record, error) bool) {
		n := 0
		for rec, err := range from.All(s.Query) {
			if err == nil {
				if n++; n <= skip {
					continue
				}
			}
			if n > skip+total || !yield(rec, err) || err != nil {
				return
			}
		}
	}, total, nil
}
