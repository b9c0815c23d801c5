package admin_test

import (
	"log/slog"
	"strings"
	"testing"

	"sidenote/proxy/admin"
)

// A caller that uses an unknown host name for the admin port is told which names work. The
// configuration has no list of names that could be extended.
func TestUnknownHostIsToldWhatWillDo(t *testing.T) {
	at := listen(t, admin.NewServer(handler(nil).Handle, slog.New(slog.DiscardHandler)))
	code, body := call(t, "GET", at+"/healthz", "", "Host: sidenote.example:8081")
	const want = `The admin port is not known as \"sidenote.example:8081\"; call it localhost or by its IP address, or send the admin token as a bearer token.`
	if code != 421 || !strings.Contains(body, want) {
		t.Errorf("%d %s", code, body)
	}
}
