package budget

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// FileOptions configure a File.
type FileOptions struct {
	Now func() time.Time // the clock; time.Now if nil
	// Changed is called with the error when a problem of the ledger begins, and with nil when it
	// is over. It may be nil.
	Changed func(trouble error)
	// Notice is called with a line about something that was repaired; it may be nil.
	Notice func(line string)
}

// A File is a Ledger, Renewer and Reporter on a folder that works in any state of the folder.
// While the folder cannot be opened or written, Reserve fails with ErrSkipped.
//
// Damaged files are renamed to *.damaged and the ledger begins empty. Since earlier usage is
// unknown then, reservations with limits fail with ErrSkipped until somebody has removed these
// files; others are counted.
type File struct {
	dir string
	o   FileOptions

	memory atomic.Pointer[Memory] // nil until the folder could be opened

	mu      sync.Mutex // guards the fields below
	damage  error      // why files were set aside; nil if there are none
	failed  error      // why the folder cannot be opened or written
	told    error      // the last problem passed to Changed
	damaged atomic.Bool

	stop   context.CancelFunc
	ending sync.WaitGroup
}

// NewFile opens the ledger of a folder, which it creates if necessary. It fails only if another
// ledger uses the folder (ErrInUse); any other problem is reported by Trouble. Call Close when
// done with it.
func NewFile(dir string, o FileOptions) (*File, error) {
	o.Changed = orNothing(o.Changed)
	f := &File{dir: dir, o: o}
	if err := f.open(); errors.Is(err, ErrInUse) {
		return nil, err
	}
	f.tell()
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	f.ending.Go(func() { f.watch(ctx) })
	return f, nil
}

func orNothing(changed func(error)) func(error) {
	if changed == nil {
		return func(error) {}
	}
	return changed
}

// open opens the folder.
func (f *File) open() error {
	aside := func(err error) { f.setDamage(err) }
	m, err := openFile(f.dir, f.o.Now, opening{aside: aside, notice: f.o.Notice})
	f.setFailed(err)
	if err != nil {
		return err
	}
	if names, err := asides(f.dir); err == nil && len(names) > 0 {
		f.setDamage(fmt.Errorf("%w: %s", ErrCorrupt, filepath.Join(filepath.Base(f.dir), filepath.Base(names[0]))))
	}
	f.memory.Store(m)
	return nil
}

// setDamage records a damage, unless an earlier one is recorded.
func (f *File) setDamage(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.damage = cmp.Or(f.damage, err)
	f.damaged.Store(true)
}

func (f *File) setFailed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = err
}

// Trouble says why limits cannot be enforced at present; nil if they can. It wraps ErrCorrupt if
// files were damaged.
func (f *File) Trouble() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.damage != nil && f.failed == nil {
		return fmt.Errorf("%w; the damaged files are kept as *%s in %s: remove them to count anew", f.damage, asideSuffix, f.dir)
	}
	return f.failed
}

// tell calls Changed if a problem has begun or ended.
func (f *File) tell() {
	trouble := f.Trouble()
	f.mu.Lock()
	same := (trouble == nil) == (f.told == nil) && errors.Is(trouble, ErrCorrupt) == errors.Is(f.told, ErrCorrupt)
	f.told = trouble
	f.mu.Unlock()
	if !same {
		f.o.Changed(trouble)
	}
}

// A folder that cannot be opened is tried again after lookEvery, then after twice as long each
// time, up to openEvery.
const (
	lookEvery = time.Second
	openEvery = 10 * time.Second
)

// watch checks periodically whether problems have ended.
func (f *File) watch(ctx context.Context) {
	for wait := lookEvery; ; {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		f.Look()
		if wait = min(2*wait, openEvery); f.memory.Load() != nil {
			wait = lookEvery
		}
	}
}

// Look checks now whether a problem has begun or ended, as is done every second.
func (f *File) Look() {
	defer f.tell()
	m := f.memory.Load()
	if m == nil {
		_ = f.open() // open records it
		return
	}
	f.mu.Lock()
	failed, damaged := f.failed, f.damage
	f.mu.Unlock()
	if failed != nil || full(f.dir) {
		f.setFailed(m.probe())
	}
	if damaged == nil {
		return
	}
	if names, err := asides(f.dir); err == nil && len(names) == 0 {
		f.mu.Lock()
		f.damage = nil
		f.mu.Unlock()
		f.damaged.Store(false)
	}
}

// skipped returns the error for a call that changed nothing because of err.
func skipped(err error) error {
	if err == nil { // it is over by now
		return ErrSkipped
	}
	return fmt.Errorf("%w: %s", ErrSkipped, err)
}

// opened returns the Memory, or why there is none.
func (f *File) opened() (*Memory, error) {
	if m := f.memory.Load(); m != nil {
		return m, nil
	}
	return nil, skipped(f.Trouble())
}

// Reserve implements Ledger.
func (f *File) Reserve(ctx context.Context, r Reservation) (Decision, error) {
	m, err := f.opened()
	if err != nil {
		return Decision{}, err
	}
	if f.damaged.Load() && r.Limits != (Limits{}) {
		return Decision{}, skipped(f.Trouble())
	}
	d, err := m.Reserve(ctx, r)
	if err != nil {
		err = f.note(err)
	}
	return d, err
}

// note records a failed write, which changed nothing.
func (f *File) note(err error) error {
	if errors.Is(err, ErrInvalid) || errors.Is(err, ErrClosed) {
		return err
	}
	f.setFailed(err)
	f.tell()
	return skipped(err)
}

// Settle implements Ledger.
func (f *File) Settle(ctx context.Context, settlements ...Settlement) ([]Outcome, error) {
	m, err := f.opened()
	if err != nil {
		return nil, err
	}
	outcomes, err := m.Settle(ctx, settlements...)
	if err != nil {
		err = f.note(err)
	}
	return outcomes, err
}

// SettleNow settles a single settlement.
func (f *File) SettleNow(s Settlement) (Outcome, error) {
	m, err := f.opened()
	if err != nil {
		return "", err
	}
	outcome, err := m.SettleNow(s)
	if err != nil {
		err = f.note(err)
	}
	return outcome, err
}

// Renew implements Renewer.
func (f *File) Renew(ctx context.Context, t Ticket, lease time.Duration) (bool, error) {
	m, err := f.opened()
	if err != nil {
		return false, err
	}
	open, err := m.Renew(ctx, t, lease)
	if err != nil {
		err = f.note(err)
	}
	return open, err
}

// Usage implements Reporter. It fails while the usage is unknown.
func (f *File) Usage(ctx context.Context, tenant string, limits Limits) (Usage, error) {
	m, err := f.opened()
	if err != nil {
		return Usage{}, err
	}
	if f.damaged.Load() {
		return Usage{}, skipped(f.Trouble())
	}
	return m.Usage(ctx, tenant, limits)
}

// Close closes the folder. The ledger must not be used afterwards; open reservations will be
// charged.
func (f *File) Close() error {
	f.stop()
	f.ending.Wait()
	if m := f.memory.Load(); m != nil {
		return m.Close()
	}
	return nil
}
