package usage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sidenote/cache/budget"
)

// A book is what tenants used in a month.
type book map[string]map[Row]budget.Amount

// add adds an item, which counts as not distinguished if the tenant has too many rows.
func (b book) add(tenant string, i Item) {
	rows := b[tenant]
	if rows == nil {
		rows = map[Row]budget.Amount{}
		b[tenant] = rows
	}
	if _, known := rows[i.Row]; !known && len(rows) >= MaxRows {
		i.Row = i.folded()
	}
	rows[i.Row] = sum(rows[i.Row], i.Amount)
}

// sum adds two amounts, up to the largest number.
func sum(a, b budget.Amount) budget.Amount {
	add := func(x, y int64) int64 { return x + min(y, math.MaxInt64-x) }
	return budget.Amount{
		Requests: add(a.Requests, b.Requests), Tokens: add(a.Tokens, b.Tokens),
		Injected: add(a.Injected, b.Injected), Money: add(a.Money, b.Money),
	}
}

func (b book) items(tenant string) []Item {
	var items []Item
	for row, amount := range b[tenant] {
		items = append(items, Item{row, amount})
	}
	slices.SortFunc(items, func(x, y Item) int { return x.Compare(y.Row) })
	return items
}

// A Memory is a Store that ends with the process.
type Memory struct {
	mu    sync.Mutex
	books map[Month]book
	added map[account]int64 // number of the last batch; there is one Writer
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory { return &Memory{books: map[Month]book{}, added: map[account]int64{}} }

// Add implements Store.
func (m *Memory) Add(_ context.Context, batches []Batch) []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range batches {
		of := account{b.Tenant, b.Month}
		if b.Number <= m.added[of] {
			continue
		}
		m.added[of] = b.Number
		if m.books[b.Month] == nil {
			m.books[b.Month] = book{}
		}
		for _, i := range b.Items {
			m.books[b.Month].add(b.Tenant, i)
		}
		m.prune(b.Month)
	}
	return make([]error, len(batches))
}

// prune forgets the months that are not kept in the month now.
func (m *Memory) prune(now Month) {
	for _, month := range expired(slices.Collect(maps.Keys(m.books)), now) {
		delete(m.books, month)
		maps.DeleteFunc(m.added, func(of account, _ int64) bool { return of.month == month })
	}
}

// Tenants implements Reader.
func (m *Memory) Tenants(_ context.Context, month Month) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.books[month])), nil
}

// Items implements Reader.
func (m *Memory) Items(_ context.Context, month Month, tenant string) ([]Item, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.books[month].items(tenant), nil
}

// The files of a folder: "lock", and one for each month. A line of these is a checksum and an
// item; lines of the same row are added up.
const (
	lockName   = "lock"
	fileSuffix = ".usage"
	newSuffix  = ".new"
)

// A file with more than rewriteSize bytes is rewritten if its rows need less than a quarter of them.
const (
	rewriteSize  = 4 << 20
	rewriteRatio = 4
)

// A File is a Store in a folder, for one process at a time. What was added survives the end of the
// process at once, and the end of the machine after each Add. While the folder cannot be written,
// Add fails. Lines that are damaged are left out.
type File struct {
	dir    string
	notice func(line string)

	mu     sync.Mutex
	lock   *os.File // nil until the folder could be opened
	months map[Month]*monthFile
	last   Month // the last month that was read and is not in months
	told   book  // what is in its file
}

// A monthFile is a file that is open for writing.
type monthFile struct {
	file  *os.File
	size  int64 // of the complete lines
	cut   bool  // there may be bytes after size
	check int64 // size at which to find out whether to rewrite the file
	book  book
}

// NewFile returns the Store in a folder, which it creates. It fails with budget.ErrInUse if another
// process has opened the folder; other problems are reported by Add, which tries again. notice is
// called with a line about damaged lines; it may be nil. Call Close when done with it.
func NewFile(dir string, notice func(line string)) (*File, error) {
	if notice == nil {
		notice = func(string) {}
	}
	f := &File{dir: dir, notice: notice, months: map[Month]*monthFile{}}
	if err := f.open(); errors.Is(err, budget.ErrInUse) {
		return nil, err
	}
	return f, nil
}

// open opens the folder, if it is not open.
func (f *File) open() error {
	if f.lock != nil {
		return nil
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(f.dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := budget.LockFile(lock); err != nil {
		return errors.Join(err, lock.Close())
	}
	f.lock = lock
	return nil
}

// Close closes the files.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, m := range f.months {
		errs = append(errs, m.file.Close())
	}
	if f.lock != nil {
		errs = append(errs, f.lock.Close())
	}
	return errors.Join(errs...)
}

// Add implements Store. An error leaves the files as they were, so a batch that is repeated was not
// added.
func (f *File) Add(_ context.Context, batches []Batch) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	errs, byMonth := make([]error, len(batches)), map[Month][]int{}
	for i, b := range batches {
		byMonth[b.Month] = append(byMonth[b.Month], i)
	}
	for month, at := range byMonth {
		err := f.addTo(month, at, batches)
		for _, i := range at {
			errs[i] = err
		}
	}
	return errs
}

// addTo adds the batches at some indexes, which are of a month.
func (f *File) addTo(month Month, at []int, batches []Batch) error {
	m, err := f.month(month)
	if err != nil {
		return fmt.Errorf("usage of %s: %w", month, err)
	}
	var text []byte
	for _, i := range at {
		for _, item := range batches[i].Items {
			text = appendLine(text, batches[i].Tenant, item)
		}
	}
	if err := m.append(text); err != nil {
		return fmt.Errorf("usage of %s: %w", month, err)
	}
	for _, i := range at {
		for _, item := range batches[i].Items {
			m.book.add(batches[i].Tenant, item)
		}
	}
	if m.size > m.check {
		f.shrink(month, m)
	}
	return nil
}

// shrink rewrites a file that has several lines for most rows.
func (f *File) shrink(month Month, m *monthFile) {
	text := m.book.text()
	if m.check = 2 * m.size; m.size < rewriteRatio*int64(len(text)) {
		return
	}
	if err := f.rewrite(month, m, text); err != nil {
		f.notice("usage: " + err.Error()) // the file is still whole
	}
}

// append writes text at the end of the file, and takes back what was written of it if that fails.
func (m *monthFile) append(text []byte) error {
	if m.cut {
		if err := m.file.Truncate(m.size); err != nil {
			return err
		}
	}
	m.cut = true
	_, err := m.file.WriteAt(text, m.size)
	if err == nil {
		err = m.file.Sync()
	}
	if err != nil {
		m.cut = m.file.Truncate(m.size) != nil
		return err
	}
	m.cut = false
	m.size += int64(len(text))
	return nil
}

// month returns the file of a month. The first call for a month removes the files of months that
// are not kept.
func (f *File) month(month Month) (*monthFile, error) {
	if m := f.months[month]; m != nil {
		return m, nil
	}
	if err := f.open(); err != nil {
		return nil, err
	}
	f.prune(month)
	file, err := os.OpenFile(f.path(month), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	m := &monthFile{file: file, cut: true, check: rewriteSize}
	if m.book, m.size, err = f.read(month); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	f.last, f.told = "", nil
	for other, old := range f.months { // at most two are open: calls end around the turn of a month
		if len(f.months) > 1 {
			_ = old.file.Close()
			delete(f.months, other)
		}
	}
	f.months[month] = m
	return m, nil
}

func (f *File) path(month Month) string { return filepath.Join(f.dir, string(month)+fileSuffix) }

// prune removes the files of months that are not kept in the month now.
func (f *File) prune(now Month) {
	names, err := filepath.Glob(filepath.Join(f.dir, "*"+fileSuffix))
	if err != nil {
		return
	}
	var months []Month
	for _, name := range names {
		text := strings.TrimSuffix(filepath.Base(name), fileSuffix)
		if _, err := time.Parse(monthLayout, text); err == nil {
			months = append(months, Month(text))
		}
	}
	for _, month := range expired(months, now) {
		_ = os.Remove(f.path(month))
	}
}

// rewrite replaces the file of a month by one with a line for each row.
func (f *File) rewrite(month Month, m *monthFile, text []byte) error {
	fresh := f.path(month) + newSuffix
	file, err := os.OpenFile(fresh, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		return errors.Join(err, file.Close(), os.Remove(fresh))
	}
	// Windows renames no open file, nor over one.
	delete(f.months, month) // it is opened again when needed
	if err := errors.Join(file.Close(), m.file.Close()); err != nil {
		return err
	}
	return os.Rename(fresh, f.path(month))
}

func (b book) text() (text []byte) {
	for _, tenant := range slices.Sorted(maps.Keys(b)) {
		for _, i := range b.items(tenant) {
			text = appendLine(text, tenant, i)
		}
	}
	return text
}

// A line is an item in a file.
type line struct {
	Tenant   string `json:"tenant"`
	Kind     string `json:"kind"`
	Model    string `json:"model,omitempty"`
	Key      string `json:"key,omitempty"`
	Requests int64  `json:"requests,omitempty"`
	Tokens   int64  `json:"tokens,omitempty"`
	Injected int64  `json:"injected,omitempty"`
	Money    int64  `json:"nano_usd,omitempty"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumSize is the size of a checksum in hex and the blank behind it.
const sumSize = 9

func appendLine(b []byte, tenant string, i Item) []byte {
	text, err := json.Marshal(line{tenant, string(i.Kind), i.Model, i.Key, i.Requests, i.Tokens, i.Injected, i.Money})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return append(append(fmt.Appendf(b, "%08x ", crc32.Checksum(text, castagnoli)), text...), '\n')
}

func parseLine(text []byte) (tenant string, i Item, ok bool) {
	if len(text) < sumSize {
		return "", Item{}, false
	}
	sum, err := strconv.ParseUint(string(text[:sumSize-1]), 16, 32)
	text = text[sumSize:]
	var l line
	if err != nil || uint32(sum) != crc32.Checksum(text, castagnoli) || json.Unmarshal(text, &l) != nil {
		return "", Item{}, false
	}
	amount := budget.Amount{Requests: l.Requests, Tokens: l.Tokens, Injected: l.Injected, Money: l.Money}
	return l.Tenant, Item{Row{budget.Kind(l.Kind), l.Model, l.Key}, amount}, true
}

// read returns what is in the file of a month, and the size of its complete lines. A file that is
// absent is empty.
func (f *File) read(month Month) (book, int64, error) {
	text, err := os.ReadFile(f.path(month))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	size := bytes.LastIndexByte(text, '\n') + 1 // a write that was cut off was never acknowledged
	b, damaged := book{}, 0
	if bytes.IndexByte(text[size:], 0) >= 0 { // a crash of the system left a hole
		damaged++
	}
	for one := range bytes.Lines(text[:size]) {
		if tenant, item, ok := parseLine(bytes.TrimSuffix(one, []byte{'\n'})); ok {
			b.add(tenant, item)
		} else {
			damaged++
		}
	}
	if damaged > 0 {
		f.notice(fmt.Sprintf("usage: %d lines of %s are damaged and not counted", damaged, f.path(month)))
	}
	return b, int64(size), nil
}

// of returns the book of a month, from the file if it is not open.
func (f *File) of(month Month) (book, error) {
	if m := f.months[month]; m != nil {
		return m.book, nil
	}
	if f.last == month {
		return f.told, nil
	}
	b, _, err := f.read(month)
	if err != nil {
		return nil, fmt.Errorf("usage of %s: %w", month, err)
	}
	f.last, f.told = month, b
	return b, nil
}

// Tenants implements Reader.
func (f *File) Tenants(_ context.Context, month Month) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, err := f.of(month)
	return slices.Sorted(maps.Keys(b)), err
}

// Items implements Reader.
func (f *File) Items(_ context.Context, month Month, tenant string) ([]Item, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, err := f.of(month)
	return b.items(tenant), err
}
