package admin

import (
	"cmp"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy"
)

// KeysPath is the path of the list of tenants' keys.
const KeysPath = "/v1/keys"

// A Key is what is shown of a tenant's API key.
type Key struct {
	Object    string    `json:"object"` // "key"
	ID        string    `json:"id"`     // TENANT/PREFIX
	Tenant    string    `json:"tenant"`
	Name      string    `json:"name,omitempty"`
	Prefix    string    `json:"sha256_prefix"` // 8 hex digits
	Status    string    `json:"status"`        // "valid", "not_yet" or "expired"
	NotBefore time.Time `json:"not_before,omitzero"`
	Expires   time.Time `json:"expires,omitzero"`   // the end of its last day
	LastUsed  time.Time `json:"last_used,omitzero"` // to the minute, of this process and since its start
}

func keyOf(k proxy.KeyInfo, now time.Time) Key {
	status := "valid"
	switch {
	case now.Before(k.NotBefore):
		status = "not_yet"
	case !k.Expires.IsZero() && now.After(k.Expires):
		status = "expired"
	}
	return Key{
		Object: "key", ID: k.Tenant + "/" + k.Prefix, Tenant: k.Tenant, Name: k.Name, Prefix: k.Prefix,
		Status: status, NotBefore: k.NotBefore, Expires: k.Expires, LastUsed: k.LastUsed,
	}
}

// listKeys lists the keys of all tenants, without the keys themselves and their digests.
func listKeys(ctx *fasthttp.RequestCtx, tenants *proxy.Directory) error {
	var list []Key
	for _, k := range tenants.KeyList() {
		list = append(list, keyOf(k, ctx.Time()))
	}
	slices.SortFunc(list, func(a, b Key) int { return cmp.Compare(a.ID, b.ID) })
	return answerList(ctx, len(list), func(i int) string { return list[i].ID }, func(i int) Key { return list[i] })
}
