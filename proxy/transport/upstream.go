package transport

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport/tcp"
)

// A Config describes one upstream. Zero durations and counts mean the defaults named beside them.
// FirstByte and the durations below it may last a sixteenth longer.
type Config struct {
	BaseURL *url.URL        // http or https; its path prefixes that of each request
	Dial    OutboundOptions // how to connect; zero: directly, with the system's authorities

	MaxIdle  int           // connections kept without a request: 128
	KeepIdle time.Duration // how long each is kept: 60 s

	Connect     time.Duration // TCP and TLS together: 5 s
	FirstByte   time.Duration // from the end of the request to the head of the answer: 10 min
	Idle        time.Duration // between two pieces of an answer, or for one write of a body: 5 min
	ClientRead  time.Duration // between two pieces of a client's streamed body: 1 min
	ClientWrite time.Duration // a client that accepts nothing is cut after this time, at most twice this time: 1 min

	Panicked panics.Handler // called for panics outside of requests. May be nil
	Raw      Raw            // nil: (*net.TCPConn).SyscallConn
}

// An Upstream is a client of one server with its own connection pool. It speaks only HTTP/1.1 and
// verifies certificates against the host of BaseURL.
type Upstream struct {
	config     Config
	addr       string      // host:port
	base       string      // escaped path of BaseURL without a trailing slash
	tls        *tls.Config // nil for http
	canReadNow bool        // sendPooled can be used: plain TCP, on a system with tcp.ReadNow

	// How idle connections are checked: in the system's best way, except in tests.
	reusable func(syscall.RawConn) bool

	reach reach

	life context.Context // ends with Close
	end  context.CancelFunc

	mu    sync.Mutex
	open  map[*conn]struct{} // every connection, busy or idle
	idle  []*conn            // in order of last use, at most config.MaxIdle
	timer *time.Timer        // closes connections idle for too long; nil until the first is idle

	readers sync.Pool // *bufio.Reader for a busy conn
	heads   sync.Pool // *[]byte for the head to write, then the head that is read
	pieces  sync.Pool // *[]byte of pieceSize for parts of bodies
}

const (
	readerSize = 4 << 10  // buffer of a stream while nothing arrives
	pieceSize  = 32 << 10 // additional buffer while a piece is relayed
)

// A conn is a connection to the upstream. Between requests it holds no buffer.
type conn struct {
	tcp.Timed               // TLS or TCP
	tcp       *tcp.Conn     // the TCP connection itself
	br        *bufio.Reader // nil while idle
	idle      time.Duration // deadline per read; 0 leaves the current one
	since     time.Duration // by tcp.Clock: since when it is idle

	pooled     bool // it was taken from the pool
	pooledSend pooledSend
}

// Read reads what has arrived, waiting for at most c.idle.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.pooledSend.out) > 0 {
		return c.readPooled(p)
	}
	if c.idle > 0 {
		if err := c.WaitRead(c.idle); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(p)
}

// drop closes the connection at once, without TLS's close message, which could block.
func (c *conn) drop() { _ = c.tcp.Close() }

// NewUpstream checks c and returns a client. It does not connect.
func NewUpstream(c Config) (*Upstream, error) {
	c.MaxIdle = cmp.Or(c.MaxIdle, 128)
	c.KeepIdle = cmp.Or(c.KeepIdle, time.Minute)
	c.Connect = cmp.Or(c.Connect, 5*time.Second)
	c.FirstByte = cmp.Or(c.FirstByte, 10*time.Minute)
	c.Idle = cmp.Or(c.Idle, 5*time.Minute)
	c.ClientRead = cmp.Or(c.ClientRead, time.Minute)
	c.ClientWrite = cmp.Or(c.ClientWrite, time.Minute)
	u := &Upstream{config: c, open: map[*conn]struct{}{}, reusable: tcp.Reusable}
	if err := u.locate(c); err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	u.canReadNow = tcp.CanReadNow && u.tls == nil
	u.life, u.end = context.WithCancel(context.Background())
	u.readers.New = func() any { return bufio.NewReaderSize(nil, readerSize) }
	u.heads.New = func() any { return new([]byte) }
	u.pieces.New = func() any { b := make([]byte, pieceSize); return &b }
	return u, nil
}

func (u *Upstream) locate(c Config) error {
	if c.BaseURL == nil || c.BaseURL.Hostname() == "" {
		return errors.New("base URL without a host")
	}
	port := c.BaseURL.Port()
	switch c.BaseURL.Scheme {
	case "http":
		port = cmp.Or(port, "80")
	case "https":
		port = cmp.Or(port, "443")
		u.tls = c.Dial.TLS(c.BaseURL.Hostname())
		u.tls.NextProtos = []string{"http/1.1"}
	default:
		return fmt.Errorf("base URL scheme %q: want http or https", c.BaseURL.Scheme)
	}
	u.addr = net.JoinHostPort(c.BaseURL.Hostname(), port)
	u.base = strings.TrimRight(c.BaseURL.EscapedPath(), "/")
	return nil
}

// Close closes all connections, including busy ones: their answers are cut, which clients notice.
// Later calls of Do fail with Closed.
func (u *Upstream) Close() {
	u.end()
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.open {
		c.drop()
	}
	u.idle = nil
	if u.timer != nil {
		u.timer.Stop()
	}
}

// Retire closes the idle connections, and each busy one when its call ends. Calls can still be
// made.
func (u *Upstream) Retire() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.config.MaxIdle = 0
	for _, c := range u.idle {
		c.drop()
		delete(u.open, c)
	}
	u.idle = nil
}

// Busy returns the number of busy connections to the upstream.
func (u *Upstream) Busy() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.open) - len(u.idle)
}

func (u *Upstream) closed() bool { return u.life.Err() != nil }

// takeIdle returns an idle connection, or nil. It checks that the connection is usable, unless
// unchecked is set and sendPooled will do that. now is a reading of tcp.Clock.
func (u *Upstream) takeIdle(unchecked bool, now time.Duration) *conn {
	for c := u.pop(); c != nil; c = u.pop() {
		if now-c.since < u.config.KeepIdle && (unchecked && u.canReadNow || u.usable(c)) {
			c.br, c.pooled = u.reader(c), true
			return c
		}
		u.discard(c)
	}
	return nil
}

// usable reports whether the idle connection c is open and the upstream has sent nothing on it.
func (u *Upstream) usable(c *conn) bool {
	if secure, ok := c.Conn.(*tls.Conn); ok && tcp.CanReadNow {
		return secure.NetConn().(*tcp.TLSInput).Silent(secure)
	}
	return u.reusable(c.tcp.Raw)
}

func (u *Upstream) pop() *conn {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := len(u.idle)
	if n == 0 {
		return nil
	}
	c := u.idle[n-1]
	u.idle[n-1] = nil
	u.idle = u.idle[:n-1]
	return c
}

func (u *Upstream) reader(c *conn) *bufio.Reader {
	br := u.readers.Get().(*bufio.Reader)
	br.Reset(c)
	return br
}

// release ends the use of c. keep may be set only after the body was read to its end.
func (u *Upstream) release(c *conn, keep bool) {
	keep = keep && c.br.Buffered() == 0 // else these bytes would be taken for the next answer
	c.br.Reset(nil)
	u.readers.Put(c.br)
	c.br, c.idle, c.since = nil, 0, tcp.Clock()
	if !keep || !u.push(c) {
		u.discard(c)
	}
}

func (u *Upstream) push(c *conn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed() || len(u.idle) >= u.config.MaxIdle {
		return false
	}
	u.idle = append(u.idle, c)
	switch {
	case u.timer == nil:
		u.timer = panics.AfterFunc(u.config.Panicked, u.config.KeepIdle, u.expire)
	case len(u.idle) == 1:
		u.timer.Reset(u.config.KeepIdle)
	}
	return true
}

// expire closes connections that were idle too long and sets the timer for the others.
func (u *Upstream) expire() {
	u.mu.Lock()
	defer u.mu.Unlock()
	old := 0
	for old < len(u.idle) && tcp.Clock()-u.idle[old].since >= u.config.KeepIdle {
		u.idle[old].drop()
		delete(u.open, u.idle[old])
		old++
	}
	u.idle = append(u.idle[:0:0], u.idle[old:]...)
	if len(u.idle) > 0 && !u.closed() {
		u.timer.Reset(u.config.KeepIdle - (tcp.Clock() - u.idle[0].since))
	}
}

func (u *Upstream) discard(c *conn) {
	c.drop()
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.open, c)
}

// dial opens a connection, including TLS, within Config.Connect.
func (u *Upstream) dial(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, u.config.Connect)
	defer cancel()
	opened, plain, err := u.config.Dial.Conn(ctx, u.addr, u.tls, u.config.Raw)
	if err != nil {
		return nil, u.connectError(err)
	}
	u.reach.note(tcp.Clock(), nil)
	c := &conn{Timed: tcp.Timed{Conn: opened}, tcp: plain}
	c.pooledSend.step = c.stepPooled
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed() {
		c.drop()
		return nil, &Error{Closed, net.ErrClosed}
	}
	u.open[c] = struct{}{}
	c.br = u.reader(c)
	return c, nil
}

// connectError returns the error of an attempt to connect.
func (u *Upstream) connectError(err error) *Error {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, syscall.ETIMEDOUT): // the system gave up before Config.Connect was over
		return &Error{ConnectTimeout, err}
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		return &Error{ConnectTimeout, &Expired{u.config.Connect, err}}
	case errors.Is(err, ErrTLS):
		return &Error{TLSFailed, err}
	}
	return &Error{ConnectFailed, err}
}

// limit returns the time limit that a class of error means, 0 for other classes.
func (u *Upstream) limit(c Class) time.Duration {
	switch c {
	case ConnectTimeout:
		return u.config.Connect
	case FirstByteTimeout:
		return u.config.FirstByte
	case IdleTimeout:
		return u.config.Idle
	}
	return 0
}

// putBuffer returns a buffer to its pool.
func putBuffer(pool *sync.Pool, buffer *[]byte) {
	PoisonBuffer(*buffer)
	pool.Put(buffer)
}

// OutboundOptions say how an upstream is reached. The zero value connects directly and trusts the
// system's certificate authorities.
type OutboundOptions struct {
	Socket       string            // path of the upstream's unix socket; "": TCP
	Proxy        *Proxy            // nil: connect directly
	RootCAs      *x509.CertPool    // nil: the system's
	Certificates []tls.Certificate // client certificates for upstreams that ask for one

	// Reload, if not nil, supplies the current RootCAs and Certificates in place of those above;
	// fields that are nil above stay nil.
	Reload *Reloader[Trust]
}

// Trust holds the authorities that TLS trusts at an upstream, and the client certificates for it.
type Trust struct {
	RootCAs      *x509.CertPool
	Certificates []tls.Certificate
}

// Equal reports whether o and p reach upstreams in the same way.
func (o OutboundOptions) Equal(p OutboundOptions) bool {
	same := func(a, b tls.Certificate) bool {
		return reflect.DeepEqual(a.Certificate, b.Certificate) && reflect.DeepEqual(a.PrivateKey, b.PrivateKey)
	}
	return o.Socket == p.Socket && reflect.DeepEqual(o.Proxy, p.Proxy) && o.Reload.Follows(p.Reload) &&
		o.RootCAs.Equal(p.RootCAs) && slices.EqualFunc(o.Certificates, p.Certificates, same)
}

// DialContext opens a connection to address (host:port), or to the socket. It can serve as the
// DialContext of net/http.
func (o OutboundOptions) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if o.Socket != "" {
		return new(net.Dialer).DialContext(ctx, "unix", o.Socket)
	}
	if o.Proxy != nil {
		return o.Proxy.dial(ctx, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// TLS returns the settings for connections to a host, which its certificate must name.
func (o OutboundOptions) TLS(host string) *tls.Config {
	c := &tls.Config{ServerName: host, RootCAs: o.RootCAs, Certificates: o.Certificates, MinVersion: tls.VersionTLS12}
	if o.Reload == nil {
		return c
	}
	if o.Certificates != nil {
		c.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			for _, pair := range o.Reload.Current().Certificates {
				if asked.SupportsCertificate(&pair) == nil {
					return &pair, nil
				}
			}
			return new(tls.Certificate), nil // send none and let the upstream decide
		}
	}
	if o.RootCAs != nil { // crypto/tls would use the RootCAs set above
		c.InsecureSkipVerify = true //nolint:gosec // VerifyConnection does what it leaves out
		c.VerifyConnection = func(state tls.ConnectionState) error { return verify(state, o.Reload.Current().RootCAs, host) }
	}
	return c
}

// TLSAmong returns the settings for connections to any of some hosts. Its ServerName is "": who
// dials sets it to the host, which the certificate must name.
func (o OutboundOptions) TLSAmong(hosts []string) *tls.Config {
	c := o.TLS("")
	if c.VerifyConnection == nil {
		return c
	}
	c.VerifyConnection = func(state tls.ConnectionState) error {
		roots := o.Reload.Current().RootCAs
		if state.ServerName != "" {
			return verify(state, roots, state.ServerName)
		}
		err := errors.New("the server has no name to verify")
		for _, host := range hosts { // crypto/tls tells only names, not addresses
			if net.ParseIP(host) == nil {
				continue
			}
			if err = verify(state, roots, host); err == nil {
				return nil
			}
		}
		return err
	}
	return c
}

// verify checks the certificate of an upstream as crypto/tls does.
func verify(state tls.ConnectionState, roots *x509.CertPool, host string) error {
	options := x509.VerifyOptions{Roots: roots, DNSName: host, Intermediates: x509.NewCertPool()}
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	if _, err := state.PeerCertificates[0].Verify(options); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
	}
	return nil
}

// ErrTLS marks errors of a handshake or certificate.
var ErrTLS = errors.New("TLS")

// Conn opens a connection, with TLS unless settings is nil. Its reads and writes go through open,
// see tcp.New. plain is the connection below TLS, or conn itself. Handshake errors wrap ErrTLS.
func (o OutboundOptions) Conn(ctx context.Context, address string, settings *tls.Config, open tcp.Opener) (conn net.Conn, plain *tcp.Conn, err error) {
	dialed, err := o.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	if plain, err = tcp.New(dialed, open); err != nil {
		_ = dialed.Close()
		return nil, nil, err
	}
	if settings == nil {
		return plain, plain, nil
	}
	secure := tls.Client(&tcp.TLSInput{Conn: plain}, settings)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = plain.Close() // without TLS's close message, which could block
		return nil, nil, &handshakeError{err}
	}
	return secure, plain, nil
}

// A handshakeError wraps ErrTLS but has the text of its cause.
type handshakeError struct{ cause error }

// Error implements error.
func (e *handshakeError) Error() string { return e.cause.Error() }

// Unwrap returns the cause and ErrTLS.
func (e *handshakeError) Unwrap() []error { return []error{e.cause, ErrTLS} }
