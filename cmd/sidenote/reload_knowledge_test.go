package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/explain"
)

// A reload adds and removes bases. An added one is read, watched and searched from then on; a
// removed one stays in the state folder. Documents of a previous folder are never searched.
func TestReloadBringsBases(t *testing.T) {
	up, dir := newRecorder(t), t.TempDir()
	config := filepath.Join(dir, "sidenote.yaml")
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path+"~", []byte(text), 0o600), os.Rename(path+"~", path))
		if err != nil {
			t.Fatal(err)
		}
	}
	configure := func(bases, hr string) {
		t.Helper()
		write("sidenote.yaml", fmt.Sprintf("upstream: %s/v1\nadmin: {token: {file: token}}\nknowledge: {docs: docs%s}\ntenants:\n  acme: {keys: [\"%x\"], knowledge: [docs]}\n%s",
			up.URL, bases, sha256.Sum256([]byte(acmeKey)), hr))
	}
	tenant := fmt.Sprintf("  hr: {keys: [\"%x\"], knowledge: [docs, hr]}\n", sha256.Sum256([]byte(umbraKey)))
	write("token", "t0ken")
	write("docs/leave.md", "# Leave\n\nEvery parent may take 16 weeks of parental leave.\n")
	write("hr/bonus.md", "# Bonus\n\nThe yearly bonus is paid in March, canary-one.\n")
	write("hr2/bonus.md", "# Bonus\n\nThe yearly bonus is paid in April, canary-two.\n")
	configure("", "")
	p := serve(t, "--config", config, "--state", filepath.Join(dir, "state"))
	asked := func(want int) string {
		t.Helper()
		status, text := posted(t, p.data+"/v1/chat/completions", umbraKey, `{"model":"m","messages":[{"role":"user","content":"When is the yearly bonus paid?"}]}`)
		if status != want {
			t.Fatalf("%d %s", status, text)
		}
		if want != http.StatusOK {
			return ""
		}
		return string(up.last(t).body)
	}
	changed := func(want string) {
		t.Helper()
		reloaded(t, p, http.StatusOK)
		p.out.until(t, want) // said by the watcher, if that was first
	}
	asked(http.StatusUnauthorized)
	configure(", hr: gone", tenant)
	if _, text := reloaded(t, p, http.StatusUnprocessableEntity); !strings.Contains(text, `knowledge.hr.path: folder \"`+filepath.Join(dir, "gone")+`\" not found`) {
		t.Error(text)
	}
	asked(http.StatusUnauthorized)

	configure(", hr: hr", tenant)
	changed("tenants added: hr; changed: knowledge.hr")
	p.out.until(t, `"msg":"knowledge","knowledge":"hr","files":1,`)
	if body := asked(http.StatusOK); !strings.Contains(body, "canary-one") {
		t.Errorf("got %s", body)
	}
	write("hr/late.md", "# Yearly bonus of late joiners\n\nWho joins late gets the yearly bonus paid in May, canary-late.\n")
	p.out.until(t, "knowledge hr: 1 document new or changed; now 2 files")
	if body := asked(http.StatusOK); !strings.Contains(body, "canary-late") {
		t.Errorf("got %s", body)
	}
	configure(", hr: hr2", tenant)
	changed("needs a restart and stays as it was: knowledge.hr.path")
	if body := asked(http.StatusOK); !strings.Contains(body, "canary-one") {
		t.Errorf("got %s", body)
	}

	configure("", "")
	changed("tenants removed: hr; changed: knowledge.hr")
	asked(http.StatusUnauthorized)
	var base explain.Base
	if err := json.Unmarshal([]byte(fetched(t, p.admin+"/v1/knowledge/hr")), &base); err != nil || base.Configured || base.Documents != 2 {
		t.Errorf("%+v, %v", base, err)
	}
	if status, text := posted(t, p.admin+"/v1/search", "t0ken", `{"query":"When is the yearly bonus paid?","knowledge":["hr"]}`); status != http.StatusOK || !strings.Contains(text, "canary-one") {
		t.Errorf("a search that began before finds nothing: %d %s", status, text)
	}

	configure(", hr: hr2", tenant)
	reloaded(t, p, http.StatusOK)
	for end, body := time.Now().Add(30*time.Second), ""; !strings.Contains(body, "canary-two"); {
		if body = asked(http.StatusOK); strings.Contains(body, "canary-one") || strings.Contains(body, "canary-late") || time.Now().After(end) {
			t.Fatalf("another folder is searched, or none: %s", body)
		}
	}
}
