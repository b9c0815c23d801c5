package remote_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"sidenote/retrieval/knowledge/remote"
)

// A repository is a bare git repository and a folder to commit from.
type repository struct {
	t    *testing.T
	root string // the folder that is served
	work string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t: t, root: t.TempDir(), work: t.TempDir()}
	r.git("init", "-q", "-b", "main", r.work)
	r.git("init", "-q", "-b", "main", "--bare", filepath.Join(r.root, "r.git"))
	for _, allowed := range []string{"uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"} {
		r.git("-C", filepath.Join(r.root, "r.git"), "config", allowed, "true")
	}
	return r
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	c := exec.Command("git", args...)
	c.Dir = r.work
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := c.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *repository) write(name, text string) {
	r.t.Helper()
	name = filepath.Join(r.work, name)
	must(r.t, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644))
}

// push commits everything and pushes it to a branch.
func (r *repository) push(branch string) {
	r.t.Helper()
	r.git("add", "-A", ".")
	r.git("commit", "-q", "--allow-empty", "-m", "change")
	r.git("push", "-q", "-f", filepath.Join(r.root, "r.git"), "HEAD:"+branch)
}

// serve serves the repository by git itself. wrap, which may be nil, sees each request first.
func (r *repository) serve(wrap func(w http.ResponseWriter, q *http.Request, next http.Handler)) string {
	r.t.Helper()
	program, err := exec.LookPath("git")
	must(r.t, err)
	next := &cgi.Handler{Path: program, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + r.root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1"}, Stderr: io.Discard}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if wrap == nil {
			next.ServeHTTP(w, q)
			return
		}
		wrap(w, q, next)
	}))
	r.t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL + "/r.git"
}

// A repository is mirrored, and then only what changes: new, changed, moved and deleted files, and
// files that become folders.
func TestGitFollowsABranch(t *testing.T) {
	repo := newRepository(t)
	repo.write("docs/a.md", "# A\n")
	repo.write("docs/sub/ü b.md", "# B\n")
	repo.write("docs/x", "text")
	repo.write("other.md", "# Other\n")
	must(t, os.Symlink("a.md", filepath.Join(repo.work, "docs", "link.md")))
	repo.push("main")
	source := remote.Git{URL: repo.serve(nil), Ref: "main", Path: "/docs/", Network: private}
	m := mirrorOf(t, source)
	r := fetch(t, source, m)
	if r.Fetched != 4 || r.Failed != 0 || r.Commit != repo.git("rev-parse", "HEAD") || r.Bytes == 0 {
		t.Errorf("the report is %+v", r)
	}
	holds(t, m, "a.md", "sub/ü b.md", "x", "link.md")
	if r = fetch(t, source, m); r.Fetched != 0 || r.Bytes != 0 || r.Unchanged != 4 || m.Fetched().IsZero() {
		t.Errorf("without a change the report is %+v", r)
	}
	must(t, os.Remove(filepath.Join(repo.work, "docs", "x")), os.RemoveAll(filepath.Join(repo.work, "docs", "sub")))
	repo.write("docs/x/y.md", "deep")
	repo.write("docs/sub", "a file now")
	repo.write("docs/a.md", "# A2\n")
	repo.push("main")
	if r = fetch(t, source, m); r.Fetched != 3 || r.Unchanged != 1 {
		t.Errorf("after a change the report is %+v", r)
	}
	holds(t, m, "a.md", "sub", "x/y.md", "link.md")
	if text := filesOf(t, m)["a.md"]; text != "# A2\n" {
		t.Errorf("a.md is %q", text)
	}
	must(t, os.Remove(filepath.Join(m.Path(), "a.md"))) // somebody tidied up
	fetch(t, source, m)
	holds(t, m, "a.md", "sub", "x/y.md", "link.md")
}

// A branch, a tag and a commit are found by name; what is not there is said, and nothing is removed.
func TestGitRefs(t *testing.T) {
	repo := newRepository(t)
	repo.write("a.md", "one")
	repo.push("main")
	first := repo.git("rev-parse", "HEAD")
	repo.git("tag", "-a", "-m", "tag", "v1")
	repo.git("push", "-q", filepath.Join(repo.root, "r.git"), "v1")
	repo.write("a.md", "two")
	repo.push("main")
	repo.write("a.md", "three")
	repo.push("feature/x")
	url := repo.serve(nil)
	for ref, want := range map[string]string{"": "two", "main": "two", "v1": "one", "feature/x": "three", "refs/heads/main": "two", first: "one"} {
		source := remote.Git{URL: url, Ref: ref, Network: private}
		m := mirrorOf(t, source)
		fetch(t, source, m)
		if text := filesOf(t, m)["a.md"]; text != want {
			t.Errorf("%q has %q, want %q", ref, text, want)
		}
	}
	source := remote.Git{URL: url, Ref: "feature/x", Network: private}
	m := mirrorOf(t, source)
	fetch(t, source, m)
	repo.git("push", "-q", filepath.Join(repo.root, "r.git"), ":feature/x")
	failing(t, source, m, `no branch or tag "feature/x"`)
	holds(t, m, "a.md")
	source.Path = "none"
	source.Ref = "main"
	failing(t, source, m, `no folder "none"`)
	holds(t, m, "a.md")
}

// History that was rewritten, and a clone that somebody damaged, are fetched anew.
func TestGitRewrittenAndDamaged(t *testing.T) {
	repo := newRepository(t)
	repo.write("a.md", "one")
	repo.push("main")
	source := remote.Git{URL: repo.serve(nil), Network: private}
	dir := t.TempDir()
	m, err := remote.OpenMirror(dir, source.String())
	must(t, err)
	t.Cleanup(func() { must(t, m.Close()) })
	fetch(t, source, m)
	repo.write("a.md", "two")
	repo.git("commit", "-q", "-a", "--amend", "-m", "other")
	repo.git("push", "-q", "-f", filepath.Join(repo.root, "r.git"), "HEAD:main")
	fetch(t, source, m)
	packs, err := filepath.Glob(filepath.Join(dir, "git", "objects", "pack", "*.pack"))
	must(t, err)
	for _, name := range packs {
		must(t, os.Chmod(name, 0o600), os.WriteFile(name, []byte("damaged"), 0o600))
	}
	repo.write("b.md", "three")
	repo.push("main")
	fetch(t, source, m)
	if got := filesOf(t, m); got["a.md"] != "two" || got["b.md"] != "three" {
		t.Errorf("the mirror has %q", got)
	}
}

// Large files, submodules, files in LFS and links that lead out are left out and named.
func TestGitLeavesOut(t *testing.T) {
	repo := newRepository(t)
	repo.write("a.md", "text")
	repo.write("large.bin", strings.Repeat("0123456789", 1000))
	repo.write("lfs.pdf", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
	must(t, os.Symlink("/etc/passwd", filepath.Join(repo.work, "passwd.md")))
	repo.push("main")
	repo.git("update-index", "--add", "--cacheinfo", "160000,"+repo.git("rev-parse", "HEAD")+",module")
	repo.git("commit", "-q", "-m", "module")
	repo.git("push", "-q", filepath.Join(repo.root, "r.git"), "HEAD:main")
	source := remote.Git{URL: repo.serve(nil), Network: private, Limits: remote.Limits{File: 5000}}
	m := mirrorOf(t, source)
	r := fetch(t, source, m)
	notes := strings.Join(r.Notes, "\n")
	for _, want := range []string{"1 files of more than 5000 bytes", "Git LFS are not fetched, such as lfs.pdf", "submodule module"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes are %q, want %q", notes, want)
		}
	}
	holds(t, m, "a.md", "passwd.md")
}

func TestGitCredentials(t *testing.T) {
	repo := newRepository(t)
	repo.write("a.md", "text")
	repo.push("main")
	url := repo.serve(func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		if user, password, _ := q.BasicAuth(); user != "git" || password != "s3cret" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, q)
	})
	source := remote.Git{URL: url, Network: private, Password: func() string { return "wr0ng" }}
	m := mirrorOf(t, source)
	failing(t, source, m, "refuses the credentials")
	source.Password = func() string { return "s3cret" }
	fetch(t, source, m)
	holds(t, m, "a.md")
}

// Whatever a server does, a fetch ends with a line, and the mirror is as it was.
func TestGitFaults(t *testing.T) {
	repo := newRepository(t)
	repo.write("a.md", "one")
	repo.push("main")
	var current atomic.Pointer[fault]
	url := repo.serve(func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		if f := current.Load(); f == nil || !(*f)(w, q) {
			next.ServeHTTP(w, q)
		}
	})
	source := remote.Git{URL: url, Network: private, Limits: remote.Limits{Idle: 300 * time.Millisecond, Bytes: 1 << 20, Total: time.Minute}}
	m := mirrorOf(t, source)
	fetch(t, source, m)
	repo.write("a.md", "two")
	repo.push("main")
	post := func(q *http.Request) bool { return q.Method == http.MethodPost }
	endless := func(w http.ResponseWriter, start string) {
		_, _ = io.WriteString(w, start)
		chunk := bytes.Repeat([]byte("0005x"), 20_000)
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	hang := func(q *http.Request) { <-q.Context().Done() }
	for name, f := range map[string]struct {
		fault fault
		want  string
	}{
		"error": {func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true }, "500"},
		"hang":  {func(_ http.ResponseWriter, q *http.Request) bool { hang(q); return true }, "sent nothing"},
		"hang in pack": {func(w http.ResponseWriter, q *http.Request) bool {
			if post(q) {
				w.(http.Flusher).Flush()
				hang(q)
			}
			return post(q)
		}, "sent nothing"},
		"reset": {func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, "EOF"},
		"endless refs": {func(w http.ResponseWriter, q *http.Request) bool {
			endless(w, "001e# service=git-upload-pack\n0000")
			return true
		}, ""},
		"endless pack": {func(w http.ResponseWriter, q *http.Request) bool {
			if post(q) {
				endless(w, "0008NAK\n")
			}
			return post(q)
		}, ""},
		"garbage": {func(w http.ResponseWriter, q *http.Request) bool { _, _ = io.WriteString(w, "<html>"); return true }, ""},
		"garbage pack": {func(w http.ResponseWriter, q *http.Request) bool {
			if post(q) {
				_, _ = io.WriteString(w, "0008NAK\n0009\x01PACK0000")
			}
			return post(q)
		}, ""},
		"to other host": {func(w http.ResponseWriter, q *http.Request) bool {
			http.Redirect(w, q, "http://169.254.169.254/", 302)
			return true
		}, "another host"},
	} {
		current.Store(&f.fault)
		failing(t, source, m, f.want)
		if text := filesOf(t, m)["a.md"]; text != "one" {
			t.Errorf("%s: the mirror has %q", name, text)
		}
	}
	current.Store(nil)
	fetch(t, source, m)
	if text := filesOf(t, m)["a.md"]; text != "two" {
		t.Errorf("afterwards the mirror has %q", text)
	}
}

// A repository of more bytes than allowed is refused whatever it says.
func TestGitTooLarge(t *testing.T) {
	repo := newRepository(t)
	for i := range 20 {
		repo.write(fmt.Sprint(i), strings.Repeat(fmt.Sprint(i), 1000))
	}
	repo.push("main")
	url := repo.serve(nil)
	source := remote.Git{URL: url, Network: private, Limits: remote.Limits{Bytes: 10_000}}
	failing(t, source, mirrorOf(t, source), "more than 10000 bytes")
	source.Limits = remote.Limits{Files: 10}
	failing(t, source, mirrorOf(t, source), "more than 10 files")
	repo.git("-C", filepath.Join(repo.root, "r.git"), "config", "uploadpack.allowFilter", "false")
	source.Limits = remote.Limits{File: 1500}
	failing(t, source, mirrorOf(t, source), "an object of the repository has more than 1500 bytes")
}

func TestGitPrivateAddresses(t *testing.T) {
	repo := newRepository(t)
	repo.write("a.md", "one")
	repo.push("main")
	source := remote.Git{URL: repo.serve(nil)}
	m := mirrorOf(t, source)
	failing(t, source, m, "127.0.0.1 is a private address; allow_private: true allows it")
	failing(t, remote.Git{URL: "ssh://git@127.0.0.1:1/r"}, m, "private address")
	failing(t, remote.Git{URL: "http://169.254.169.254/r", Network: private}, m, "link-local")
	failing(t, remote.Git{URL: "file:///etc", Network: private}, m, "is not an http, https or ssh URL")
}

func TestPageTemplate(t *testing.T) {
	for _, c := range [][3]string{
		{"https://github.com/o/r.git", "main", "https://github.com/o/r/blob/main/{path}"},
		{"https://github.com/o/r", "", "https://github.com/o/r/blob/HEAD/{path}"},
		{"ssh://git@gitlab.com/g/s/r.git", "a/b", "https://gitlab.com/g/s/r/-/blob/a/b/{path}"},
		{"https://codeberg.org/o/r", "main", "https://codeberg.org/o/r/src/branch/main/{path}"},
		{"https://codeberg.org/o/r", "", ""}, {"https://git.internal/o/r", "main", ""},
	} {
		if got := (remote.Git{URL: c[0], Ref: c[1]}).PageTemplate(); got != c[2] {
			t.Errorf("%s %s: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

// serveSSH serves the repository by ssh to who has a key.
func (r *repository) serveSSH(host ssh.Signer, allowed ssh.PublicKey) string {
	r.t.Helper()
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), allowed.Marshal()) {
			return nil, fmt.Errorf("unknown key")
		}
		return nil, nil
	}}
	config.AddHostKey(host)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serveConn(ctx, c, config)
		}
	}()
	r.t.Cleanup(func() { cancel(); _ = l.Close(); <-ended })
	return "ssh://git@" + l.Addr().String() + filepath.Join(r.root, "r.git")
}

// serveConn runs the commands of one connection.
func serveConn(ctx context.Context, c net.Conn, config *ssh.ServerConfig) {
	defer func() { _ = c.Close() }()
	conn, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	go ssh.DiscardRequests(requests)
	for open := range channels {
		channel, requests, err := open.Accept()
		if err != nil {
			return
		}
		for q := range requests {
			_ = q.Reply(q.Type == "exec", nil)
			if q.Type != "exec" {
				continue
			}
			run := exec.CommandContext(ctx, "sh", "-c", string(q.Payload[4:]))
			run.Stdin, run.Stdout = channel, channel
			_ = run.Run()
			_ = channel.Close()
		}
	}
}

func newKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	must(t, err)
	block, err := ssh.MarshalPrivateKey(key, "")
	must(t, err)
	return signer, pem.EncodeToMemory(block)
}

// A repository is fetched by ssh with a key; the key of the server is remembered.
func TestGitSSH(t *testing.T) {
	repo := newRepository(t)
	repo.write("a.md", "one")
	repo.push("main")
	user, key := newKey(t)
	host, other := newKey(t)
	source := remote.Git{URL: repo.serveSSH(host, user.PublicKey()), Network: private, Key: func() []byte { return other }}
	m := mirrorOf(t, source)
	failing(t, source, m, "unable to authenticate")
	source.Key = func() []byte { return key }
	fetch(t, source, m)
	holds(t, m, "a.md")
	repo.write("b.md", "two")
	repo.push("main")
	fetch(t, source, m)
	holds(t, m, "a.md", "b.md")
	address := strings.TrimPrefix(strings.Split(source.URL, "/")[2], "git@")
	known := func(key ssh.PublicKey) func() []byte {
		name, port, _ := net.SplitHostPort(address)
		return func() []byte { return fmt.Appendf(nil, "[%s]:%s %s", name, port, ssh.MarshalAuthorizedKey(key)) }
	}
	source.KnownHosts = known(user.PublicKey())
	failing(t, source, m, "key mismatch")
	source.KnownHosts = known(host.PublicKey())
	fetch(t, source, m)
}
