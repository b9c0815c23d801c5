package main

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/cache/redis/redistest"
	"sidenote/proxy/transport/transporttest"
)

// An operation is a fleet of three replicas on one Redis, behind a balancer that sends requests to
// those that are ready, while four clients ask all the time. Whatever the operator does, no request
// may fail, except with the statuses that a step names.
type operation struct {
	t        *testing.T
	dir      string
	redis    *redistest.Server
	up       *secretUpstream
	replicas [3]atomic.Pointer[process] // nil while it is restarted
	ready    [3]atomic.Bool
	stopped  sync.Map               // when a *process was told to stop
	key      atomic.Pointer[string] // of the clients
	expected atomic.Pointer[[]int]  // statuses besides 200
	good     atomic.Int64
	other    atomic.Int64 // answers with an expected status

	settings string // of sidenote.yaml
	client   *http.Client
	fresh    transporttest.Pair // the next certificate of the data ports
}

// shutdownDelay is the time for which a replica that was told to stop still serves.
const shutdownDelay = 3 * time.Second

// secretUpstream answers chats that have one of its keys.
type secretUpstream struct {
	handler http.Handler
	keys    atomic.Pointer[[]string]
	server  *http.Server
	addr    string
}

func (u *secretUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, key := range *u.keys.Load() {
		if r.Header.Get("Authorization") == "Bearer "+key {
			u.handler.ServeHTTP(w, r)
			return
		}
	}
	w.WriteHeader(http.StatusUnauthorized)
}

func (u *secretUpstream) accept(keys ...string) { u.keys.Store(&keys) }

// begin listens, at the same address each time.
func (u *secretUpstream) begin(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", u.addr)
	must(t, err)
	u.addr, u.server = listener.Addr().String(), &http.Server{Handler: u}
	go func() { _ = u.server.Serve(listener) }()
}

func newOperation(t *testing.T) *operation {
	t.Helper()
	recorded := &recorder{Server: httptest.NewUnstartedServer(nil)}
	o := &operation{t: t, dir: t.TempDir(), redis: redistest.Start(t, durable...), up: &secretUpstream{handler: http.HandlerFunc(recorded.answer), addr: "127.0.0.1:0"}}
	o.up.accept("up-old")
	o.up.begin(t)
	t.Cleanup(func() { _ = o.up.server.Close() })
	o.expect()
	o.use("client-old")
	o.write("up-key", "up-old")
	o.write("redis-url", o.redis.URL())
	o.write("redis-keys", encryptionKeys("o"))
	old, fresh := transporttest.NewAuthority(), transporttest.NewAuthority()
	o.certify(old.Issue(time.Now().Add(time.Hour)))
	o.fresh = fresh.Issue(time.Now().Add(time.Hour))
	both := x509.NewCertPool()
	both.AppendCertsFromPEM(slices.Concat(old.PEM, fresh.PEM))
	o.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: both, MinVersion: tls.VersionTLS12}}}
	o.settings = fmt.Sprintf(`
upstreams: {main: {base_url: "http://%s/v1", api_key: {file: up-key}}}
knowledge: {handbook: %q}
redis: {url: {file: redis-url}, encryption_keys: {file: redis-keys}}
listen: {address: 127.0.0.1:0, tls: {cert: cert.pem, key: key.pem}}
budgets: {replicas: 3, on_failure: allowance, allowance: {requests_per_minute: 1000000}}
policies: {default: {upstream: main, knowledge: [handbook], limits: {requests_per_minute: 1000000}}}
shutdown_delay: %s
tenants:
  acme: {keys: [%s], knowledge: [handbook]}
`, o.up.addr, handbook(t), shutdownDelay, keyDigest("client-old"))
	o.write("sidenote.yaml", o.settings)
	for i := range o.replicas {
		o.start(i)
	}
	return o
}

func keyDigest(key string) string {
	return fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256([]byte(key))))
}

// write replaces a file as a whole.
func (o *operation) write(name, text string) {
	o.t.Helper()
	name = filepath.Join(o.dir, name)
	must(o.t, os.WriteFile(name+".new", []byte(text), 0o600), os.Rename(name+".new", name))
}

func (o *operation) use(key string)         { o.key.Store(&key) }
func (o *operation) expect(statuses ...int) { o.expected.Store(&statuses) }

func (o *operation) state(i int) string { return filepath.Join(o.dir, fmt.Sprintf("state-%d", i)) }

// certify replaces the certificate of the data ports.
func (o *operation) certify(pair transporttest.Pair) {
	o.t.Helper()
	o.write("cert.pem", string(pair.Cert))
	o.write("key.pem", string(pair.Key))
}

func (o *operation) start(i int) {
	o.t.Helper()
	p := serve(o.t, "--config", filepath.Join(o.dir, "sidenote.yaml"), "--state", o.state(i))
	_, rest, _ := strings.Cut(p.out.until(o.t, "https://"), "https://")
	p.data = "https://" + rest[:strings.IndexAny(rest, "/ \n")]
	o.replicas[i].Store(p)
}

// restart restarts one replica after another, each when the one before is ready, and calls between
// while one is down.
func (o *operation) restart(between func(i int)) {
	o.t.Helper()
	for i := range o.replicas {
		p := o.replicas[i].Load()
		o.stopped.Store(p, time.Now())
		p.stop()
		o.replicas[i].Store(nil)
		between(i)
		o.start(i)
		eventually(o.t, func() string {
			if o.ready[i].Load() {
				return ""
			}
			return "a replica is not ready after its restart"
		})
		o.serves(20)
	}
}

// says waits until each replica has said a text.
func (o *operation) says(text string) {
	o.t.Helper()
	for i := range o.replicas {
		says(o.t, o.replicas[i].Load().out, text)
	}
}

// serves waits until that many more requests have been answered with 200.
func (o *operation) serves(n int64) {
	o.t.Helper()
	for before := o.good.Load(); o.good.Load() < before+n; {
		if o.t.Failed() {
			o.t.FailNow()
		}
		_, _ = http.Get(o.replicas[0].Load().admin + "/healthz")
	}
}

// watch keeps ready up to date until stop is closed.
func (o *operation) watch(stop <-chan struct{}) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		for i := range o.replicas {
			ready := false
			if p := o.replicas[i].Load(); p != nil {
				if resp, err := http.Get(p.admin + "/readyz"); err == nil {
					ready = resp.StatusCode == http.StatusOK
					_ = resp.Body.Close()
				}
			}
			o.ready[i].Store(ready)
		}
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

// ask sends chats until stop is closed.
func (o *operation) ask(stop <-chan struct{}, client int) {
	for n := client; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		p := o.replicas[n%len(o.replicas)].Load()
		if p == nil || !o.ready[n%len(o.replicas)].Load() {
			continue
		}
		req, err := http.NewRequest(http.MethodPost, p.data+"/v1/chat/completions", strings.NewReader(leaveQuestion))
		if err != nil {
			o.t.Error(err)
			return
		}
		req.Header.Set("Authorization", "Bearer "+*o.key.Load())
		req.Header.Set("Content-Type", "application/json")
		var wrote atomic.Pointer[time.Time]
		trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { wrote.Store(new(time.Now())) }}
		resp, err := o.client.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
		if err != nil {
			sent := wrote.Load()
			if at, stopped := o.stopped.Load(p); stopped && (sent == nil || sent.Sub(at.(time.Time)) >= shutdownDelay) {
				continue // watch was too late to notice: the machine is busy
			}
			o.t.Error(err)
			return
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		switch {
		case err == nil && resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Sidenote-Status"), "injected;"):
			o.good.Add(1)
		case err == nil && slices.Contains(*o.expected.Load(), resp.StatusCode):
			o.other.Add(1)
		default:
			o.t.Errorf("%d, %s, %v: %s", resp.StatusCode, resp.Header.Get("Sidenote-Status"), err, text)
			return
		}
	}
}

// change changes the schema of a stopped replica's database.
func (o *operation) change(i int, statements string) {
	o.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(o.state(i), "knowledge.db"))
	must(o.t, err)
	_, err = db.Exec(statements)
	must(o.t, err, db.Close())
}

func (o *operation) schema(i int) (version int) {
	o.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(o.state(i), "knowledge.db"))
	must(o.t, err)
	must(o.t, db.QueryRow("PRAGMA user_version").Scan(&version), db.Close())
	return version
}

// The work of an operator costs no request: a rolling upgrade over a change of the schema and the
// way back, the rotation of each secret, an outage of Redis under limits. In an outage of the
// upstream requests get the statuses that the page on errors names for it.
func TestOperator(t *testing.T) {
	t.Parallel()
	o := newOperation(t)
	stop := make(chan struct{})
	var load sync.WaitGroup
	end := sync.OnceFunc(func() { close(stop); load.Wait() })
	defer end()
	load.Go(func() { o.watch(stop) })
	for client := range 4 {
		load.Go(func() { o.ask(stop, client) })
	}
	o.serves(20)
	newest := o.schema(0)

	// The upgrade: the release before left a database without the last table.
	o.restart(func(i int) { o.change(i, fmt.Sprintf("DROP TABLE verdicts; PRAGMA user_version = %d", newest-1)) })
	for i := range o.replicas {
		if got := o.schema(i); got != newest {
			t.Errorf("replica %d: schema %d after the upgrade, want %d", i, got, newest)
		}
	}
	o.write("redis-keys", encryptionKeys("on")) // readable before any replica writes with it
	// The rollback: a release after this one left its database, which stays as it is.
	o.restart(func(i int) {
		o.change(i, fmt.Sprintf("CREATE TABLE later (one INTEGER); PRAGMA user_version = %d", newest+1))
	})
	for i := range o.replicas {
		beside, err := filepath.Glob(o.state(i) + "-schema*")
		if got := o.schema(i); err != nil || got != newest+1 || len(beside) != 1 {
			t.Errorf("replica %d: schema %d after the rollback, beside it %q, %v", i, got, beside, err)
		}
	}
	o.rotate()

	// Redis is gone: each replica grants the allowance.
	o.redis.Kill()
	o.serves(50)
	o.redis.Restart()
	o.redis.Do("CONFIG", "SET", "requirepass", "redis-new")
	o.serves(50)

	// The upstream is gone.
	o.expect(http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout)
	must(t, o.up.server.Close())
	eventually(t, func() string {
		if o.other.Load() < 20 {
			return "no request has met the outage"
		}
		return ""
	})
	for i := range o.replicas {
		o.replicas[i].Load().readyz(t, "upstream main")
	}
	o.up.begin(t)
	o.serves(20)
	o.expect()
	o.serves(50)
	end()
	t.Logf("%d requests with sources, %d in the outage of the upstream", o.good.Load(), o.other.Load())
}

// rotate replaces each secret while it is used: first both are valid, at last the new one alone.
func (o *operation) rotate() {
	o.t.Helper()
	keys := func(changed string, valid ...string) {
		o.t.Helper()
		for i, key := range valid {
			valid[i] = keyDigest(key)
		}
		o.write("sidenote.yaml", strings.Replace(o.settings, "["+keyDigest("client-old")+"]", "["+strings.Join(valid, ", ")+"]", 1))
		o.says("acme (keys." + keyDigest(changed)[1:9])
		o.serves(20)
	}
	keys("client-new", "client-old", "client-new")
	o.use("client-new")
	o.serves(20)
	keys("client-old", "client-new")

	o.up.accept("up-old", "up-new")
	o.write("up-key", "up-new")
	o.says("upstreams.main.api_key")
	o.serves(20)
	o.up.accept("up-new")
	o.serves(20)

	o.certify(o.fresh)
	o.says("new certificates are used")
	o.client.CloseIdleConnections()
	o.serves(20)

	o.write("redis-keys", encryptionKeys("no"))
	o.redis.Do("ACL", "SETUSER", "default", ">redis-new")
	o.write("redis-url", strings.Replace(o.redis.URL(), "redis://", "redis://:redis-new@", 1))
	o.restart(func(int) {})
	o.redis.Do("CONFIG", "SET", "requirepass", "redis-new")
	o.serves(20)
	o.write("redis-keys", encryptionKeys("n"))
	o.restart(func(int) {})
}
