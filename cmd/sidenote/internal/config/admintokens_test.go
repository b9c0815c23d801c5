package config_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/admin"
)

const upDocs = "upstream: https://u.test\nknowledge: {docs: ./docs, faq: ./faq}\n"

// Mistakes in admin.tokens are reported with the key and its place, and never show a token.
func TestAdminTokensRefused(t *testing.T) {
	files := disk{"one": "0123456789abcdef\n", "two": "fedcba9876543210", "copy": "0123456789abcdef", "short": "0123456789abcde", "empty": " \n", "words": "01234567 89abcdef"}
	f := func(tokens, want string) {
		t.Helper()
		files["c.yaml"] = upDocs + "admin: {token: {file: two}, tokens: [" + tokens + "]}\n"
		_, err := config.Load(files.source("c.yaml"))
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", tokens, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "0123456789abcde") {
			t.Errorf("%s: a token is shown", tokens)
		}
	}
	const a = "{name: a, scope: read, file: one}"
	f("{name: a, scope: read, file: short}", "c.yaml:3:61: admin.tokens[0].file: holds a token of 15 bytes; it needs 16 at least, as `openssl rand -hex 16` prints")
	f("{name: a, scope: read, file: empty}", `c.yaml:3:61: admin.tokens[0].file: "empty" is empty`)
	f("{name: a, scope: read, file: none}", `c.yaml:3:61: admin.tokens[0].file: "none" cannot be read: file does not exist`)
	f("{name: a, scope: read, file: words}", "c.yaml:3:61: admin.tokens[0].file: holds a space, line break or other byte that no header can carry")
	f("{name: a, scope: read}", "c.yaml:3:38: admin.tokens[0].file: is missing; name a file that holds the token, or give its sha256")
	f(fmt.Sprintf("{name: a, scope: read, file: one, sha256: %x}", sha256.Sum256([]byte("x"))), "c.yaml:3:72: admin.tokens[0].sha256: stands beside file; keep one")
	f(fmt.Sprintf("{name: a, scope: read, sha256: %x}", sha256.Sum256(nil)), "c.yaml:3:61: admin.tokens[0].sha256: is the digest of an empty token")
	f("{name: a, scope: read, sha256: 0123}", "c.yaml:3:69: admin.tokens[0].sha256: is not a SHA-256 in 64 hex digits; `sidenote key hash` makes one of a key")
	f("{scope: read, file: one}", "c.yaml:3:38: admin.tokens[0].name: is missing")
	f("{name: a, file: one}", "c.yaml:3:38: admin.tokens[0].scope: is missing")
	f("{name: a, scope: reed, file: one}", `c.yaml:3:55: admin.tokens[0].scope: "reed" is none of admin, write, read, metrics; did you mean read?`)
	f("{name: A b, scope: read, file: one}", `c.yaml:3:45: admin.tokens[0].name: "A b" is not a name; use 1 to 64 of a-z 0-9 _ -`)
	f("{name: a, scope: read, file: one, knowledge: [dosc]}", `c.yaml:3:84: admin.tokens[0].knowledge[0]: no base is named "dosc"; did you mean docs?`)
	f("{name: a, scope: metrics, file: one, knowledge: [docs]}", "c.yaml:3:75: admin.tokens[0].knowledge: limits tokens of the scopes read and write, not of metrics")
	f("{name: a, scope: read, file: one, expires: 2027-13-01}", `c.yaml:3:81: admin.tokens[0].expires: "2027-13-01" is not a date; write it as in 2027-01-31`)
	f(a+", {name: a, scope: read, sha256: "+strings.Repeat("12", 32)+"}", `c.yaml:3:74: admin.tokens[1].name: "a" is also the name of the token at c.yaml:3:39`)
	f(a+", {name: b, scope: read, file: copy}", "c.yaml:3:96: admin.tokens[1].file: is the same token as admin.tokens[0].file, at c.yaml:3:61")
	f(a+fmt.Sprintf(", {name: b, scope: admin, sha256: %x}", sha256.Sum256([]byte("0123456789abcdef"))), "c.yaml:3:97: admin.tokens[1].sha256: is the same token as admin.tokens[0].file, at c.yaml:3:61")
	f("{name: a, scope: read, file: two}", "c.yaml:3:61: admin.tokens[0].file: is the same token as admin.token, at c.yaml:3:9")
}

// Tokens of files and digests become tokens of the admin port, and open it to other machines.
func TestAdminTokens(t *testing.T) {
	digest := sha256.Sum256([]byte("elsewhere"))
	files := disk{"c.yaml": upDocs + fmt.Sprintf(`
admin:
  listen: 0.0.0.0:8081
  tokens:
    - {name: old, scope: admin, file: old, expires: 2027-01-31}
    - {name: new, scope: admin, file: new}
    - {name: edge, scope: read, sha256: %x, knowledge: [docs]}
`, digest), "old": "0123456789abcdef\n", "new": "fedcba9876543210"}
	c, err := config.Load(files.source("c.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got := c.AdminTokens()
	if len(got) != 3 || got[0].SHA256 != sha256.Sum256([]byte("0123456789abcdef")) || got[0].Scope != admin.ScopeAdmin ||
		!got[0].Expires.Equal(time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC)) || !got[1].Expires.IsZero() ||
		got[2].SHA256 != digest || got[2].Scope != admin.ScopeRead || fmt.Sprint(got[2].Knowledge) != "[docs]" {
		t.Errorf("got %+v", got)
	}
	day := func(text string) time.Time {
		d, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for at, want := range map[string]string{"2027-01-31T23:59:59Z": "0123456789abcdef", "2027-02-01T00:00:00Z": "fedcba9876543210"} {
		if got := c.AdminToken(day(at)).Reveal(); got != want {
			t.Errorf("at %s commands send %s", at, got)
		}
	}
	if got := c.Expired(day("2027-01-31T23:59:59Z")); len(got) != 0 {
		t.Errorf("on its last day: %v", got)
	}
	if got := c.Expired(day("2027-02-01T00:00:00Z")).Error(); got != "c.yaml:7:44: admin.tokens[0].expires: 2027-01-31 has passed; whoever has this token is refused" {
		t.Errorf("got %s", got)
	}
	src := files.source("c.yaml")
	src.NoSecrets = true
	delete(files, "old")
	if _, err := config.Load(src); err != nil {
		t.Errorf("offline: %v", err)
	}
	if _, err := config.AdminPort(files.source("c.yaml")); err != nil {
		t.Errorf("a command without the file: %v", err)
	}
}

// A token is compared by its name; a file with another token is a change that needs no restart.
func TestAdminTokensChange(t *testing.T) {
	load := func(tokens, content string) *config.Config {
		t.Helper()
		c, err := config.Load(disk{"c.yaml": upDocs + "admin: {tokens: [" + tokens + "]}\n", "a": content, "b": "another-token-of-b"}.source("c.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	one := load("{name: a, scope: read, file: a}", "0123456789abcdef")
	f := func(next *config.Config, want string) {
		t.Helper()
		if got := config.CompareConfigs(one, next).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := config.Running(one, next).AdminTokens(); fmt.Sprint(got) != fmt.Sprint(next.AdminTokens()) {
			t.Errorf("the running one has %v", got)
		}
	}
	f(one, "nothing changes\n")
	f(load("{name: a, scope: read, file: a}", "fedcba9876543210"), "admin.tokens.a.file: a, and what is read there has changed\n")
	f(load("{name: b, scope: write, file: b}, {name: a, scope: read, file: a}", "0123456789abcdef"), "admin.tokens.b.name: not set → b\nadmin.tokens.b.scope: not set → write\nadmin.tokens.b.file: not set → b\n")
}
