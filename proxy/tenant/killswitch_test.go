package tenant_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// A memory is an in-memory SwitchStore.
type memory struct {
	data []byte
	full error
}

func (m *memory) keeper() *tenant.SwitchStore {
	return &tenant.SwitchStore{
		Read: func() ([]byte, error) { return m.data, nil },
		Write: func(data []byte) error {
			if m.full == nil {
				m.data = slices.Clone(data)
			}
			return m.full
		},
	}
}

// lines collects the lines that a Switch logs, from any goroutine.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) tell(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

func (l *lines) told() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

func limit(t *testing.T, s *tenant.Switch, owner, want string) {
	t.Helper()
	got := ""
	if mode, ok := s.Limit(owner, time.Now()); ok {
		got = mode.String()
	}
	if got != want {
		t.Errorf("the limit of %q is %q, want %q", owner, got, want)
	}
}

// An entry is in force exactly until it expires; its end is logged and persisted.
func TestEntriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept memory
		var lines lines
		s, err := tenant.NewSwitch(kept.keeper(), lines.tell)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.Run(ctx) }()
		limit(t, s, "a", "")
		now := time.Now()
		s.Set(tenant.SwitchEntry{Mode: rewrite.Off, Since: now, Until: now.Add(30 * time.Minute)})
		s.Set(tenant.SwitchEntry{Tenant: "a", Mode: rewrite.Shadow, Since: now})
		limit(t, s, "a", "shadow") // its own entry replaces the one for all
		limit(t, s, "b", "off")
		<-time.After(30*time.Minute - 1)
		synctest.Wait()
		limit(t, s, "b", "off")
		if told := lines.told(); len(told) != 2 {
			t.Errorf("told %q", told)
		}
		<-time.After(1)
		limit(t, s, "b", "")
		synctest.Wait()
		limit(t, s, "a", "shadow")
		if told := lines.told(); len(told) != 3 || !strings.HasPrefix(told[2], "mode: override expired for all tenants, it was off for all tenants since ") {
			t.Errorf("told %q", told)
		}
		again, err := tenant.NewSwitch(kept.keeper(), lines.tell)
		if err != nil {
			t.Fatal(err)
		}
		limit(t, again, "a", "shadow")
		limit(t, again, "b", "")
		if !again.Reset("a") || again.Reset("a") || again.Reset("") {
			t.Error("Reset does not tell what there was")
		}
		limit(t, again, "a", "")
		if told := lines.told(); len(again.Entries(time.Now())) != 0 || len(told) != 5 {
			t.Errorf("%v, told %q", again.Entries(time.Now()), told)
		}
		cancel()
		<-ended
	})
}

// Entries that were set before a restart still expire in time, also while Run is not running.
func TestEntriesEndWhileNobodyRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept memory
		s, err := tenant.NewSwitch(kept.keeper(), func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		s.Set(tenant.SwitchEntry{Mode: rewrite.Off, Since: now, Until: now.Add(time.Hour)})
		<-time.After(time.Hour - 1)
		for _, want := range []string{"off", ""} {
			again, err := tenant.NewSwitch(kept.keeper(), func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			limit(t, again, "a", want)
			<-time.After(1)
		}
	})
}

// A switch works if entries cannot be persisted, and says why they are not.
func TestUnkept(t *testing.T) {
	kept := memory{full: errors.New("no space")}
	for name, keeper := range map[string]*tenant.SwitchStore{"no space": kept.keeper(), "no state folder": nil} {
		s, err := tenant.NewSwitch(keeper, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.PersistError(); err != nil {
			t.Errorf("%s: nothing is set: %v", name, err)
		}
		s.Set(tenant.SwitchEntry{Mode: rewrite.Off, Since: time.Now()})
		limit(t, s, "a", "off")
		if err := s.PersistError(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var none *tenant.Switch
	limit(t, none, "a", "")
}

// Unreadable data is an error, and nothing is set.
func TestUnreadable(t *testing.T) {
	for _, data := range []string{"", "{", `{"version":2}`, `{"version":1,"entries":[{"mode":"on"}]}`} {
		s, err := tenant.NewSwitch(&tenant.SwitchStore{Read: func() ([]byte, error) { return []byte(data), nil }}, func(string) {})
		if err == nil {
			t.Errorf("%q is read", data)
		}
		limit(t, s, "a", "")
	}
}

// A file of modes with a flipped bit, cut, or filled with zeros gives the original entries or an
// error, but never other modes.
func TestNoDamageChangesModes(t *testing.T) {
	var sound memory
	s, err := tenant.NewSwitch(sound.keeper(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	s.Set(tenant.SwitchEntry{Tenant: "acme", Mode: rewrite.Off, Since: now, Until: now.Add(time.Hour)})
	s.Set(tenant.SwitchEntry{Mode: rewrite.Shadow, Since: now})
	want := s.Entries(now)
	found := 0
	check := func(how string, data []byte) {
		damaged := memory{data: data}
		s, err := tenant.NewSwitch(damaged.keeper(), func(string) {})
		if err != nil {
			found++
			if got := s.Entries(now); len(got) != 0 {
				t.Errorf("%s: %v with an error", how, got)
			}
			return
		}
		same := func(a, b tenant.SwitchEntry) bool {
			return a.String() == b.String() && a.Since.Equal(b.Since) && a.Until.Equal(b.Until)
		}
		if got := s.Entries(now); !slices.EqualFunc(got, want, same) {
			t.Errorf("%s: %v, want %v", how, got, want)
		}
	}
	for at := range 8 * len(sound.data) {
		flipped := slices.Clone(sound.data)
		flipped[at/8] ^= 1 << (at % 8)
		check(fmt.Sprintf("bit %d of byte %d", at%8, at/8), flipped)
	}
	for n := range sound.data[1:] {
		check(fmt.Sprintf("cut after %d bytes", n), sound.data[:n])
	}
	check("zeros", make([]byte, len(sound.data)))
	if all := 9 * len(sound.data); found < all/2 {
		t.Errorf("%d damages of %d were found", found, all)
	}
}
