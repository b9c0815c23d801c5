// Package redis keeps cached values on a Redis, for several replicas to share.
// Redis makes Sidenote faster; without it, or with one that is slow, full, lost
// or lying, Sidenote is as fast as without and answers the same.
package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// What the zero values of Options mean.
const (
	DefaultTimeout  = 50 * time.Millisecond
	DefaultPrefix   = "sidenote"
	DefaultMaxBytes = 1 << 20
)

// Options say which Redis is used, and how.
type Options struct {
	// URL is redis://user:password@host:6379/0, rediss:// for TLS, or
	// unix:///run/redis.sock. With ?master_name=NAME the hosts (more of them by
	// &addr=HOST:PORT) are Sentinels; with ?cluster=true, or more than one host, they
	// are nodes of a cluster.
	URL      string
	Prefix   string        // of all keys, one for each installation that shares the Redis; see CheckPrefix
	Timeout  time.Duration // of a call, connecting included
	PoolSize int           // connections (of a cluster: to each node); 0 is ten a core
	MaxBytes int           // of a value
	CA       []byte        // PEM; certificates that a rediss:// server is trusted by, instead of the system's

	Observe func(Event)                 // hears of each call; nil is nobody. Called concurrently
	Changed func(line string, bad bool) // hears when something begins to go wrong, with the line that says what, and when that is over; nil is nobody. Called one at a time, and must not call the DB
}

// An Event is a call that ended.
type Event struct {
	Use  string
	Took time.Duration
	Kind Kind // "" where it worked
}

// A DB is a Redis. It opens connections when they are needed and never waits for
// one to start with.
type DB struct {
	client   goredis.UniversalClient
	url      *goredis.UniversalOptions
	address  string // for people
	prefix   string
	timeout  time.Duration
	maxBytes int
	observe  func(Event)

	health health
	probes probes
}

// Open prepares the use of a Redis. Its error is about the Options; whether
// anything answers there shows later. Call Close when done with it.
func Open(o Options) (*DB, error) {
	u, err := parseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("redis URL: it %w", err)
	}
	d := &DB{
		url: u, prefix: or(o.Prefix, DefaultPrefix), timeout: or(o.Timeout, DefaultTimeout), maxBytes: or(o.MaxBytes, DefaultMaxBytes),
		address: strings.Join(u.Addrs, ","), observe: o.Observe,
	}
	if d.observe == nil {
		d.observe = func(Event) {}
	}
	d.health.changed = o.Changed
	if len(o.CA) > 0 {
		if u.TLSConfig == nil {
			return nil, errors.New("redis: a CA is of use with rediss:// only")
		}
		u.TLSConfig.RootCAs = x509.NewCertPool()
		if !u.TLSConfig.RootCAs.AppendCertsFromPEM(o.CA) {
			return nil, errors.New("redis: the CA file holds no certificate in PEM form")
		}
	}
	d.tune(u, o.PoolSize)
	// Its log repeats what strangers answer, and what it has to say is in our
	// errors and counts.
	goredis.SetLogger(silence{})
	d.client = connect(u)
	d.probes.ctx, d.probes.cancel = context.WithCancel(context.Background())
	return d, nil
}

// tune sets what the library leaves at values that stop a request for seconds:
// a time-out for each step, no retries, since a miss is cheaper, deadlines that
// hold, and a pool that does not grow beyond its size.
func (d *DB) tune(u *goredis.UniversalOptions, poolSize int) {
	u.DialTimeout, u.ReadTimeout, u.WriteTimeout = dialWait*d.timeout, d.timeout, d.timeout
	// A call that ends while it waits for a connection must not look like one that
	// Redis did not answer: see judge.
	u.PoolTimeout = d.timeout / 2
	u.ContextTimeoutEnabled = true
	u.DialerRetries, u.MaxRetries, u.MinRetryBackoff, u.MaxRetryBackoff = 1, -1, -1, -1
	u.DisableIdentity = true
	u.Protocol = 2 // 3 adds messages that nobody asked for, and nothing that is used
	u.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	u.PoolSize = or(poolSize, connsPerCore*runtime.GOMAXPROCS(0))
	u.MaxActiveConns = u.PoolSize
	u.ConnMaxIdleTime = 5 * time.Minute
	u.Dialer = dialer(u.TLSConfig, int64(d.maxBytes)+slack)
}

const connsPerCore = 10

// dialWait is how many time-outs a connection may take to be made. It is made
// beside the call that wants it, which goes on without when its own time is up;
// TLS to another zone takes longer than a call does.
const dialWait = 5

// slack is how much longer than the largest value a reply may be: the library's
// own questions are answered with strings, too.
const slack = 64 << 10

// connect returns the library's client, which does not connect yet.
func connect(u *goredis.UniversalOptions) goredis.UniversalClient {
	switch {
	case u.MasterName != "":
		o := u.Simple()
		o.Dialer = sentinels{u, u.Dialer}.dialMaster
		return goredis.NewClient(o)
	case isCluster(u):
		o := u.Cluster()
		// To look up which nodes a command is for, calls would wait for each other, for
		// longer than a call may take, and need one more permission.
		o.DisableRoutingPolicies = true
		return goredis.NewClusterClient(o)
	}
	return goredis.NewClient(u.Simple())
}

func isCluster(u *goredis.UniversalOptions) bool {
	return u.IsClusterMode || len(u.Addrs) > 1 && u.MasterName == ""
}

// A handshakeError is that of a TLS handshake.
type handshakeError struct{ cause error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.cause.Error() }
func (e *handshakeError) Unwrap() error { return e.cause }

// dialer opens guarded connections.
func dialer(config *tls.Config, maxBytes int64) dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if config != nil {
			if conn, err = encrypt(ctx, conn, addr, config); err != nil {
				return nil, err
			}
		}
		return guarded(conn, maxBytes), nil
	}
}

// encrypt makes conn one of TLS with the host of addr, or closes it.
func encrypt(ctx context.Context, conn net.Conn, addr string, config *tls.Config) (net.Conn, error) {
	config = config.Clone()
	config.ServerName, _, _ = net.SplitHostPort(addr)
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &handshakeError{err}
	}
	return secure, nil
}

// Address is where the Redis is, without user and password.
func (d *DB) Address() string { return d.address }

// Trouble says in one line each what does not work at present; nil is all well.
func (d *DB) Trouble() []string { return d.health.lines() }

// Close ends all connections. Calls under way fail.
func (d *DB) Close() error {
	d.probes.stop()
	if err := d.client.Close(); err != nil && !errors.Is(err, goredis.ErrClosed) {
		return fmt.Errorf("close redis: %w", err)
	}
	return nil
}

// probeEvery is the mean time between two questions to a Redis that failed.
const probeEvery = 400 * time.Millisecond

// probes are the goroutines that ask a failed Redis whether it is back.
type probes struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex
	ended bool
	all   sync.WaitGroup
}

// start asks after first, and then now and then, until ask says that it worked.
func (p *probes) start(first time.Duration, ask func(context.Context) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.all.Go(func() {
		for wait := first; ; wait = pause() {
			select {
			case <-time.After(wait):
			case <-p.ctx.Done():
				return
			}
			if ask(p.ctx) {
				return
			}
		}
	})
}

// pause is the time between two questions. It varies, so that replicas that lost
// the same Redis do not come back in step.
func pause() time.Duration { return probeEvery/2 + rand.N(probeEvery) }

func (p *probes) stop() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.cancel()
	p.all.Wait()
}

// silence is a log of the library's that nobody reads.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// or returns v, or what its zero value means.
func or[T comparable](v, zero T) T {
	if v == *new(T) {
		return zero
	}
	return v
}
