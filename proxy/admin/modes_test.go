package admin_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/admin"
	"sidenote/proxy/tenant"
)

// The kill switch is set, shown and reset over the admin port; invalid requests are refused with
// the field's name, and change nothing.
func TestModes(t *testing.T) {
	modes, err := tenant.NewSwitch(nil, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	h := handler(func(h *admin.Handler) { h.Modes, h.Token = modes, proxy.NewSecret("t0ken") })
	url := listen(t, admin.NewServer(h.Handle, slog.New(slog.DiscardHandler)))
	f := func(body string, code int, want string) {
		t.Helper()
		method := "POST"
		if body == "" {
			method = "GET"
		}
		got, answer := call(t, method, url+admin.ModePath, body, "Content-Type: application/json", "Authorization: Bearer t0ken")
		if got != code || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s, want %d %s", body, got, answer, code, want)
		}
	}
	f("", 200, `{"object":"list","data":[]}`)
	f(`{"mode":"on"}`, 400, `off, shadow, inject, tools or staged`)
	f(`{"mode":""}`, 400, `off, shadow, inject, tools or staged`)
	f(`{"mode":"off","tenant":"nobody"}`, 400, `There is no tenant \"nobody\"`)
	f(`{"mode":"off","for":"soon"}`, 400, `\"soon\" is not a time`)
	f(`{"mode":"off","for":"0s"}`, 400, `\"0s\" is not a time`)
	f(`{"mode":"off","for":"-5m"}`, 400, `is not a time`)
	f(`{"mode":"off","for":"9000h"}`, 400, `is not a time`)
	f(`{"mode":"auto","for":"5m"}`, 400, `takes no duration`)
	f(`{"mode":"auto"}`, 404, `Nothing is set for all tenants`)
	f(`{"mode":"auto","tenant":"acme"}`, 404, `Nothing is set for tenant \"acme\"`)
	f(`{"mode":"off","colour":"red"}`, 400, `colour`)
	f("", 200, `{"object":"list","data":[]}`)
	f(`{"mode":"shadow","tenant":"acme","for":"30m"}`, 200, `"data":[{"tenant":"acme","mode":"shadow","since":"`)
	f(`{"mode":"off"}`, 200, `"data":[{"mode":"off","since":"`)
	if all := modes.Entries(time.Now()); len(all) != 2 || all[1].Until.Sub(all[1].Since) != 30*time.Minute || !all[0].Until.IsZero() {
		t.Errorf("%v", all)
	}
	f("", 200, `"unkept":"there is no state folder`)
	code, answer := call(t, "POST", url+"/v1/rewrite?tenant=acme", chatBody, "Authorization: Bearer t0ken")
	if code != 200 || !strings.Contains(answer, "switched-from=inject") {
		t.Errorf("a dry run: %d %s", code, answer)
	}
	f(`{"mode":"off","tenant":"acme"}`, 200, `"tenant":"acme","mode":"off"`)
	if _, answer = call(t, "POST", url+"/v1/rewrite?tenant=acme", chatBody, "Authorization: Bearer t0ken"); !strings.Contains(answer, `"outcome":"untouched","reason":"switched-off","mode":"off"`) {
		t.Errorf("a dry run: %s", answer)
	}
	f(`{"mode":"auto","tenant":"acme"}`, 200, `"data":[{"mode":"off"`)
	f(`{"mode":"auto"}`, 200, `"data":[]}`)
}
