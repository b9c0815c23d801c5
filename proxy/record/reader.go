package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sidenote/cache"
)

// A KeyError says that records cannot be decrypted by the keys that were given.
type KeyError struct {
	Policy string
	Ring   []string // ids of the keys that the records need
	Given  []string // ids of the keys that were given
}

// Error names the keys.
func (e *KeyError) Error() string {
	ring, given := strings.Join(e.Ring, ", "), strings.Join(e.Given, ", ")
	switch {
	case given == "":
		return fmt.Sprintf("the records of policy %s are encrypted with the key %s, and no key is given for it; write record.key", e.Policy, ring)
	case !slices.ContainsFunc(e.Ring, func(id string) bool { return !slices.Contains(e.Given, id) }):
		return fmt.Sprintf("the records of policy %s are encrypted with another key than the given one, though it is named %s, too", e.Policy, ring)
	}
	return fmt.Sprintf("the records of policy %s are encrypted with the key %s, which is not among the given ones: %s", e.Policy, ring, given)
}

// A Reader reads the records in a folder, also while another process writes them. It changes nothing.
// It is a Store.
type Reader struct {
	files   fileSystem
	rings   []*readRing
	unread  []string
	damaged int
}

// readRing is a ring that is read.
type readRing struct {
	policy string
	dir    string
	keys   *cache.Keys
}

// Open opens the records of the policies whose keys are given, by policy. The folder is that of a
// Recorder. It returns a *KeyError if there are records, but all of them need another key, and an
// error that wraps fs.ErrNotExist if there are none.
func Open(dir string, keys map[string]*cache.Keys) (*Reader, error) {
	r := &Reader{files: disk{}}
	entries, err := r.files.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	var firstKey *KeyError
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		ring := &readRing{policy: e.Name(), dir: filepath.Join(dir, e.Name()), keys: keys[e.Name()]}
		readable, lacks, err := ring.check(r.files)
		if err != nil {
			return nil, err
		}
		if lacks != nil {
			firstKey = cmp.Or(firstKey, lacks)
			r.unread = append(r.unread, lacks.Error())
		}
		if readable {
			r.rings = append(r.rings, ring)
		}
	}
	switch {
	case len(r.rings) > 0:
		return r, nil
	case firstKey != nil:
		return nil, firstKey
	}
	return nil, fmt.Errorf("records: %s holds none: %w", dir, fs.ErrNotExist)
}

// check returns whether any segment can be read, and the error for those that cannot.
func (r *readRing) check(files fileSystem) (readable bool, lacks *KeyError, err error) {
	numbers, err := r.segments(files)
	if err != nil {
		return false, nil, err
	}
	for _, number := range numbers {
		h, err := r.header(files, number)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNotSegment): // deleted meanwhile, or damaged
		case err != nil:
			return false, nil, err
		case h.openedBy(r.keys, r.policy):
			readable = true
		default:
			if lacks == nil {
				lacks = &KeyError{Policy: r.policy}
				if r.keys != nil {
					lacks.Given = r.keys.IDs()
				}
			}
			if !slices.Contains(lacks.Ring, h.key) {
				lacks.Ring = append(lacks.Ring, h.key)
			}
		}
	}
	return readable, lacks, nil
}

// segments returns the numbers of the segments, oldest first.
func (r *readRing) segments(files fileSystem) (numbers []uint64, err error) {
	entries, err := files.ReadDir(r.dir)
	if err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	for _, e := range entries {
		if number, ok := segmentNumber(e.Name()); ok {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

func (r *readRing) path(number uint64) string { return filepath.Join(r.dir, segmentName(number)) }

func (r *readRing) header(files fileSystem, number uint64) (header, error) {
	f, err := files.Open(r.path(number))
	if err != nil {
		return header{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return readHeader(f)
}

// Unread says which records cannot be decrypted by the given keys, a line for each policy.
func (r *Reader) Unread() []string { return r.unread }

// Damaged returns how often the last call of All had to skip damage.
func (r *Reader) Damaged() int { return r.damaged }

// An entryAt is where a record is.
type entryAt struct {
	time    int64 // Unix nanoseconds
	ring    *readRing
	segment *readSegment
	offset  int64
}

// readSegment is a segment that is read.
type readSegment struct {
	number uint64
	head   header
}

// An index has what a first reading of all segments finds.
type index struct {
	entries  []entryAt
	feedback map[[2]string]float64 // by tenant and id
}

// All implements Store. It reads the files twice: feedback comes after the record that it is for, and
// a record is written when its request ends, while they are ordered by when it began. Segments that
// are deleted meanwhile are left out. It must not be called concurrently.
func (r *Reader) All(q Query) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		in, err := r.index(q)
		if err != nil {
			yield(nil, err)
			return
		}
		open := openSegments{files: r.files}
		defer open.close()
		for _, e := range in.entries {
			of, err := open.record(&e)
			if err != nil {
				r.damaged++
				continue
			}
			if q.Tenant != "" && of.Tenant != q.Tenant || q.Policy != "" && of.Policy != q.Policy {
				continue
			}
			of.By = e.ring.policy
			if score, ok := in.feedback[[2]string{of.Tenant, of.ID}]; ok {
				of.Feedback = &score
			}
			if !yield(of, nil) {
				return
			}
		}
	}
}

// maxRead limits the bytes of a segment that are read; larger ones are not ours.
const maxRead = 1 << 30

// index reads all segments that q may choose of.
func (r *Reader) index(q Query) (*index, error) {
	in := &index{feedback: map[[2]string]float64{}}
	r.damaged = 0
	for _, ring := range r.rings {
		numbers, err := ring.segments(r.files)
		if err != nil {
			return nil, err
		}
		for _, number := range numbers {
			if err := r.indexSegment(in, q, ring, number); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("records: %w", err)
			}
		}
	}
	slices.SortStableFunc(in.entries, func(a, b entryAt) int { return cmp.Compare(a.time, b.time) })
	return in, nil
}

func (r *Reader) indexSegment(in *index, q Query, ring *readRing, number uint64) error {
	data, err := readAll(r.files, ring.path(number), maxRead)
	if err != nil {
		return err
	}
	h, err := parseHeader(data[:min(len(data), maxHeader)])
	if err != nil {
		if len(data) > 0 { // else it is just being begun
			r.damaged++
		}
		return nil
	}
	if !h.openedBy(ring.keys, ring.policy) {
		return nil // it is in Unread
	}
	h.bound, h.check = nil, nil // they would keep data
	s := &readSegment{number, h}
	r.damaged += h.eachEntry(data, ring.keys, ring.policy, func(offset int64, entry []byte) bool {
		kind, at, text := readEntry(entry)
		switch {
		case kind == entryFeedback:
			var f feedback
			if json.Unmarshal(text, &f) == nil {
				in.feedback[[2]string{f.Tenant, f.ID}] = f.Score
			}
		case kind == entryRecord && q.spans(at):
			in.entries = append(in.entries, entryAt{at.UnixNano(), ring, s, offset})
		}
		return true
	})
	return nil
}

// spans reports whether a time is between Since and Until.
func (q *Query) spans(at time.Time) bool {
	return (q.Since.IsZero() || !at.Before(q.Since)) && (q.Until.IsZero() || at.Before(q.Until))
}

// maxOpen is how many segments are open at once: one for each of some policies.
const maxOpen = 16

// openSegments are the segments that were read last.
type openSegments struct {
	files fileSystem
	list  []openSegment // the latest first
}

type openSegment struct {
	of   *readSegment
	file file
}

func (o *openSegments) close() {
	for _, s := range o.list {
		_ = s.file.Close() // it was only read
	}
}

// record reads a record again.
func (o *openSegments) record(e *entryAt) (*Record, error) {
	f, err := o.open(e)
	if err != nil {
		return nil, err
	}
	head := make([]byte, frameHead)
	if _, err := f.ReadAt(head, e.offset); err != nil {
		return nil, err
	}
	n := e.segment.head.frameLength(head, e.offset)
	if n == 0 || n > maxRead {
		return nil, errNotSegment // it was rewritten
	}
	frame := make([]byte, n)
	if _, err := f.ReadAt(frame, e.offset); err != nil {
		return nil, err
	}
	entry, err := e.segment.head.open(frame, e.offset, e.ring.keys, e.ring.policy)
	if err != nil {
		return nil, err
	}
	_, _, text := readEntry(entry)
	of := new(Record)
	return of, json.Unmarshal(text, of)
}

// open returns the open file of a segment.
func (o *openSegments) open(e *entryAt) (file, error) {
	for i, s := range o.list {
		if s.of == e.segment {
			copy(o.list[1:], o.list[:i])
			o.list[0] = s
			return s.file, nil
		}
	}
	f, err := o.files.Open(e.ring.path(e.segment.number))
	if err != nil {
		return nil, err
	}
	if len(o.list) == maxOpen {
		_ = o.list[maxOpen-1].file.Close() // it was only read
		o.list = o.list[:maxOpen-1]
	}
	o.list = slices.Insert(o.list, 0, openSegment{e.segment, f})
	return f, nil
}
