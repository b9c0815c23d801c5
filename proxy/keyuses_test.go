package proxy_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/tenant"
)

// A key is valid from its first day to its last. Outside of them its caller is refused, even if
// unidentified callers are accepted.
func TestKeyValidity(t *testing.T) {
	first, last := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 5, 3, 0, 0, 0, 0, time.UTC)
	k := keyOf("k", policyOf("acme", nil))
	k.NotBefore, k.Expires = first, last
	d := tenant.NewDirectory(tenant.Tenants{Keys: []tenant.Key{k}, Unknown: policyOf("web", nil)})
	for at, want := range map[time.Time]bool{
		first.Add(-1): false, first: true, last: true, last.Add(1): false,
	} {
		if p := d.ByKey("k", at); (p != nil) != want {
			t.Errorf("at %s the policy is %v", at, p)
		}
	}
}

// Lists show when keys were last used, to the minute, and 8 digits of their digests. A Directory
// that replaces another one keeps its records.
func TestKeyUses(t *testing.T) {
	named := keyOf("ka", policyOf("acme", nil))
	named.Name = "chat-app"
	tenants := tenant.Tenants{Keys: []tenant.Key{named, keyOf("kb", policyOf("beta", nil))}, Uses: new(tenant.KeyUses)}
	used := func(d *tenant.Directory, name string) time.Time {
		t.Helper()
		list := d.KeyList()
		i := slices.IndexFunc(list, func(k tenant.KeyInfo) bool { return k.Tenant == name })
		if sum := sha256.Sum256([]byte("ka")); name == "acme" && (list[i].Name != "chat-app" || list[i].Prefix != hex.EncodeToString(sum[:])[:8]) || strings.Contains(fmt.Sprintf("%v", list), hex.EncodeToString(sum[:])[:9]) {
			t.Errorf("the list is %+v", list)
		}
		return list[i].LastUsed()
	}
	d := tenant.NewDirectory(tenants)
	if last := used(d, "acme"); !last.IsZero() {
		t.Errorf("an unused key was used at %s", last)
	}
	now := time.Date(2026, 5, 1, 12, 30, 59, 0, time.UTC)
	d.ByKey("ka", now.Add(-time.Hour))
	d.ByKey("ka", now)
	d.ByKey("stranger", now)
	for name, d := range map[string]*tenant.Directory{"this": d, "the next": tenant.NewDirectory(tenants)} {
		if a, b := used(d, "acme"), used(d, "beta"); !a.Equal(now.Truncate(time.Minute)) || !b.IsZero() {
			t.Errorf("%s directory says %s and %s", name, a, b)
		}
	}
}

// Finding a caller by its key, and recording that, does not allocate.
func TestRecogniseAllocates(t *testing.T) {
	d := tenant.NewDirectory(tenant.Tenants{Keys: []tenant.Key{keyOf("k", policyOf("acme", nil))}})
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() { now = now.Add(time.Minute); d.ByKey("k", now) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
