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

// A SwitchEntry is the highest mode that a tenant has for now.
type SwitchEntry struct {
	Tenant string // "": every tenant without an entry of its own
	Mode   rewrite.Mode
	Since  time.Time
	Until  time.Time // zero: until it is taken back
}

// in tells whether the entry counts at a time.
func (e SwitchEntry) in(now time.Time) bool { return e.Until.IsZero() || now.Before(e.Until) }

// String says what the entry does, for people.
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

// errInMemory is why entries without a SwitchStore are not kept.
var errInMemory = errors.New("there is no state folder that this process writes")

// A SwitchStore keeps the entries over a restart.
type SwitchStore struct {
	Read  func() ([]byte, error) // returns nil if nothing is kept
	Write func([]byte) error
}

// A Switch holds the entries that count. Limit reads them without a lock; a nil Switch has
// none. It is safe for concurrent use.
type Switch struct {
	entries atomic.Pointer[map[string]SwitchEntry] // by tenant, never changed; nil if there are none

	mu     sync.Mutex   // held to change entries
	keeper *SwitchStore // nil: they end with the process
	unkept error        // why the present entries are not kept
	tell   func(line string)
	wake   chan struct{} // tells Run that the next end may be another
}

// NewSwitch returns a Switch with the entries that keeper has. tell hears a line of each change,
// while the Switch is locked. If what is kept cannot be read, there are no entries, and the
// error says so.
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

// Limit returns the highest mode that a tenant may have now; ok is false if its policy
// alone decides.
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

// Entries returns the entries that count now, by tenant; that for all tenants is first.
func (s *Switch) Entries(now time.Time) []SwitchEntry {
	all := slices.Collect(maps.Values(s.load()))
	all = slices.DeleteFunc(all, func(e SwitchEntry) bool { return !e.in(now) })
	slices.SortFunc(all, func(a, b SwitchEntry) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return all
}

// load returns the entries; nobody may change them.
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

// Set puts an entry in place of that of the same tenant. It counts from now on, even if it
// cannot be kept; Kept tells that.
func (s *Switch) Set(e SwitchEntry) {
	s.change(func(all map[string]SwitchEntry) []string {
		e.Since, e.Until = e.Since.Round(0), e.Until.Round(0) // by the wall clock, which goes on while the machine sleeps
		all[e.Tenant] = e
		return []string{"mode: " + e.String()}
	})
}

// Reset takes the entry of a tenant back; "" is that for all tenants, and leaves those of
// single ones. It returns false if there is none.
func (s *Switch) Reset(tenant string) (found bool) {
	s.change(func(all map[string]SwitchEntry) []string {
		var e SwitchEntry
		if e, found = all[tenant]; !found {
			return nil
		}
		delete(all, tenant)
		return []string{"mode: as the policies say again for " + who(tenant) + ", it was " + e.String()}
	})
	return found
}

// Kept tells why the present entries would not be there after a restart; nil if they would,
// or if there are none.
func (s *Switch) Kept() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unkept
}

// change lets edit change a copy of the entries and puts that in place, keeps it and tells
// the lines that edit returns. Without any line nothing has changed.
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

// lookEvery is the longest time between two looks for entries that have ended: the wall
// clock may be set, or go on while the machine sleeps.
const lookEvery = time.Minute

// Run drops entries when their time is over, until ctx ends. Limit does not wait for it.
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

// next is how long nothing ends.
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
				lines = append(lines, "mode: as the policies say again for "+who(tenant)+"; over is "+e.String())
			}
		}
		return lines
	})
}

// A kept is an Entry as it is kept.
type kept struct {
	Tenant string    `json:"tenant,omitempty"`
	Mode   string    `json:"mode"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"`
}

// A file is all that is kept.
type file struct {
	Version int    `json:"version"`
	Entries []kept `json:"entries"`
	Sum     string `json:"sum,omitempty"` // of the entries; older releases wrote none
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
