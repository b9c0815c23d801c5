package serving_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/serving"
	"sidenote/proxy/admin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A stage is a Reloader of a folder that records what it applied and logged.
type stage struct {
	*serving.Reloader
	dir string

	mu      sync.Mutex
	running *config.Config
	told    []string
	refuse  error
	more    chan struct{} // something was logged
}

// newStage starts with a configuration.
func newStage(t *testing.T, files map[string]string) *stage {
	t.Helper()
	s := &stage{dir: t.TempDir()}
	for name, text := range files {
		s.write(t, name, text)
	}
	return newStageIn(t, s.dir)
}

// newStageIn starts with the configuration of a folder.
func newStageIn(t *testing.T, dir string) *stage {
	t.Helper()
	s := &stage{dir: dir, more: make(chan struct{}, 100)}
	s.Reloader = &serving.Reloader{
		Load: func(seen func(string)) (*config.Config, error) {
			return config.Load(config.Source{Path: filepath.Join(s.dir, "sidenote.yaml"), OnRead: seen})
		},
		Check: func(context.Context, *config.Config) error { return s.refuse },
		Running: func() *config.Config {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.running
		},
		Apply: func(_ context.Context, c *config.Config) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.running = c
			return nil
		},
		Log: func(_ slog.Level, line string) {
			s.mu.Lock()
			s.told = append(s.told, line)
			s.mu.Unlock()
			s.more <- struct{}{}
		},
	}
	cfg, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	s.running = cfg
	return s
}

func (s *stage) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func (s *stage) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
		t.Fatal(err)
	}
}

// until waits until a line containing want is logged.
func (s *stage) until(t *testing.T, want string) {
	t.Helper()
	end := time.After(30 * time.Second)
	for {
		s.mu.Lock()
		told := strings.Join(s.told, "\n")
		s.mu.Unlock()
		if strings.Contains(told, want) {
			return
		}
		select {
		case <-s.more:
		case <-end:
			t.Fatalf("never told %q: %s", want, told)
		}
	}
}

const (
	digest = "9f2cf9b8ad5a0a3b2a9a3d7a07b2c1d0e5f6a7b8c9d0e1f2a3b4c5d6e7f8091a"
	other  = "1f2cf9b8ad5a0a3b2a9a3d7a07b2c1d0e5f6a7b8c9d0e1f2a3b4c5d6e7f8091a"
)

func whole() map[string]string {
	return map[string]string{
		"sidenote.yaml": "upstream: {base_url: http://127.0.0.1:9, api_key: {file: key}}\nknowledge: {docs: docs}\n" +
			"tenants: {a: {keys: [" + digest + "], knowledge: [docs]}}\ninclude: [{path: tenants.d/*.yaml, optional: true}]\n",
		"key": "sk-first", "docs/a.md": "# A\n",
	}
}

// Changes are reported by tenant and by key. Changes that need a restart are reported and not
// applied, also when the file is read again.
func TestChanges(t *testing.T) {
	s := newStage(t, whole())
	f := func(main string, want admin.Reloaded) {
		t.Helper()
		s.write(t, "sidenote.yaml", main)
		got, err := s.Reload(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want.Object = "reload"
		for _, list := range []*[]string{&want.Keys, &want.Restart} {
			if *list == nil {
				*list = []string{}
			}
		}
		if want.Tenants == nil {
			want.Tenants = []admin.ReloadedTenant{}
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(admin.Reloaded{}, "Changes")); diff != "" {
			t.Errorf("%s\n(-want +got):\n%s", main, diff)
		}
	}
	main := whole()["sidenote.yaml"]
	f(main, admin.Reloaded{})
	f(main+"policies: {default: {context_tokens: 900, retrieval: {top_k: 3}}}\n", admin.Reloaded{Tenants: []admin.ReloadedTenant{
		{Tenant: "a", Change: "changed", Keys: []string{"context_tokens", "retrieval.top_k"}},
	}})
	f(strings.Replace(main, "tenants: {", "tenants: {b: {keys: ["+other+"], knowledge: [docs]}, ", 1), admin.Reloaded{Tenants: []admin.ReloadedTenant{
		{Tenant: "a", Change: "changed", Keys: []string{"context_tokens", "retrieval.top_k"}}, {Tenant: "b", Change: "added"},
	}})
	f(strings.Replace(main, digest, other, 1), admin.Reloaded{Tenants: []admin.ReloadedTenant{
		{Tenant: "a", Change: "changed", Keys: []string{"keys.9f2cf9b8.sha256", "keys.1f2cf9b8.sha256"}}, {Tenant: "b", Change: "removed"},
	}})
	f(strings.Replace(main, digest, other, 1)+"models: [{match: m, window: 9000}]\nidentity: {hosts: [sidenote.example.com]}\n",
		admin.Reloaded{Keys: []string{"identity.hosts", "models.m.match", "models.m.window", "models.m.estimated"}})
	s.write(t, "key", "sk-second")
	pending := main + "listen: 127.0.0.1:7777\nadmin: {listen: 127.0.0.1:7778, token: {file: key}}\nredis: {url: redis://127.0.0.1:1}\nconcurrency: 7\n" +
		"timeouts: {idle: 9s, client_write: 9s}\n"
	pending = strings.Replace(pending, "docs: docs", "docs: {path: docs, relevance_threshold: 0.7, exclude: [x]}", 1)
	restart := []string{"listen", "admin.listen", "admin.token", "redis.url", "concurrency", "timeouts.client_write", "knowledge.docs.exclude"}
	f(pending, admin.Reloaded{
		Tenants: []admin.ReloadedTenant{{Tenant: "a", Change: "changed", Keys: []string{
			"keys.1f2cf9b8.sha256", "keys.9f2cf9b8.sha256", "upstream.api_key", "knowledge.docs.relevance_threshold",
		}}},
		Keys:    []string{"identity.hosts", "models.m.match", "models.m.window", "models.m.estimated", "upstream.api_key", "timeouts.idle", "knowledge.docs.relevance_threshold"},
		Restart: restart,
	})
	f(pending, admin.Reloaded{Restart: restart})
	if c := s.running; c.Listen[0].Address == "127.0.0.1:7777" || c.Admin.Token.Value.Reveal() != "" || c.Redis.URL.Value.Reveal() != "" || c.Concurrency == 7 ||
		c.Timeouts.ClientWrite == 9*time.Second || c.Timeouts.Idle != 9*time.Second || len(c.Knowledge["docs"].Exclude) > 0 ||
		c.Knowledge["docs"].RelevanceThreshold != 0.7 || c.Upstream.APIKey.Value.Reveal() != "sk-second" {
		t.Errorf("in force: %+v", c)
	}
	more := strings.ReplaceAll(strings.Replace(main, "docs: docs", "docs: docs, new: docs2", 1), "knowledge: [docs]", "knowledge: [docs, new]")
	s.write(t, "sidenote.yaml", more)
	if _, err := s.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "sidenote.yaml:2:30: knowledge.new.path: folder ") {
		t.Errorf("a folder that is not there: %v", err)
	}
	s.write(t, "docs2/b.md", "# B\n")
	back := []string{"timeouts.idle", "knowledge.docs.relevance_threshold"}
	f(more, admin.Reloaded{Tenants: []admin.ReloadedTenant{{Tenant: "a", Change: "changed", Keys: []string{"knowledge", "knowledge.docs.relevance_threshold"}}}, Keys: append(back, "knowledge.new")})
	if _, there := s.running.Knowledge["new"]; !there {
		t.Errorf("in force: %+v", s.running.Knowledge)
	}
	f(main, admin.Reloaded{Tenants: []admin.ReloadedTenant{{Tenant: "a", Change: "changed", Keys: []string{"knowledge"}}}, Keys: []string{"knowledge.new"}})
	if _, there := s.running.Knowledge["new"]; there {
		t.Errorf("in force: %+v", s.running.Knowledge)
	}
	s.write(t, "sidenote.yaml", strings.Replace(more, "new: docs2", "new: {engine: vector_store, id: vs_1, upstream: default}", 1))
	if _, err := s.Reload(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "sidenote.yaml:2:25: knowledge.new: is a new vector store, so it needs a restart, and tenant a would search it") {
		t.Errorf("%v", err)
	}
	f(strings.Replace(main, "docs: docs", "docs: docs, new: {engine: vector_store, id: vs_1, upstream: default}", 1), admin.Reloaded{Restart: []string{"knowledge.new"}})
	for _, line := range s.told {
		if strings.Contains(line, "sk-") {
			t.Errorf("a key is told: %s", line)
		}
	}
}

// Rows P1, P4 and P5 of FAULTS.md: a broken, half-written or missing file is reported by name, and
// the running configuration stays.
func TestP1LastGoodGoesOn(t *testing.T) {
	s := newStage(t, whole())
	s.write(t, "tenants.d/b.yaml", "tenants: {b: {keys: ["+other+"], knowledge: []}}\n")
	first := s.running
	main := whole()["sidenote.yaml"]
	f := func(name, text, want string) {
		t.Helper()
		before, _ := os.ReadFile(filepath.Join(s.dir, name))
		if text == "" {
			s.remove(t, name)
		} else {
			s.write(t, name, text)
		}
		_, err := s.Reload(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		if s.running != first || s.Successful() != 0 || !strings.Contains(s.Problem(), want) || !strings.Contains(s.told[len(s.told)-1], want) {
			t.Errorf("%s: successful %v, problem %s, told %q", name, s.Successful(), s.Problem(), s.told)
		}
		s.write(t, name, string(before))
	}
	f("sidenote.yaml", "", "sidenote.yaml: file not found")
	f("sidenote.yaml", main[:len(main)-20], "sidenote.yaml:4:")
	f("sidenote.yaml", main[:strings.Index(main, "knowledge: [docs]")+9], "sidenote.yaml:3:")
	f("sidenote.yaml", " ", "is empty")
	f("sidenote.yaml", main+"listn: x\n", "sidenote.yaml:5:1: listn")
	f("sidenote.yaml", main+"concurrency: \n", "concurrency")
	f("sidenote.yaml", strings.Replace(main, "knowledge: [docs]", "knowledge: [dogs]", 1), `no base is named "dogs"`)
	f("sidenote.yaml", strings.Replace(main, "optional: true", "optional: false", 1)+"", "tenants.b.knowledge")
	f("tenants.d/b.yaml", "tenants: {b: {keys: ["+digest+"], knowledge: []}}\n", `is also a key of tenant "a"`)
	f("tenants.d/b.yaml", "tenants: {b: {keys: [", "tenants.d/b.yaml:1:")
	f("key", "", `api_key.file: "key" cannot be read`)
	f("key", "\n", `api_key.file: "key" is empty`)
	f("key", "sk two words\n", "api_key: holds a space")
	s.remove(t, "tenants.d/b.yaml")
	s.refuse = errors.New("upstream default: is Sidenote's own address")
	s.write(t, "key", "sk-other")
	if _, err := s.Reload(t.Context()); err == nil || s.running != first {
		t.Errorf("%v", err)
	}
	s.refuse = nil
	if changed, err := s.Reload(t.Context()); err != nil || len(changed.Keys) != 1 || s.Successful() != 1 || s.Problem() != "" || s.running == first {
		t.Errorf("%+v, %v, %s", changed, err, s.Problem())
	}
}

// A tenant whose port is open cannot be removed without a restart.
func TestTenantOfAPort(t *testing.T) {
	const tenants = "upstream: http://u.test\nidentity: {unknown: refuse}\ntenants: {a: {keys: [{sha256: %064d}]}, b: {keys: [{sha256: %064d}]}}\n"
	const ports = "listen: [127.0.0.1:7001, {address: 127.0.0.1:7002, tenant: b}]\nadmin: {listen: 'off'}\n"
	s := newStage(t, map[string]string{"sidenote.yaml": ports + fmt.Sprintf(tenants, 1, 2)})
	s.write(t, "sidenote.yaml", "admin: {listen: 'off'}\n"+strings.Replace(fmt.Sprintf(tenants, 1, 2), "b: {", "c: {", 1))
	want := "sidenote.yaml:4:1: tenants.b: is gone, and 127.0.0.1:7002 is its port until a restart"
	if _, err := s.Reload(t.Context()); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, there := s.running.Tenants["b"]; !there {
		t.Errorf("in force: %+v", s.running.Tenants)
	}
}

// Expired keys are reported, as at the start.
func TestExpiredKeys(t *testing.T) {
	s := newStage(t, whole())
	s.write(t, "sidenote.yaml", strings.Replace(whole()["sidenote.yaml"], "["+digest+"]", "["+digest+", {sha256: "+other+", expires: 2020-01-31}]", 1))
	if _, err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last := s.told[len(s.told)-1]; len(s.told) != 2 || !strings.Contains(last, "sidenote.yaml:3:") || !strings.Contains(last, "2020-01-31") {
		t.Errorf("told %q", s.told)
	}
}

// Row P8: a panic during a reload changes nothing and is reported; the watcher goes on.
func TestP8PanicWhileReading(t *testing.T) {
	s := newStage(t, whole())
	first, load, panicked := s.running, s.Load, 0
	s.Panicked = func(any, []byte) { panicked++ }
	s.Load = func(func(string)) (*config.Config, error) { panic("sk-canary") }
	if _, err := s.Reload(t.Context()); err == nil || strings.Contains(err.Error(), "canary") || s.running != first || s.Successful() != 0 || panicked != 1 {
		t.Errorf("%v, successful %v, %d panics", err, s.Successful(), panicked)
	}
	s.Load = load
	if _, err := s.Reload(t.Context()); err != nil || s.Problem() != "" {
		t.Errorf("%v, %s", err, s.Problem())
	}
}

// serve watches until the end of the test.
func (s *stage) serve(t *testing.T, hangups <-chan os.Signal) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Serve(ctx, hangups) }()
	t.Cleanup(func() { cancel(); <-ended })
}

// Changes of the file, of a secret and of included files that are added or removed are noticed,
// and so is SIGHUP.
func TestWatch(t *testing.T) {
	s := newStage(t, whole())
	s.write(t, "tenants.d/README", "not matched\n")
	hangups := make(chan os.Signal)
	s.serve(t, hangups)
	hangups <- os.Interrupt // stands for SIGHUP
	s.until(t, "configuration: read again (SIGHUP): nothing has changed")
	s.write(t, "key", "sk-second")
	s.until(t, "configuration: read again (a file has changed): tenants changed: a (upstream.api_key); changed: upstream.api_key")
	s.write(t, "tenants.d/b.yaml", "tenants: {b: {keys: ["+other+"], policy: open}}\npolicies: {open: {mode: off}}\n")
	s.until(t, "read again (a file has changed): tenants added: b")
	s.write(t, "sidenote.yaml", whole()["sidenote.yaml"]+"concurrency: 0\n")
	s.until(t, "reload failed (a file has changed), the running one stays in use: "+filepath.Join(s.dir, "sidenote.yaml")+":5:14: concurrency: ")
	s.write(t, "sidenote.yaml", whole()["sidenote.yaml"])
	s.until(t, "configuration: read again (a file has changed): nothing has changed")
	s.remove(t, "tenants.d/b.yaml")
	s.until(t, "tenants removed: b")
	s.write(t, "sidenote.yaml", "upstream: http://127.0.0.1:9\nknowledge: {docs: docs}\n")
	s.until(t, "callers without a key would be let in")
	if len(s.Running().Tenants) != 1 {
		t.Errorf("%v", s.Running().Tenants)
	}
	if _, err := s.Reload(t.Context()); err != nil {
		t.Errorf("who asks for it gets it: %v", err)
	}
}

// Row P1: a change while the files are read is not lost: they are read again.
func TestP1ChangeWhileReading(t *testing.T) {
	s := newStage(t, whole())
	load := s.Load
	s.Load = func(seen func(string)) (*config.Config, error) {
		cfg, err := load(seen)
		s.Load = load
		s.write(t, "key", "sk-second")
		return cfg, err
	}
	if _, err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.serve(t, nil)
	s.until(t, "read again (a file has changed): tenants changed: a (upstream.api_key)")
}

// Kubernetes replaces a link by one to a folder with new files.
func TestSymlinkSwap(t *testing.T) {
	files := whole()
	main := files["sidenote.yaml"]
	delete(files, "sidenote.yaml")
	s := &stage{dir: t.TempDir()}
	swap := func(n int) {
		t.Helper()
		s.write(t, fmt.Sprintf("..%d/sidenote.yaml", n), fmt.Sprintf("%spolicies: {default: {context_tokens: %d}}\n", main, 1000+n))
		err := os.Symlink(fmt.Sprintf("..%d", n), filepath.Join(s.dir, "..data_tmp"))
		if err = errors.Join(err, os.Rename(filepath.Join(s.dir, "..data_tmp"), filepath.Join(s.dir, "..data"))); err != nil {
			t.Fatal(err)
		}
	}
	swap(0)
	if err := os.Symlink("..data/sidenote.yaml", filepath.Join(s.dir, "sidenote.yaml")); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		s.write(t, name, text)
		s.write(t, "..data/"+name, text)
	}
	dir := s.dir
	s = newStageIn(t, dir)
	s.serve(t, nil)
	for n := 1; n <= 3; n++ {
		swap(n)
		s.until(t, "tenants changed: a (context_tokens)")
		s.mu.Lock()
		s.told = nil
		s.mu.Unlock()
		if p, _ := s.Running().Tenant("a"); p.Rewrite.ContextTokens != 1000+n {
			t.Errorf("swap %d: %d tokens", n, p.Rewrite.ContextTokens)
		}
	}
}
