package admin

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"sidenote/proxy/tenant"

	"github.com/valyala/fasthttp"
)

// KeysPath is the path of the list of API keys.
const KeysPath = "/v1/keys"

// A Key is the public description of a tenant's API key.
type Key struct {
	Object    string    `json:"object"` // "key"
	ID        string    `json:"id"`     // TENANT/PREFIX
	Tenant    string    `json:"tenant"`
	Name      string    `json:"name,omitempty"`
	Prefix    string    `json:"sha256_prefix"` // 8 hex digits
	Status    string    `json:"status"`        // "valid", "not_yet" or "expired"
	NotBefore time.Time `json:"not_before,omitzero"`
	Expires   time.Time `json:"expires,omitzero"`   // the end of its last day
	LastUsed  time.Time `json:"last_used,omitzero"` // to the minute, since this process started
}

func keyOf(id string, k tenant.KeyInfo, now time.Time) Key {
	status := "valid"
	switch {
	case now.Before(k.NotBefore):
		status = "not_yet"
	case !k.Expires.IsZero() && now.After(k.Expires):
		status = "expired"
	}
	return Key{
		Object: "key", ID: id, Tenant: k.Tenant, Name: k.Name, Prefix: k.Prefix,
		Status: status, NotBefore: k.NotBefore, Expires: k.Expires, LastUsed: k.LastUsed(),
	}
}

// A keyList holds the keys of a Directory sorted by ID. They are sorted at the first request: the
// list of 100,000 keys has a thousand pages.
type keyList struct {
	once   sync.Once
	sorted []listedKey
}

type listedKey struct {
	id string
	tenant.KeyInfo
}

// answer lists the keys of all tenants, without the keys themselves or their full digests.
func (l *keyList) answer(ctx *fasthttp.RequestCtx, tenants *tenant.Directory) error {
	l.once.Do(func() {
		for _, k := range tenants.KeyList() {
			l.sorted = append(l.sorted, listedKey{k.Tenant + "/" + k.Prefix, k})
		}
		slices.SortFunc(l.sorted, func(a, b listedKey) int { return cmp.Compare(a.id, b.id) })
	})
	return answerList(ctx, len(l.sorted), func(i int) string { return l.sorted[i].id }, func(i int) Key {
		return keyOf(l.sorted[i].id, l.sorted[i].KeyInfo, ctx.Time())
	})
}
