package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sidenote/cache"
)

const (
	// segmentShare is how many segments a full ring has. The room of one more is kept free, to
	// rewrite one.
	segmentShare = 16
	// maxSegment is the largest size of a segment in bytes, unless a ring would have more than
	// maxSegments of them.
	maxSegment  = 8 << 20
	maxSegments = 1024
	// keepShare is the part of the time for which records are kept that one segment spans. A segment
	// is deleted when its first record is too old, so that none is kept for too long.
	keepShare = 64
)

// errTooLarge means that a record is larger than a segment may be.
var errTooLarge = errors.New("larger than a sixteenth of max")

// A ring is the folder with the records of a policy: numbered segments, of which the oldest are
// deleted before there are more than limit bytes. It is written by one process at a time, and may be
// read by others at any time. A new process begins a new segment, so that nothing follows what a
// killed one left unfinished.
type ring struct {
	files  fileSystem
	dir    string
	policy string

	mu       sync.Mutex
	lock     io.Closer // nil until it is open
	segments []segment // oldest first; the last one may be open for writing
	size     int64     // of all segments, including pending
	out      file      // the last segment; nil if none is open
	head     header    // of out
	keys     *cache.Keys
	pending  []byte // frames that are not yet written to out
	count    int    // of pending
	lost     int    // entries that add took and flush could not write
	last     uint64 // number of the last segment that was begun

	full time.Time // when the disk last was; zero: never
	room int64     // bytes of all segments for roomFor after that
}

// A segment is what a ring knows of one of its files.
type segment struct {
	number  uint64
	size    int64
	begun   time.Time
	expires time.Time
	key     string // "" if the head is damaged
}

// damagedFor is how long a segment with a damaged head is kept at most, as nothing else says it.
const damagedFor = 30 * 24 * time.Hour

// bounds limit a ring.
type bounds struct {
	keep time.Duration
	max  int64 // bytes of all files
}

func (b bounds) segment() int64 {
	return min(b.max/segmentShare, max(maxSegment, b.max/maxSegments))
}

func (b bounds) limit() int64 { return b.max - b.segment() }

// roomFor is how long a ring stays smaller after the disk was full.
const roomFor = time.Hour

// limit returns how many bytes all segments may have.
func (r *ring) limit(b bounds, now time.Time) int64 {
	if r.full.IsZero() || now.Sub(r.full) >= roomFor {
		return b.limit()
	}
	return min(r.room, b.limit())
}

// giveRoom deletes half of the ring when the disk is full, once a minute, as what requests wait for, such
// as the counts of their limits, is on it, too. The size of a segment stays, as less has no room for the
// next records.
func (r *ring) giveRoom(b bounds, now time.Time) error {
	if now.Sub(r.full) < checkEvery {
		return nil
	}
	r.full, r.room = now, max(r.size/2, b.segment())
	return r.shrink(r.room)
}

func (r *ring) path(number uint64) string { return filepath.Join(r.dir, segmentName(number)) }

// open makes this process the writer of the ring. It returns budget.ErrInUse if another one is.
func (r *ring) open() error {
	if r.lock != nil {
		return nil
	}
	if err := r.files.MkdirAll(r.dir); err != nil {
		return err
	}
	lock, err := r.files.Lock(filepath.Join(r.dir, lockName))
	if err != nil {
		return err
	}
	if r.segments, r.size, err = r.list(); err != nil {
		return errors.Join(err, lock.Close())
	}
	if n := len(r.segments); n > 0 {
		r.last = max(r.last, r.segments[n-1].number)
	}
	r.lock = lock
	return nil
}

// list reads the heads of all segments, and removes what an interrupted rewriting left.
func (r *ring) list() (list []segment, size int64, err error) {
	entries, err := r.files.ReadDir(r.dir)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), newSuffix) {
			if err := r.files.Remove(filepath.Join(r.dir, e.Name())); err != nil {
				return nil, 0, err
			}
		}
		number, ok := segmentNumber(e.Name())
		if !ok {
			continue
		}
		s, err := r.inspect(number)
		if err != nil {
			return nil, 0, err
		}
		list, size = append(list, s), size+s.size
	}
	slices.SortFunc(list, func(a, b segment) int { return cmp.Compare(a.number, b.number) })
	return list, size, nil
}

func (r *ring) inspect(number uint64) (segment, error) {
	f, err := r.files.Open(r.path(number))
	if err != nil {
		return segment{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return segment{}, err
	}
	s := segment{number: number, size: info.Size()}
	h, err := readHeader(f)
	if errors.Is(err, errNotSegment) {
		h.begun, h.expires, err = info.ModTime(), info.ModTime().Add(damagedFor), nil
	}
	if err != nil {
		return segment{}, err
	}
	s.begun, s.expires, s.key = h.begun, h.expires, h.key
	return s, nil
}

// close writes what is pending and gives the ring back.
func (r *ring) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lock == nil {
		return nil
	}
	err := errors.Join(r.flush(), r.endSegment(), r.lock.Close())
	r.lock = nil
	return err
}

// add appends an entry, which flush writes. After an error this entry is lost.
func (r *ring) add(entry []byte, b bounds, keys *cache.Keys, now time.Time) error {
	size := int64(len(entry) + frameAdded)
	if size+int64(maxHeader) > b.segment() {
		return errTooLarge
	}
	if err := r.expire(b, now); err != nil {
		return err
	}
	if r.out != nil && r.needsAnother(size, b, keys, now) {
		if err := errors.Join(r.flush(), r.endSegment()); err != nil {
			return err
		}
	}
	if r.out == nil {
		if err := r.begin(size, b, keys, now); err != nil {
			return err
		}
	}
	offset := r.segments[len(r.segments)-1].size + int64(len(r.pending))
	r.pending = r.head.appendFrame(r.pending, entry, offset, keys, r.policy)
	r.count++
	r.size += size
	return nil
}

// needsAnother reports whether an entry needs another segment.
func (r *ring) needsAnother(size int64, b bounds, keys *cache.Keys, now time.Time) bool {
	at := r.segments[len(r.segments)-1].size + int64(len(r.pending))
	return at+size > b.segment() || r.size+size > r.limit(b, now) || now.Sub(r.head.begun) >= b.keep/keepShare || now.Before(r.head.begun) ||
		r.keys != keys || r.head.expires.Sub(r.head.begun) != b.keep
}

// begin begins a segment that has room for size bytes.
func (r *ring) begin(size int64, b bounds, keys *cache.Keys, now time.Time) error {
	h, head := newHeader(now, now.Add(b.keep), keys, keys.IDs()[0], r.policy)
	if err := r.shrink(r.limit(b, now) - h.size - size); err != nil {
		return err
	}
	r.last++
	path := r.path(r.last)
	f, err := r.files.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(head)
	if err == nil {
		err = r.files.SyncDir(r.dir)
	}
	r.segments = append(r.segments, segment{number: r.last, size: h.size, begun: h.begun, expires: h.expires, key: h.key})
	r.size += h.size
	if err != nil {
		err = errors.Join(err, f.Close())
		if gone := r.files.Remove(path); gone == nil {
			r.segments, r.size = r.segments[:len(r.segments)-1], r.size-h.size
		}
		return err
	}
	r.out, r.head, r.keys = f, h, keys
	return nil
}

// flush writes the pending entries. After an error they are lost, and another segment is begun, since
// a part of them may have been written.
func (r *ring) flush() error {
	if r.count == 0 {
		return nil
	}
	last := &r.segments[len(r.segments)-1]
	n, err := r.out.Write(r.pending)
	last.size += int64(n)
	r.size -= int64(len(r.pending) - n)
	if err != nil {
		r.lost += r.count
	}
	r.pending, r.count = r.pending[:0], 0
	if cap(r.pending) > maxSegment/4 {
		r.pending = nil
	}
	if err != nil {
		_ = r.out.Close() // it failed already
		r.out = nil
	}
	return err
}

// endSegment closes the segment that is written.
func (r *ring) endSegment() error {
	if r.out == nil {
		return nil
	}
	err := errors.Join(r.out.Sync(), r.out.Close())
	r.out = nil
	return err
}

// shrink deletes the oldest segments until the others have at most size bytes.
func (r *ring) shrink(size int64) error {
	for r.size > size && len(r.segments) > 0 {
		if err := r.delete(0); err != nil {
			return err
		}
	}
	return nil
}

// expire deletes the segments whose records are too old. One that was begun while the clock was ahead is
// at least as old as the next one.
func (r *ring) expire(b bounds, now time.Time) error {
	old := false // the next one
	for i := len(r.segments) - 1; i >= 0; i-- {
		s := &r.segments[i]
		if old = !now.Before(s.expiry(b)) || old && now.Before(s.begun); !old {
			continue
		}
		if err := r.delete(i); err != nil {
			return err
		}
	}
	return nil
}

// nextExpiry returns when the first segment is to be deleted, zero if there is none.
func (r *ring) nextExpiry(b bounds) (next time.Time) {
	for i := range r.segments {
		if at := r.segments[i].expiry(b); i == 0 || at.Before(next) {
			next = at
		}
	}
	return next
}

// expiry returns when a segment is to be deleted: as its head says or, if that is earlier, as keep
// does. keep is 0 for a policy that does not record any more.
func (s *segment) expiry(b bounds) time.Time {
	if by := s.begun.Add(b.keep); b.keep > 0 && by.Before(s.expires) {
		return by
	}
	return s.expires
}

// delete deletes the i-th segment. What is pending for it is written before, so that it counts as deleted
// rather than lost.
func (r *ring) delete(i int) error {
	if i == len(r.segments)-1 && r.out != nil {
		if err := errors.Join(r.flush(), r.endSegment()); err != nil {
			return err
		}
	}
	if err := r.files.Remove(r.path(r.segments[i].number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r.size -= r.segments[i].size
	r.segments = slices.Delete(r.segments, i, i+1)
	return nil
}

// rewrite writes the segments anew without the entries that drop chooses, and without damaged ones. It
// returns the number of those that were chosen, and the keys of the segments that it could not read. most
// limits the bytes of all files meanwhile, unless it is 0.
func (r *ring) rewrite(keys *cache.Keys, most int64, drop func(kind byte, json []byte) bool) (dropped int, unread []string, err error) {
	if err := errors.Join(r.flush(), r.endSegment()); err != nil {
		return 0, nil, err
	}
	for i := 0; i < len(r.segments); {
		s := &r.segments[i]
		n, opened, err := r.rewriteSegment(s, keys, most, drop)
		if dropped += n; err != nil {
			return dropped, unread, err
		}
		if !opened && !slices.Contains(unread, s.key) {
			unread = append(unread, s.key)
		}
		if s.size == 0 {
			r.segments = slices.Delete(r.segments, i, i+1)
			continue
		}
		i++
	}
	return dropped, unread, nil
}

// rewriteSegment rewrites a segment if it has an entry to drop. One without any other entries is
// deleted, and has the size 0 then, as is one whose head is damaged. opened is false if keys lacks its
// key.
func (r *ring) rewriteSegment(s *segment, keys *cache.Keys, most int64, drop func(kind byte, json []byte) bool) (dropped int, opened bool, err error) {
	data, err := readAll(r.files, r.path(s.number), s.size)
	if err != nil {
		return 0, false, err
	}
	h, err := parseHeader(data[:min(len(data), maxHeader)])
	if err != nil {
		return 0, true, r.replace(s, nil)
	}
	if !h.openedBy(keys, r.policy) {
		return 0, false, nil
	}
	next, text := newHeader(h.begun, h.expires, keys, h.key, r.policy)
	left := 0
	h.eachEntry(data, keys, r.policy, func(_ int64, entry []byte) bool {
		if kind, _, json := readEntry(entry); drop(kind, json) {
			dropped++
			return true
		}
		left++
		text = next.appendFrame(text, entry, int64(len(text)), keys, r.policy)
		return true
	})
	switch {
	case len(text) == len(data): // nothing is left out, not even an entry that was cut off
		return 0, true, nil
	case left == 0, most > 0 && r.size+int64(len(text)) > most: // max was lowered, and there is no room for both
		text = nil
	}
	if err := r.replace(s, text); err != nil {
		return 0, true, err
	}
	return dropped, true, nil
}

// replace replaces a segment by one with another text, or deletes it if that is empty.
func (r *ring) replace(s *segment, text []byte) (err error) {
	if len(text) == 0 {
		err = r.files.Remove(r.path(s.number))
	} else {
		err = r.writeWhole(r.path(s.number), text)
	}
	if err != nil {
		return fmt.Errorf("rewrite %s: %w", segmentName(s.number), err)
	}
	r.size += int64(len(text)) - s.size
	s.size = int64(len(text))
	return r.files.SyncDir(r.dir)
}

// writeWhole replaces a file by one with another text, or leaves it as it was.
func (r *ring) writeWhole(path string, text []byte) error {
	fresh := path + newSuffix
	f, err := r.files.Create(fresh)
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = r.files.Rename(fresh, path)
	}
	if err != nil {
		return errors.Join(err, r.files.Remove(fresh))
	}
	return nil
}
