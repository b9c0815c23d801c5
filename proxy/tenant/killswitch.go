package tenant

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sidenote/rewrite"
)

// A SwitchEntry limits the mode of a tenant.
type SwitchEntry struct {
	Tenant string // "" for every tenant without its own entry
	Mode   rewrite.Mode
	Since  time.Time
	Until  time.Time // zero: until it is removed
}

// in reports whether the entry is in force at now.
func (e SwitchEntry) in(now time.Time) bool { return e.Until.IsZero() || now.Before(e.Until) }

// String describes the entry for people.
func (e SwitchEntry) String() string {
	line := fmt.Sprintf("%s for %s since %s", e.Mode, who(e.Tenant), e.Since.Format(time.DateTime))
	if !e.Until.IsZero() {
		line += ", until " + e.Until.Format(time.DateTime)
	}
	return line
}

func who(tenant string) string {
	if tenant == "" {
		return "all tenants"
	}
	return "tenant " + tenant
}

// errInMemory is the error of PersistError if there is no SwitchStore.
var errInMemory = errors.New("there is no state folder that this process writes")

// A SwitchStore persists the entries over restarts.
type SwitchStore struct {
	Read  func() ([]byte, error) // returns nil if nothing is stored
	Write func([]byte) error
}

// A Switch holds the entries in force. Limit reads them without a lock; a nil Switch limits
// nothing. It is safe for concurrent use.
type Switch struct {
	entries atomic.Pointer[map[string]SwitchEntry] // by tenant; the map is immutable; nil if empty

	mu     sync.Mutex   // held to change entries
	keeper *SwitchStore // nil: the entries end with the process
	unkept error        // why the current entries are not persisted
	tell   func(line string)
	wake   chan struct{} // makes Run recompute the next expiry
}

// NewSwitch returns a Switch with the entries stored in keeper. tell is called with a log line for
// each change while the Switch is locked. If the stored entries cannot be read, it returns a
// Switch without entries and an error.
func NewSwitch(keeper *SwitchStore, tell func(line string)) (*Switch, error) {
	s := &Switch{keeper: keeper, tell: tell, wake: make(chan struct{}, 1)}
	if keeper == nil {
		return s, nil
	}
	data, err := keeper.Read()
	if err != nil || data == nil {
		return s, err
	}
	all, err := decode(data)
	if err != nil {
		return s, err
	}
	s.store(all)
	for _, e := range s.Entries(time.Now()) {
		tell("mode: " + e.String() + "; it was set before the start")
	}
	return s, nil
}

// Limit returns the highest mode that a tenant may have now; ok is false if nothing limits it.
func (s *Switch) Limit(tenant string, now time.Time) (limit rewrite.Mode, ok bool) {
	if s == nil {
		return 0, false
	}
	all := s.entries.Load()
	if all == nil {
		return 0, false
	}
	if e, own := (*all)[tenant]; own && e.in(now) {
		return e.Mode, true
	}
	e, common := (*all)[""]
	return e.Mode, common && e.in(now)
}

// Entries returns the entries in force, sorted by tenant; the one for all tenants comes first.
func (s *Switch) Entries(now time.Time) []SwitchEntry {
	all := slices.Collect(maps.Values(s.load()))
	all = slices.DeleteFunc(all, func(e SwitchEntry) bool { return !e.in(now) })
	slices.SortFunc(all, func(a, b SwitchEntry) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return all
}

// load returns the entries, which must not be changed.
func (s *Switch) load() map[string]SwitchEntry {
	if all := s.entries.Load(); all != nil {
		return *all
	}
	return nil
}

func (s *Switch) store(all map[string]SwitchEntry) {
	if len(all) == 0 {
		s.entries.Store(nil)
		return
	}
	s.entries.Store(&all)
}

// Set adds an entry, replacing that of the same tenant. It takes effect at once, even if it cannot
// be persisted; see PersistError.
func (s *Switch) Set(e SwitchEntry) {
	s.change(func(all map[string]SwitchEntry) []string {
		e.Since, e.Until = e.Since.Round(0), e.Until.Round(0) // drop the monotonic clock, which stops while the machine sleeps
		all[e.Tenant] = e
		return []string{"mode: " + e.String()}
	})
}

// Reset removes the entry of a tenant; "" removes only the entry for all tenants. It returns false
// if there is none.
func (s *Switch) Reset(tenant string) (found bool) {
	s.change(func(all map[string]SwitchEntry) []string {
		var e SwitchEntry
		if e, found = all[tenant]; !found {
			return nil
		}
		delete(all, tenant)
		return []string{"mode: override removed for " + who(tenant) + ", it was " + e.String()}
	})
	return found
}

// PersistError returns why the current entries would be lost in a restart; nil if they would not,
// or if there are none.
func (s *Switch) PersistError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unkept
}

// change applies edit to a copy of the entries, installs and persists it, and logs the lines that
// edit returns. If edit returns no lines, nothing changes.
func (s *Switch) change(edit func(all map[string]SwitchEntry) (lines []string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.load())
	if all == nil {
		all = map[string]SwitchEntry{}
	}
	lines := edit(all)
	if len(lines) == 0 {
		return
	}
	s.store(all)
	s.unkept = s.keep(all)
	for _, line := range lines {
		s.tell(line)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Switch) keep(all map[string]SwitchEntry) error {
	if s.keeper == nil {
		if len(all) == 0 {
			return nil
		}
		return errInMemory
	}
	return s.keeper.Write(encode(all))
}

// lookEvery is the longest wait between two checks for expired entries: the wall clock may be set,
// or continue while the machine sleeps.
const lookEvery = time.Minute

// Run removes expired entries until ctx is done. Limit does not depend on it.
func (s *Switch) Run(ctx context.Context) {
	for {
		timer := time.NewTimer(s.next(time.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.wake:
			timer.Stop()
		case <-timer.C:
			s.dropEnded(time.Now())
		}
	}
}

// next returns the time until the next expiry, at most lookEvery.
func (s *Switch) next(now time.Time) time.Duration {
	wait := lookEvery
	for _, e := range s.load() {
		if !e.Until.IsZero() {
			wait = min(wait, max(e.Until.Sub(now), 0))
		}
	}
	return wait
}

func (s *Switch) dropEnded(now time.Time) {
	s.change(func(all map[string]SwitchEntry) (lines []string) {
		for _, tenant := range slices.Sorted(maps.Keys(all)) {
			if e := all[tenant]; !e.in(now) {
				delete(all, tenant)
				lines = append(lines, "mode: override expired for "+who(tenant)+", it was "+e.String())
			}
		}
		return lines
	})
}

// A kept is the stored form of a SwitchEntry.
type kept struct {
	Tenant string    `json:"tenant,omitempty"`
	Mode   string    `json:"mode"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"`
}

// A file is the stored form of all entries.
type file struct {
	Version int    `json:"version"`
	Entries []kept `json:"entries"`
	Sum     string `json:"sum,omitempty"` // checksum of the entries; "" in files of older releases
}

// sumOf returns the checksum of entries.
func sumOf(entries []kept) string {
	data, err := json.Marshal(entries)
	if err != nil {
		panic("BUG: entries did not encode: " + err.Error())
	}
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE(data))
}

const fileVersion = 1

func encode(all map[string]SwitchEntry) []byte {
	f := file{Version: fileVersion, Entries: []kept{}}
	for _, tenant := range slices.Sorted(maps.Keys(all)) {
		e := all[tenant]
		f.Entries = append(f.Entries, kept{e.Tenant, e.Mode.String(), e.Since, e.Until})
	}
	f.Sum = sumOf(f.Entries)
	data, err := json.Marshal(f)
	if err != nil {
		panic("BUG: entries did not encode: " + err.Error())
	}
	return append(data, '\n')
}

func decode(data []byte) (map[string]SwitchEntry, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Version != fileVersion {
		return nil, fmt.Errorf("version %d is not known", f.Version)
	}
	if f.Entries == nil || f.Sum != "" && f.Sum != sumOf(f.Entries) {
		return nil, errors.New("the checksum is wrong")
	}
	all := map[string]SwitchEntry{}
	for _, k := range f.Entries {
		mode, err := rewrite.ParseMode(k.Mode)
		if err != nil {
			return nil, err
		}
		all[k.Tenant] = SwitchEntry{k.Tenant, mode, k.Since, k.Until}
	}
	return all, nil
}
