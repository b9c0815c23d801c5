package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/transport/transporttest"
	"sidenote/retrieval/engine/enginetest"
)

// A Postgres that asks for TLS and for certificates of clients is reached with both, and what is wrong
// with one of them is said. PgBouncer speaks TLS, as the Postgres of the tests is built without.
func TestPostgresIsReachedByTLS(t *testing.T) {
	authority, other := transporttest.NewAuthority(), transporttest.NewAuthority()
	end := time.Now().Add(time.Hour)
	server, client, stranger := authority.Issue(end, "db.internal"), authority.Issue(end), other.Issue(end)
	const secured = "client_tls_cert_file=server.pem\nclient_tls_key_file=server.key\nclient_tls_ca_file=ca.pem\nclient_tls_sslmode="
	database := enginetest.Database(t)
	reached := func(mode string) *url.URL {
		u, err := url.Parse(enginetest.PgBouncer(t, database, secured+mode, enginetest.File{Name: "server.pem", Text: server.Cert},
			enginetest.File{Name: "server.key", Text: server.Key}, enginetest.File{Name: "ca.pem", Text: authority.PEM}))
		if err != nil {
			t.Fatal(err)
		}
		u.User = nil
		return u
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{
		"ca": authority.PEM, "other-ca": other.PEM, "cert": client.Cert, "key": client.Key, "stranger-cert": stranger.Cert, "stranger-key": stranger.Key,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := func(u *url.URL, tls string) string {
		text := fmt.Sprintf("upstream: http://127.0.0.1:9\nknowledge: {docs: {engine: postgres, url: %q, user: postgres, path: %s%s}}\n", u, handbook(t), tls)
		name := filepath.Join(dir, "sidenote.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	refused := func(u *url.URL, tls string, want ...string) {
		t.Helper()
		c := start(t, noEnv, "knowledge", "init", "docs", "--config", config(u, tls))
		c.ends(t, exitFailed, "", "")
		if said := c.said.text.String(); !slices.ContainsFunc(want, func(w string) bool { return strings.Contains(said, w) }) {
			t.Errorf("it said %s\nnone of %q", said, want)
		}
	}
	plain, byHost := reached("require"), reached("verify-full")
	byName := *byHost
	byName.Host = "localhost:" + byHost.Port()

	// In TLS 1.3 a server judges the client's certificate after the client's side of the handshake: where the
	// client has written by then, the reset of the connection may overtake what the server says.
	const reset = "connection reset by peer"
	refused(plain, "", "SSL required")
	refused(plain, ", tls: {ca: other-ca}", "certificate signed by unknown authority")
	refused(&byName, ", tls: {ca: ca, cert: cert, key: key}", "certificate is valid for db.internal, not localhost")
	refused(byHost, ", tls: {ca: ca}", "certificate required", reset)
	refused(byHost, ", tls: {ca: ca, cert: stranger-cert, key: stranger-key}", "unknown certificate authority", reset)
	done(t, "knowledge", "init", "docs", "--config", config(plain, ", tls: {ca: ca}"))
	done(t, "ingest", "--config", config(&byName, ", tls: {ca: ca, cert: cert, key: key, server_name: db.internal}"))
	if found := done(t, "search", "--config", config(byHost, ", tls: {ca: ca, cert: cert, key: key}"), "parental leave"); !strings.Contains(found, "leave.md") {
		t.Errorf("found %s", found)
	}
}
