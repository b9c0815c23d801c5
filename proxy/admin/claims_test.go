package admin_test

import (
	"log/slog"
	"strings"
	"testing"

	"sidenote/proxy/admin"
	"sidenote/proxy/tenant"
	"sidenote/retrieval/filter"
	"sidenote/rewrite"
)

// T07: callers here have no claims of a tenant's callers, so neither a dry run nor a search for a
// tenant whose filter depends on claims shows anything.
func TestTenantsWithClaims(t *testing.T) {
	byClaim := filter.Filter{Type: filter.In, Key: "department", Value: filter.Claim("departments")}
	url := listen(t, admin.NewServer(handler(func(h *admin.Handler) { h.Tenants.ByName("acme").Rewrite.Filter = &byClaim }).Handle, slog.New(slog.DiscardHandler)))
	for path, body := range map[string]string{
		"/v1/rewrite?tenant=acme": chatBody,
		"/v1/search?tenant=acme":  `{"query":"leave"}`,
	} {
		code, got := call(t, "POST", url+path, body)
		if code != 400 || !strings.Contains(got, `What tenant \"acme\" may see depends on the claim \"departments\" of its callers' tokens`) || strings.Contains(got, "kb1") {
			t.Errorf("%s: %d %s", path, code, got)
		}
	}
	if code, got := call(t, "POST", url+"/v1/search", `{"query":"leave"}`); code != 200 || !strings.Contains(got, "kb1") {
		t.Errorf("a search for no tenant: %d %s", code, got)
	}
}

// A dry run applies the override that fits the model.
func TestDryRunOfAnOverride(t *testing.T) {
	url := listen(t, admin.NewServer(handler(func(h *admin.Handler) {
		p := h.Tenants.ByName("acme")
		other := *p
		other.Rewrite.Mode = rewrite.Off
		p.Overrides = []tenant.Override{{Models: tenant.Models{"o3"}, Policy: &other}}
	}).Handle, slog.New(slog.DiscardHandler)))
	for model, want := range map[string]string{"o3": `"mode":"off"`, "o4": `"mode":"inject"`} {
		code, got := call(t, "POST", url+"/v1/rewrite?tenant=acme", `{"model":"`+model+`","messages":[{"role":"user","content":"How long is parental leave?"}]}`)
		if code != 200 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s", model, code, got)
		}
	}
}
