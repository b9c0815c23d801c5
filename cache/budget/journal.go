package budget

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The files of a ledger: "lock", numbered segments of the journal, and "closed" after a Close.
// Damaged segments are kept with a suffix.
const (
	lockName     = "lock"
	segmentNames = "budget-*.log"
	segmentName  = "budget-%016d.log"
	closedName   = "closed"
	asideSuffix  = ".damaged"
	magic        = "sidenote budget 1\n"
)

// The next segment is started when one has minSegment bytes and segmentRatio times the size of all
// accounts.
const (
	minSegment   = 4 << 20
	segmentRatio = 3
)

// syncEvery is how often writes are synced, to survive a power failure. They survive the end of
// the process at once.
const syncEvery = time.Second

// A journal persists a Memory in a folder. Calls are appended to the current segment, after a
// snapshot of their account. So older segments can be deleted once all accounts have been written
// to the current one, a few at a time, and no call ever waits for a compaction.
type journal struct {
	dir      string
	accounts map[string]*account // those of the Memory
	lock     *os.File
	buf      []byte // reused; always empty

	file      *os.File
	segment   int64 // number of the segment
	enough    int64 // minimum bytes of a segment, minSegment
	size      int64
	sum       uint32   // checksum of the first size bytes
	snapshots int64    // bytes of size that are snapshots
	broken    bool     // there is an incomplete record after size
	pending   []string // tenants not yet written to this segment, while older segments exist

	written atomic.Pointer[os.File] // file written since the last sync, or nil
	stop    chan struct{}
	syncing sync.WaitGroup
}

// OpenFile returns a ledger that survives the end of the process, including kill -9, in a folder
// of its own, which it creates if necessary. Nothing that was acknowledged is lost unless the
// machine itself stops, which loses about the last second.
//
// Reservations that were open when the last process ended are charged their estimates. The error
// wraps ErrInUse if another process uses the folder, and ErrCorrupt if a file is damaged elsewhere
// than at its end. Call Close when done with it.
func OpenFile(dir string, now func() time.Time) (*Memory, error) {
	return openFile(dir, now, opening{})
}

// An opening says how to handle damaged or incomplete files.
type opening struct {
	// aside, if not nil, makes the ledger begin empty if a file is damaged: all segments are then
	// renamed, and aside is called with the damage.
	aside func(damage error)
	// notice, if not nil, is called with a line about an incomplete end that was dropped.
	notice func(line string)
}

func openFile(dir string, now func() time.Time, o opening) (*Memory, error) {
	m := NewMemory(now)
	j, err := openJournal(dir, m.accounts, o)
	if err != nil {
		return nil, fmt.Errorf("open the ledger of budgets in %s: %w", dir, err)
	}
	m.journal = j
	return m, nil
}

// Close closes the files. The ledger must not be used afterwards; open reservations will be
// charged.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.journal == nil {
		return nil
	}
	if err := m.journal.close(); err != nil {
		return fmt.Errorf("close the ledger of budgets: %w", err)
	}
	return nil
}

func openJournal(dir string, accounts map[string]*account, o opening) (_ *journal, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	j := &journal{dir: dir, accounts: accounts, stop: make(chan struct{}), buf: make([]byte, 0, 4<<10), enough: minSegment}
	if j.lock, err = os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.lock.Close())
		}
	}()
	if err := LockFile(j.lock); err != nil {
		return nil, err
	}
	old, err := j.read(o.notice)
	if errors.Is(err, ErrCorrupt) && o.aside != nil {
		clear(accounts)
		damage := err
		if err = setAside(old); err != nil {
			return nil, errors.Join(damage, err)
		}
		o.aside(damage)
		old = nil
	}
	if err != nil {
		return nil, err
	}
	for _, a := range accounts {
		a.chargeAll()
	}
	if err := j.rewrite(old); err != nil {
		return nil, err
	}
	_ = os.Remove(filepath.Join(dir, closedName)) // it does not apply to the new segment
	j.syncing.Go(j.keepSyncing)
	return j, nil
}

// setAside renames files, so that they are kept and not read again.
func setAside(names []string) error {
	for _, name := range names {
		if err := os.Rename(name, name+asideSuffix); err != nil {
			return err
		}
	}
	return nil
}

// asides returns the files that setAside has renamed and nobody has removed.
func asides(dir string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, segmentNames+asideSuffix))
	slices.Sort(names)
	return names, err
}

// read replays all segments and returns their names, also with an ErrCorrupt.
func (j *journal) read(notice func(line string)) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(j.dir, segmentNames))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	damaged, err := asides(j.dir)
	if err != nil {
		return nil, err
	}
	for _, name := range damaged { // their numbers are not reused
		var number int64
		if _, err := fmt.Sscanf(filepath.Base(name), segmentName, &number); err == nil {
			j.segment = max(j.segment, number)
		}
	}
	closed, err := readClosed(j.dir)
	if err != nil {
		closed = closedAt{} // the segments are checked without it
		if notice != nil {
			notice(err.Error())
		}
	}
	var corrupt error // the first error
	for _, name := range names {
		var number int64
		if _, err := fmt.Sscanf(filepath.Base(name), segmentName, &number); err != nil {
			corrupt = cmp.Or(corrupt, fmt.Errorf("%w: file %s", ErrCorrupt, name))
			continue
		}
		j.segment = max(j.segment, number)
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		at, err := readSegment(j.accounts, text)
		switch {
		case err != nil:
			corrupt = cmp.Or(corrupt, fmt.Errorf("%w: %s at byte %d: %w", ErrCorrupt, name, at, err))
		case number == closed.segment && !closed.is(text):
			corrupt = cmp.Or(corrupt, fmt.Errorf("%w: %s was changed after it was closed: %d of %d bytes are left, %d of them in complete records", ErrCorrupt, name, len(text), closed.size, at))
		case at < len(text) && notice != nil:
			notice(fmt.Sprintf("%s: the last %d bytes are no whole record and were dropped", name, len(text)-at))
		}
	}
	return names, corrupt
}

// rewrite starts a segment with all accounts and deletes the old ones.
func (j *journal) rewrite(old []string) (err error) {
	if err := j.begin(); err != nil {
		return err
	}
	whole := false
	defer func() {
		if err != nil {
			err = errors.Join(err, j.file.Close())
		}
		if err != nil && !whole { // the old ones are still there
			_ = os.Remove(j.file.Name())
		}
	}()
	for _, tenant := range slices.Sorted(maps.Keys(j.accounts)) {
		if err := j.checkpoint(tenant, j.accounts[tenant]); err != nil {
			return err
		}
	}
	if err := errors.Join(j.file.Sync(), syncDir(j.dir)); err != nil {
		return err
	}
	whole = true
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// begin starts the next segment.
func (j *journal) begin() error {
	name := filepath.Join(j.dir, fmt.Sprintf(segmentName, j.segment+1))
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if _, err := file.WriteString(magic); err != nil {
		return errors.Join(err, file.Close(), os.Remove(name))
	}
	j.file, j.size, j.snapshots, j.broken = file, int64(len(magic)), 0, false
	j.sum = crc32.Checksum([]byte(magic), castagnoli)
	j.segment++
	return nil
}

// checkpoint writes a snapshot of an account to the current segment, once.
func (j *journal) checkpoint(tenant string, a *account) error {
	if a.segment == j.segment {
		return nil
	}
	record, err := snapshotRecord(j.buf, tenant, a)
	if err != nil {
		return err
	}
	if err := j.append(record); err != nil {
		return err
	}
	a.segment = j.segment
	j.snapshots += int64(len(record))
	return nil
}

// write appends the record of a call, and continues the switch to a new segment.
func (j *journal) write(record []byte) error {
	if err := j.append(record); err != nil {
		return err
	}
	j.moveOn()
	return nil
}

// The header of a record: its length, the length xor lengthCheck, and the checksum of what
// follows.
const (
	headSize    = 12
	lengthCheck = 0x5bd1e995
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// append writes a record with one system call, so that it is complete in the file if the process
// ends afterwards.
func (j *journal) append(record []byte) error {
	if j.broken {
		if err := j.file.Truncate(j.size); err != nil {
			return err
		}
		j.broken = false
	}
	n := len(record)
	record = slices.Grow(record, headSize)[:n+headSize]
	copy(record[headSize:], record[:n])
	binary.LittleEndian.PutUint32(record, uint32(n))
	binary.LittleEndian.PutUint32(record[4:], uint32(n)^lengthCheck)
	binary.LittleEndian.PutUint32(record[8:], crc32.Checksum(record[headSize:], castagnoli))
	if cap(record) <= 64<<10 {
		j.buf = record[:0]
	}
	if _, err := j.file.WriteAt(record, j.size); err != nil {
		j.broken = true
		return err
	}
	j.size += int64(len(record))
	j.sum = crc32.Update(j.sum, castagnoli, record)
	j.written.Store(j.file)
	return nil
}

// moveOn starts a new segment if this one is large; after that it writes two more accounts to it
// per call, and deletes the old one after the last. Failures are retried after the next call.
func (j *journal) moveOn() {
	switch {
	case len(j.pending) > 0:
		for range min(2, len(j.pending)) {
			tenant := j.pending[len(j.pending)-1]
			if a := j.accounts[tenant]; a != nil && j.checkpoint(tenant, a) != nil {
				return
			}
			j.pending = j.pending[:len(j.pending)-1]
		}
		if len(j.pending) == 0 {
			j.deleteOld()
		}
	case j.size > max(j.enough, segmentRatio*j.snapshots):
		old := j.file
		if j.begin() != nil {
			return
		}
		j.syncing.Go(func() { _ = errors.Join(old.Sync(), old.Close()) })
		j.pending = slices.Collect(maps.Keys(j.accounts))
	}
}

// deleteOld deletes older segments after syncing the current one.
func (j *journal) deleteOld() {
	file, dir, present := j.file, j.dir, j.segment
	j.syncing.Go(func() {
		if errors.Join(file.Sync(), syncDir(dir)) != nil {
			return // they are deleted when the ledger is opened next
		}
		for n := present - 1; ; n-- {
			if err := os.Remove(filepath.Join(dir, fmt.Sprintf(segmentName, n))); err != nil {
				return
			}
		}
	})
}

func (j *journal) keepSyncing() {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-j.stop:
			return
		case <-tick.C:
			if file := j.written.Swap(nil); file != nil {
				_ = file.Sync() // an error means that it is closed, and was synced before
			}
		}
	}
}

// probeSize is more than the free space that the last block of a segment may have.
const probeSize = 64 << 10

// probe finds out whether the segment can grow. It leaves no trace; zeros at the end, as after a
// crash, are ignored when reading.
func (j *journal) probe() error {
	_, err := j.file.WriteAt(make([]byte, probeSize), j.size)
	cut := j.file.Truncate(j.size)
	j.broken = cut != nil
	return cmp.Or(err, cut)
}

func (j *journal) close() error {
	close(j.stop)
	j.syncing.Wait()
	err := j.file.Sync()
	if err == nil && !j.broken {
		_ = writeClosed(j.dir, closedAt{j.segment, j.size, j.sum}) // it only helps to detect damage
	}
	return errors.Join(err, j.file.Close(), j.lock.Close())
}

// A closedAt describes the last segment at Close. Without it, a segment that was truncated between
// two records, or damaged in its last one, looks like that of a killed process.
type closedAt struct {
	segment, size int64
	sum           uint32
}

func (c closedAt) is(text []byte) bool {
	return int64(len(text)) == c.size && crc32.Checksum(text, castagnoli) == c.sum
}

const closedLine = "segment %d size %d sum %08x"

func (c closedAt) String() string {
	line := fmt.Sprintf(closedLine, c.segment, c.size, c.sum)
	return fmt.Sprintf("%s check %08x\n", line, crc32.Checksum([]byte(line), castagnoli))
}

func writeClosed(dir string, c closedAt) error {
	fresh := filepath.Join(dir, closedName+".new")
	if err := os.WriteFile(fresh, []byte(c.String()), 0o600); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	return os.Rename(fresh, filepath.Join(dir, closedName))
}

// readClosed returns the zero value if there is no such file, as after a crash.
func readClosed(dir string) (c closedAt, err error) {
	name := filepath.Join(dir, closedName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return closedAt{}, nil
	}
	if err == nil {
		if _, scan := fmt.Sscanf(string(text), closedLine, &c.segment, &c.size, &c.sum); scan != nil || c.String() != string(text) {
			err = fmt.Errorf("%s is damaged", name)
		}
	}
	return c, err
}

// readSegment replays a segment. An incomplete record at the very end was never acknowledged and
// is ignored. The error says what is damaged before the end, and at is the position.
func readSegment(accounts map[string]*account, text []byte) (at int, err error) {
	if len(text) < len(magic) && bytes.HasPrefix([]byte(magic), text) {
		return 0, nil
	}
	if !bytes.HasPrefix(text, []byte(magic)) {
		return 0, errors.New("it is no ledger, or of a later version")
	}
	for at = len(magic); at < len(text); {
		rest := text[at:]
		if len(rest) < headSize {
			return at, nil
		}
		n := binary.LittleEndian.Uint32(rest)
		if n^lengthCheck != binary.LittleEndian.Uint32(rest[4:]) {
			if isZero(rest[headSize:]) {
				return at, nil // the file had grown when the machine stopped, but the text was not written
			}
			return at, errors.New("a length is damaged")
		}
		if int64(n) > int64(len(rest)-headSize) {
			return at, nil
		}
		end := headSize + int(n)
		if crc32.Checksum(rest[headSize:end], castagnoli) != binary.LittleEndian.Uint32(rest[8:]) {
			if end == len(rest) || isZero(rest[end:]) {
				return at, nil
			}
			return at, errors.New("a checksum is wrong")
		}
		if err := replay(accounts, rest[headSize:end]); err != nil {
			return at, err
		}
		at += end
	}
	return at, nil
}

func isZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }
