package admin_test

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/admin"
	"sidenote/proxy/tenant"
)

// The paged list of keys contains no key and no complete digest.
func TestKeys(t *testing.T) {
	key := func(text, of, name string, from, until time.Time) tenant.Key {
		return tenant.Key{SHA256: sha256.Sum256([]byte(text)), Name: name, NotBefore: from, Expires: until, Policy: &tenant.Policy{Tenant: of}}
	}
	day := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	d := tenant.NewDirectory(tenant.Tenants{Keys: []tenant.Key{
		key("abc", "support", "chat-app", day, day.AddDate(200, 0, 0)), key("b", "a-b", "", day.AddDate(200, 0, 0), time.Time{}), key("c", "a", "", time.Time{}, day),
	}})
	d.ByKey("abc", day)
	url := listen(t, admin.NewServer(handler(func(h *admin.Handler) { h.Tenants = d }).Handle, slog.New(slog.DiscardHandler)))
	got := ""
	for after := ""; ; after = "support/ba7816bf" {
		code, body := call(t, "GET", url+admin.KeysPath+"?order=asc&limit=2&after="+after, "")
		if code != 200 {
			t.Fatalf("%d: %s", code, body)
		}
		if got += body + "\n"; after != "" {
			break
		}
	}
	first, second := `{"object":"key","id":"a-b/3e23e816","tenant":"a-b","sha256_prefix":"3e23e816","status":"not_yet","not_before":"2226-01-31T00:00:00Z"}`,
		`{"object":"key","id":"a/2e7d2c03","tenant":"a","sha256_prefix":"2e7d2c03","status":"expired","expires":"2026-01-31T00:00:00Z"}`
	want := `{"object":"list","data":[` + first + "," + second + `],"first_id":"a-b/3e23e816","last_id":"a/2e7d2c03","has_more":true}`
	if page, rest, _ := strings.Cut(got, "\n"); page != want || !strings.Contains(rest, `"data":[]`) {
		t.Errorf("%s", got)
	}
	_, body := call(t, "GET", url+admin.KeysPath+"?order=asc&after=a/2e7d2c03", "")
	if want := `"data":[{"object":"key","id":"support/ba7816bf","tenant":"support","name":"chat-app","sha256_prefix":"ba7816bf","status":"valid","not_before":"2026-01-31T00:00:00Z","expires":"2226-01-31T00:00:00Z","last_used":"2026-01-31T00:00:00Z"}]`; !strings.Contains(body, want) {
		t.Errorf("%s", body)
	}
}

// A page of a long list is not computed from the complete list again. last_used is current.
func TestManyKeys(t *testing.T) {
	const n = 20_000
	keys := make([]tenant.Key, n)
	for i := range keys {
		keys[i] = tenant.Key{SHA256: sha256.Sum256([]byte(strconv.Itoa(i))), Policy: &tenant.Policy{Tenant: fmt.Sprintf("t%06d", i)}}
	}
	d := tenant.NewDirectory(tenant.Tenants{Keys: keys})
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.SetHost("localhost")
	h := handler(func(h *admin.Handler) { h.Tenants = d })
	page := func() {
		ctx.Response.Reset()
		ctx.Request.SetRequestURI(admin.KeysPath + "?order=asc&limit=100&after=t010000")
		h.Handle(&ctx)
	}
	page()
	d.ByKey("10007", time.Unix(3600, 0))
	if allocs := testing.AllocsPerRun(5, page); allocs > n/10 {
		t.Errorf("a page takes %v allocations", allocs)
	}
	if body := string(ctx.Response.Body()); strings.Count(body, `"object":"key"`) != 100 || strings.Count(body, `"last_used":"1970-01-01T01:00:00Z"`) != 1 {
		t.Errorf("%d: %.300s", ctx.Response.StatusCode(), body)
	}
}
