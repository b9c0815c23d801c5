// Package redis keeps cached values on a Redis that several replicas share. Redis only makes
// Sidenote faster: without it, or if it is slow, full, lost or sends wrong data, Sidenote gives
// the same answers, as fast as without a Redis.
package redis

import (
	"cmp"
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

// Defaults of Options.
const (
	DefaultTimeout = 50 * time.Millisecond
	DefaultPrefix  = "sidenote"
)

// maxBytes limits the size of a stored value.
const maxBytes = 1 << 20

// Options configure a DB.
type Options struct {
	// URL is redis://user:password@host:6379/0, rediss:// for TLS, or unix:///run/redis.sock. With
	// ?master_name=NAME the hosts (more of them by &addr=HOST:PORT) are Sentinels; with
	// ?cluster=true, or more than one host, they are nodes of a cluster.
	URL      string
	URLKey   string        // name of the URL's setting in messages; "" means redis.url
	Prefix   string        // of all keys, distinct for each installation that shares the Redis; see CheckPrefix
	Timeout  time.Duration // of a call, including connecting
	PoolSize int           // maximum number of connections (in a cluster: to each node); 0 means ten per core
	CA       []byte        // PEM certificates of authorities for rediss://, instead of the system's

	// Reserved reports whether the cache must leave memory of the server for others, such as
	// budgets; nil means no. While it is true, and the server does not evict keys, stores stop
	// writing before its memory is full; see headroom.
	Reserved func() bool
	// Meanwhile describes the effect of a failing Redis, for the end of messages; nil for "going
	// on without it". A Ledger has its own.
	Meanwhile func() string

	Observe func(Event)                 // called after each call, concurrently; may be nil
	Changed func(line string, bad bool) // called when a problem begins, with a line that describes it, and when it ends; may be nil. Calls do not overlap and must not use the DB
}

// An Event describes a finished call.
type Event struct {
	Use  string
	Took time.Duration
	Kind Kind // "" if it succeeded
}

// A DB is a connection pool for a Redis. It connects when needed; Open does not wait for a
// connection.
type DB struct {
	client  goredis.UniversalClient
	url     *goredis.UniversalOptions
	address string // for messages
	prefix  string
	timeout time.Duration
	observe func(Event)

	urlKey    string
	meanwhile func() string
	headroom  *headroom

	health health
	probes probes
}

// Open returns a DB. Its error is only about the Options; whether a server answers is found out
// later. Call Close when done with it.
func Open(o Options) (*DB, error) {
	u, err := parseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("redis URL: it %w", err)
	}
	d := &DB{
		url: u, prefix: cmp.Or(o.Prefix, DefaultPrefix), timeout: cmp.Or(o.Timeout, DefaultTimeout),
		address: strings.Join(u.Addrs, ","), observe: o.Observe,
	}
	if d.observe == nil {
		d.observe = func(Event) {}
	}
	d.health.changed = o.Changed
	d.urlKey, d.meanwhile = cmp.Or(o.URLKey, "redis.url"), o.Meanwhile
	if d.meanwhile == nil {
		d.meanwhile = func() string { return "going on without it" }
	}
	d.headroom = newHeadroom(o.Reserved)
	if len(o.CA) > 0 {
		if u.TLSConfig == nil {
			return nil, errors.New("redis: a CA is of use with rediss:// only")
		}
		u.TLSConfig.RootCAs = x509.NewCertPool()
		if !u.TLSConfig.RootCAs.AppendCertsFromPEM(o.CA) {
			return nil, errors.New("redis: the CA file contains no PEM certificate")
		}
	}
	d.tune(u, o.PoolSize)
	// The library's log is turned off: it quotes what servers send, and everything it reports is
	// in our errors and metrics.
	goredis.SetLogger(noLog{})
	d.client = connect(u)
	d.probes.ctx, d.probes.cancel = context.WithCancel(context.Background())
	return d, nil
}

// tune changes defaults of the library that could block a request for seconds. It sets a timeout
// for each step, no retries (a miss is cheaper), context deadlines that are obeyed, and a pool
// with a maximum size.
func (d *DB) tune(u *goredis.UniversalOptions, poolSize int) {
	u.DialTimeout, u.ReadTimeout, u.WriteTimeout = d.dialTimeout(), d.timeout, d.timeout
	// A call that runs out of time while it waits for a connection must not look like one that
	// Redis did not answer, so the pool gives up first: see judge.
	u.PoolTimeout = d.timeout / 2
	u.ContextTimeoutEnabled = true
	u.DialerRetries, u.MaxRetries, u.MinRetryBackoff, u.MaxRetryBackoff = 1, -1, -1, -1
	u.DisableIdentity = true
	u.Protocol = 2 // 3 adds unsolicited messages and nothing that is used
	u.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	u.PoolSize = cmp.Or(poolSize, connsPerCore*runtime.GOMAXPROCS(0))
	u.MaxActiveConns = u.PoolSize
	u.ConnMaxIdleTime = 5 * time.Minute
	u.Dialer = dialer(u.TLSConfig)
}

const connsPerCore = 10

// dialWait is the number of timeouts that connecting may take. The library connects in the
// background, and the call that needed the connection gives up when its own time is over; TLS to
// another zone takes longer than a call may.
const dialWait = 5

// maxDialWait limits the time for connecting, unless a call may take longer: a probe that waits
// for a connection must not delay the recovery for long.
const maxDialWait = time.Second

// dialTimeout returns the timeout for connecting.
func (d *DB) dialTimeout() time.Duration {
	return min(dialWait*d.timeout, max(d.timeout, maxDialWait))
}

// probeTimeout returns the timeout of a probe. It is a little longer than that for connecting, to
// learn why there is no connection.
func (d *DB) probeTimeout() time.Duration { return d.dialTimeout() + d.timeout }

// slack is how much longer than the largest value a reply may be, because the library's own
// commands get strings as answers, too.
const slack = 64 << 10

// connect returns the library's client, without connecting yet.
func connect(u *goredis.UniversalOptions) goredis.UniversalClient {
	switch {
	case u.MasterName != "":
		o := u.Simple()
		o.Dialer = sentinels{u, u.Dialer}.dialMaster
		return goredis.NewClient(o)
	case isCluster(u):
		o := u.Cluster()
		// Routing policies would make calls wait for each other while the library looks up which
		// nodes a command is for, longer than a call may take, and need one more permission.
		o.DisableRoutingPolicies = true
		return goredis.NewClusterClient(o)
	}
	return goredis.NewClient(u.Simple())
}

func isCluster(u *goredis.UniversalOptions) bool {
	return u.IsClusterMode || len(u.Addrs) > 1 && u.MasterName == ""
}

// A handshakeError is the error of a TLS handshake.
type handshakeError struct{ cause error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.cause.Error() }
func (e *handshakeError) Unwrap() error { return e.cause }

// dialer returns a function that opens guarded connections.
func dialer(config *tls.Config) dial {
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
		return guarded(conn, maxBytes+slack), nil
	}
}

// encrypt does the TLS handshake with the host of addr on conn; on failure it closes conn.
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

// Address returns the hosts of the Redis, without user and password.
func (d *DB) Address() string { return d.address }

// Trouble returns a line for each current problem; nil if everything works.
func (d *DB) Trouble() []string { return d.health.lines() }

// Close closes all connections. Calls in progress fail.
func (d *DB) Close() error {
	d.probes.stop()
	if err := d.client.Close(); err != nil && !errors.Is(err, goredis.ErrClosed) {
		return fmt.Errorf("close redis: %w", err)
	}
	return nil
}

// probeEvery is the mean time between two probes of a failed Redis.
const probeEvery = 400 * time.Millisecond

// probes are the goroutines that test whether a failed Redis works again.
type probes struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex
	ended bool
	all   sync.WaitGroup
}

// start calls ask after first, and then about every probeEvery until ask returns true.
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

// repeat calls look now and every period, and sooner after it returned false.
func (p *probes) repeat(period time.Duration, look func(context.Context) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.all.Go(func() {
		for {
			wait := period
			if !look(p.ctx) {
				wait = pause()
			}
			select {
			case <-time.After(wait):
			case <-p.ctx.Done():
				return
			}
		}
	})
}

// pause returns the time to the next probe. It is random, so that replicas that lost the same
// Redis do not probe in step.
func pause() time.Duration { return probeEvery/2 + rand.N(probeEvery) }

func (p *probes) stop() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.cancel()
	p.all.Wait()
}

// noLog is a logger for the library that discards everything.
type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}
