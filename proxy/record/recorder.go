package record

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sidenote/cache"
	"sidenote/cache/budget"
	"sidenote/proxy/panics"
	"sidenote/rewrite/chat"
)

// The results of recording a request, as counted.
const (
	Written = "written"
	Dropped = "dropped" // the disk is slow, or too many requests are being served
	Failed  = "failed"  // it could not be written
)

const (
	// gather is how long the first draft waits for others to be written together with it: waking a
	// goroutine for each would delay requests.
	gather = 25 * time.Millisecond
	// maxQueue and maxDrafts limit the drafts that wait to be written, and the bytes of all drafts.
	maxQueue  = 4096
	maxDrafts = 64 << 20
	// checkEvery is how often a ring that cannot be written is tried again without a new record, and
	// that is the longest time between two looks for records that are too old.
	checkEvery = time.Minute
	// retryAfter is the least time between two attempts to write to a ring after an error.
	retryAfter = time.Second
)

// Settings say what is recorded of the requests of a policy.
type Settings struct {
	Share    float64       // of the requests, above 0 up to 1
	Requests bool          // also their bodies
	Keep     time.Duration // how long a record is kept at most
	Max      int64         // bytes of all files of the policy at most
	Keys     *cache.Keys
	Redact   Redactor
}

func (s *Settings) bounds() bounds { return bounds{s.Keep, s.Max} }

// Options are what a Recorder tells others.
type Options struct {
	Count    func(policy, result string)       // a request was recorded or not; may be nil
	Log      func(problem string, begins bool) // a problem begins or ends; may be nil
	Panicked panics.Handler                    // may be nil

	files fileSystem
}

// A Recorder records requests in the background, in a folder with a ring for each policy. Problems of
// the disk lose records and never delay a request. It is safe for concurrent use. The nil Recorder
// records nothing.
type Recorder struct {
	dir     string
	options Options
	targets atomic.Pointer[map[string]*target] // by policy
	drafts  sync.Pool
	bytes   atomic.Int64 // of all drafts
	known   recent
	// citations counts the citations of answers; nil: nobody does.
	citations atomic.Pointer[CountFunc]
	slow      atomic.Bool  // requests are being dropped
	dropped   atomic.Int64 // when the last one was, Unix nanoseconds

	wake    chan struct{}
	closing chan struct{}
	done    chan struct{}

	mu     sync.Mutex
	items  []item
	closed bool
	live   *Draft // the drafts that are not in known yet, in a list

	parser    chat.Parser // of run
	forgotten forgotten
}

// An item waits to be written.
type item struct {
	draft    *Draft    // or
	to       *target   // with
	feedback *feedback //
}

// A target is a policy that records, or that did.
type target struct {
	of       *Recorder
	policy   string
	settings atomic.Pointer[Settings] // nil: it does not record any more
	ring     ring
	tried    time.Time // of the last attempt that failed; zero if none did
	loaded   bool      // ids of records were read

	mu      sync.Mutex
	problem string
}

// New returns a Recorder in a folder. Call Configure, and Close at the end.
func New(dir string, o Options) *Recorder {
	if o.files == nil {
		o.files = disk{}
	}
	r := &Recorder{dir: dir, options: o, wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{})}
	r.targets.Store(&map[string]*target{})
	panics.Go(o.Panicked, r.run, func() { close(r.done) })
	return r
}

// CountCitations sets how the citations of answers are counted.
func (r *Recorder) CountCitations(count CountFunc) {
	if r != nil {
		r.citations.Store(&count)
	}
}

// Configure sets what is recorded, by policy. Records of other policies stay until they are too old.
func (r *Recorder) Configure(policies map[string]Settings) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := maps.Clone(*r.targets.Load())
	for name, t := range all {
		if _, records := policies[name]; !records {
			t.settings.Store(nil)
		}
	}
	for name, s := range policies {
		t := all[name]
		if t == nil {
			t = r.newTarget(name)
			all[name] = t
		}
		if old := t.settings.Load(); old != nil && old.Keys.Equal(s.Keys) {
			s.Keys = old.Keys // a ring begins another segment for other keys
		}
		t.settings.Store(&s)
	}
	r.targets.Store(&all)
	r.signal()
}

// Records reports whether requests of a policy are recorded.
func (r *Recorder) Records(policy string) bool {
	if r == nil {
		return false
	}
	t := (*r.targets.Load())[policy]
	return t != nil && t.settings.Load() != nil
}

func (r *Recorder) newTarget(policy string) *target {
	return &target{of: r, policy: policy, ring: ring{files: r.options.files, dir: filepath.Join(r.dir, policy), policy: policy}}
}

// signal wakes run.
func (r *Recorder) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Begin returns the draft of a request; nil if it is not recorded.
func (r *Recorder) Begin(policy, tenant, id string) *Draft {
	if r == nil {
		return nil
	}
	t := (*r.targets.Load())[policy]
	if t == nil {
		return nil
	}
	s := t.settings.Load()
	if s == nil || s.Share < 1 && rand.Float64() >= s.Share {
		return nil
	}
	if r.bytes.Add(draftSize) > maxDrafts {
		r.bytes.Add(-draftSize)
		r.drop(t)
		return nil
	}
	d, _ := r.drafts.Get().(*Draft)
	if d == nil {
		d = new(Draft)
	}
	d.to, d.size, d.id, d.tenant = t, draftSize, id, tenant
	r.mu.Lock()
	if d.next = r.live; d.next != nil {
		d.next.previous = d
	}
	r.live = d
	r.mu.Unlock()
	return d
}

// remember moves the request of a draft from live to known.
func (r *Recorder) remember(d *Draft) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known.add(d.id, d.tenant, d.to)
	r.unlink(d)
}

// unlink takes a draft out of live. The caller holds mu.
func (r *Recorder) unlink(d *Draft) {
	switch {
	case d.previous != nil:
		d.previous.next = d.next
	case r.live == d:
		r.live = d.next
	}
	if d.next != nil {
		d.next.previous = d.previous
	}
	d.next, d.previous = nil, nil
}

// grow reports whether a draft may have another n bytes.
func (r *Recorder) grow(d *Draft, n int64) bool {
	if r.bytes.Add(n) > maxDrafts {
		r.bytes.Add(-n)
		return false
	}
	d.size += n
	return true
}

// release gives a draft back.
func (r *Recorder) release(d *Draft) {
	r.mu.Lock()
	r.unlink(d)
	r.mu.Unlock()
	r.bytes.Add(-d.size)
	d.reset()
	r.drafts.Put(d)
}

// drop counts a request that is not recorded.
func (r *Recorder) drop(t *target) {
	r.count(t.policy, Dropped, 1)
	r.dropped.Store(time.Now().UnixNano())
	if r.slow.CompareAndSwap(false, true) {
		r.log(slowDisk, true)
	}
}

// slowDisk is the problem of requests that are dropped.
const slowDisk = "records: requests are not recorded, as the disk is slower than they come"

func (r *Recorder) count(policy, result string, n int) {
	for range n {
		if r.options.Count != nil {
			r.options.Count(policy, result)
		}
	}
}

func (r *Recorder) log(problem string, begins bool) {
	if r.options.Log != nil {
		r.options.Log(problem, begins)
	}
}

// enqueue adds an item, and reports whether it could: not if too many wait.
func (r *Recorder) enqueue(i item) bool {
	r.mu.Lock()
	full := len(r.items) >= maxQueue || r.closed
	if !full {
		r.items = append(r.items, i)
		if n := len(r.items); n == 1 || n == maxQueue/2 {
			r.signal()
		}
	}
	r.mu.Unlock()
	if full && i.draft != nil {
		r.drop(i.draft.to)
		r.release(i.draft)
	}
	return !full
}

// take returns the items that wait, and collects later ones in free.
func (r *Recorder) take(free []item) []item {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.items
	r.items = free[:0]
	return all
}

// run writes what waits until Close.
func (r *Recorder) run() {
	r.adopt()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var free []item
	for closing := false; !closing; {
		select {
		case <-r.wake:
			gathered := time.NewTimer(gather)
			select {
			case <-gathered.C:
			case <-r.wake: // half of maxQueue wait
			case <-r.closing:
			}
			gathered.Stop()
		case <-timer.C:
		case <-r.closing:
			closing = true
		}
		items := r.take(free)
		panics.Guard(r.options.Panicked, func() { r.write(items) })
		clear(items)
		free = items
		timer.Reset(r.maintain())
	}
	for _, t := range *r.targets.Load() {
		if err := t.ring.close(); err != nil {
			t.fail(err)
		}
	}
}

// adopt adds the rings of policies that do not record any more, so that their records do not stay.
func (r *Recorder) adopt() {
	entries, err := r.options.files.ReadDir(r.dir)
	if err != nil {
		return // there is none yet; what is wrong with it shows when it is written
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := maps.Clone(*r.targets.Load())
	for _, e := range entries {
		if e.IsDir() && all[e.Name()] == nil {
			all[e.Name()] = r.newTarget(e.Name())
		}
	}
	r.targets.Store(&all)
}

// maintain opens the rings, deletes what is too old or too much, and returns when to look again.
func (r *Recorder) maintain() time.Duration {
	wait := checkEvery
	for _, t := range *r.targets.Load() {
		panics.Guard(r.options.Panicked, func() {
			next, err := t.maintain(time.Now())
			if err != nil {
				t.fail(err)
			} else if next > 0 {
				wait = min(wait, next)
			}
		})
	}
	if r.slow.Load() && time.Since(time.Unix(0, r.dropped.Load())) >= checkEvery {
		r.slow.Store(false)
		r.log(slowDisk, false)
	}
	return wait
}

// maintain returns how long nothing of the target is too old; 0 if there is nothing.
func (t *target) maintain(now time.Time) (time.Duration, error) {
	if t.waits(now) {
		return 0, nil
	}
	t.ring.mu.Lock()
	defer t.ring.mu.Unlock()
	var b bounds
	s := t.settings.Load()
	if s != nil {
		b = s.bounds()
	}
	was := t.ring.lock != nil
	err := t.open(s)
	if s == nil && errors.Is(err, budget.ErrInUse) {
		return 0, nil // that process deletes what is too old
	}
	if err == nil && !was {
		t.works()
	}
	if err == nil {
		err = t.ring.expire(b, now)
	}
	if s != nil && err == nil {
		err = t.ring.shrink(b.limit())
	}
	if err != nil || len(t.ring.segments) == 0 {
		return 0, err
	}
	return max(t.ring.nextExpiry(b).Sub(now), time.Millisecond), nil
}

// open opens the ring and reads for which requests of earlier processes feedback is taken. The caller
// holds the ring.
func (t *target) open(s *Settings) error {
	if err := t.ring.open(); err != nil || s == nil || t.loaded {
		return err
	}
	t.loaded = true
	t.ring.recent(s.Keys, func(id, tenant string) { t.of.load(id, tenant, t) })
	return nil
}

// waits reports whether the ring failed a moment ago.
func (t *target) waits(now time.Time) bool {
	return !t.tried.IsZero() && now.Sub(t.tried) < retryAfter
}

// fail notes a problem of the ring. It is logged when it begins.
func (t *target) fail(err error) {
	t.tried = time.Now()
	problem := fmt.Sprintf("records of policy %s are not written: %v", t.policy, err)
	if errors.Is(err, budget.ErrInUse) {
		problem = fmt.Sprintf("records of policy %s are written by another process, which uses %s, and not by this one", t.policy, t.ring.dir)
	}
	t.mu.Lock()
	before := t.problem
	t.problem = problem
	t.mu.Unlock()
	if before == "" {
		t.of.log(problem, true)
	}
}

// works notes that the ring was written.
func (t *target) works() {
	t.tried = time.Time{}
	t.mu.Lock()
	before := t.problem
	t.problem = ""
	t.mu.Unlock()
	if before != "" {
		t.of.log(before, false)
	}
}

// write writes items to their rings.
func (r *Recorder) write(items []item) {
	byTarget := map[*target][]item{}
	for _, i := range items {
		t := i.to
		if i.draft != nil {
			t = i.draft.to
		}
		byTarget[t] = append(byTarget[t], i)
	}
	for t, list := range byTarget {
		t.write(list)
	}
}

// write writes items to the ring and counts the results.
func (t *target) write(list []item) {
	defer func() {
		for _, i := range list {
			if i.draft != nil {
				t.of.release(i.draft)
			}
		}
	}()
	s, now := t.settings.Load(), time.Now()
	if s == nil {
		return
	}
	requests := 0
	for _, i := range list {
		if i.draft != nil {
			requests++
		}
	}
	if t.waits(now) {
		t.of.count(t.policy, Failed, requests)
		return
	}
	written, err := t.writeTo(s, list, now)
	t.of.count(t.policy, Written, written)
	if errors.Is(err, syscall.ENOSPC) {
		err = errors.Join(err, t.giveRoom(s, now))
	}
	if err != nil {
		t.of.count(t.policy, Failed, requests-written)
		t.fail(err)
		return
	}
	t.works()
}

// giveRoom is that of the ring.
func (t *target) giveRoom(s *Settings, now time.Time) error {
	t.ring.mu.Lock()
	defer t.ring.mu.Unlock()
	return t.ring.giveRoom(s.bounds(), now)
}

// writeTo returns how many requests were written. A record that is too large is left out, and is no
// error.
func (t *target) writeTo(s *Settings, list []item, now time.Time) (written int, err error) {
	t.ring.mu.Lock()
	defer t.ring.mu.Unlock()
	if err := t.open(s); err != nil {
		return 0, err
	}
	t.ring.lost = 0
	for _, i := range list {
		if i.draft == nil {
			if err = t.ring.add(i.feedback.encode(now), s.bounds(), s.Keys, now); err != nil {
				return max(written-t.ring.lost, 0), err
			}
			continue
		}
		added, err := t.addRecord(s, i.draft, now)
		if err != nil {
			return max(written-t.ring.lost, 0), err
		}
		if added {
			written++
		}
	}
	err = t.ring.flush()
	return max(written-t.ring.lost, 0), err
}

// addRecord adds the record of a draft to the ring, without its body if it is too large with it.
func (t *target) addRecord(s *Settings, d *Draft, now time.Time) (added bool, err error) {
	t.of.remember(d)
	of := d.record(&t.of.parser, s)
	if t.of.forgotten.has(of) {
		return false, nil
	}
	for {
		entry, err := of.encode()
		if err != nil {
			return false, err
		}
		err = t.ring.add(entry, s.bounds(), s.Keys, now)
		if !errors.Is(err, errTooLarge) {
			return err == nil, err
		}
		if of.Body == nil {
			t.of.count(t.policy, Failed, 1)
			return false, nil
		}
		of.Body = nil
	}
}

// Problems lists what is wrong now, a line each.
func (r *Recorder) Problems() (lines []string) {
	if r == nil {
		return nil
	}
	all := *r.targets.Load()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t := all[name]
		t.mu.Lock()
		if t.problem != "" {
			lines = append(lines, t.problem)
		}
		t.mu.Unlock()
	}
	if r.slow.Load() {
		lines = append(lines, slowDisk)
	}
	return lines
}

// Close writes what waits, and returns when that is done or ctx ends. What comes later is dropped.
func (r *Recorder) Close(ctx context.Context) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.closing)
	}
	r.mu.Unlock()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("records: %w", ctx.Err())
	}
}
