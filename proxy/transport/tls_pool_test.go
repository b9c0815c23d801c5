//go:build unix

package transport_test

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// authority returns a certificate for 127.0.0.1 and a pool that trusts it.
func authority(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, roots
}

// held is a connection that collects writes until let sends them together.
type held struct {
	net.Conn
	hold bool
	out  bytes.Buffer
}

func (h *held) Write(p []byte) (int, error) {
	if h.hold {
		return h.out.Write(p)
	}
	return h.Conn.Write(p)
}

// let sends what was collected, except for its last but bytes.
func (h *held) let(but int) { _, _ = h.Conn.Write(h.out.Next(h.out.Len() - but)) }

// U15 over TLS: bytes that an upstream sends beyond its Content-Length are dropped. The next client
// gets its own answer, wherever these bytes are: in the answer's last record, after it, only partly
// received, or sent later than the answer.
func TestForeignBytesOverTLS(t *testing.T) {
	const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	certificate, roots := authority(t)
	for name, c := range map[string]struct {
		together bool // the answer and the bytes after it are one record
		later    bool // these bytes come after the answer has been read
		part     int  // how many of these bytes come only with the next request
	}{
		"in one record":             {together: true},
		"in a record of its own":    {},
		"in a part of a record":     {part: 10},
		"in a part of a head of it": {part: len(evil) + 20},
		"while it is idle":          {later: true},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			for _, size := range []int{2, 100_000} {
				t.Run(fmt.Sprintf("%s, %s, %d", name, tls.VersionName(version), size), func(t *testing.T) {
					var conns atomic.Int32
					idle, sent := make(chan struct{}), make(chan struct{})
					o := newOrigin(t, func(conn net.Conn, _ *bufio.Reader) {
						raw := &held{Conn: conn}
						secure := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{certificate}, MaxVersion: version}) //nolint:gosec // a test's
						br := bufio.NewReader(secure)
						if _, _, err := readMessage(br); err != nil {
							return
						}
						if conns.Add(1) > 1 {
							_, _ = io.WriteString(secure, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext")
							return
						}
						answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
						switch {
						case c.together:
							_, _ = io.WriteString(secure, answer+evil)
						case c.later:
							_, _ = io.WriteString(secure, answer)
							<-idle
							_, _ = io.WriteString(secure, evil)
						default:
							raw.hold = true
							_, _ = io.WriteString(secure, answer)
							_, _ = io.WriteString(secure, evil)
							raw.let(c.part)
						}
						close(sent)
						if _, err := br.Peek(1); err == nil {
							raw.let(0)
						}
					})
					config := o.config("")
					config.BaseURL.Scheme, config.Dial.RootCAs = "https", roots
					f := relaying(t, newUpstream(t, config))
					first := dial(t, f.addr)
					first.send(get)
					if _, body := first.message(); len(body) != size {
						t.Fatalf("got %d bytes", len(body))
					}
					await(t, f.outcomes, "outcome")
					close(idle)
					await(t, sent, "rest")
					second := dial(t, f.addr)
					second.send(get)
					if _, body := second.message(); body != "next" {
						t.Errorf("the next client got %q", body)
					}
				})
			}
		}
	}
}

// A connection is reused even though TLS itself sends messages on it: servers send session tickets
// after the handshake, some of them later.
func TestTicketsKeepConnections(t *testing.T) {
	certificate, roots := authority(t)
	for name, c := range map[string]*tls.Config{
		"1.2":                  {MaxVersion: tls.VersionTLS12},
		"1.3":                  {},
		"1.3, tickets later":   {ClientAuth: tls.RequestClientCert}, // sent when the client has finished the handshake
		"1.3, without tickets": {SessionTicketsDisabled: true},
	} {
		c.Certificates = []tls.Certificate{certificate}
		t.Run(name, func(t *testing.T) {
			keepsConnection(t, roots, func() {}, func(conn net.Conn, br *bufio.Reader) {
				secure := tls.Server(conn, c)
				br = bufio.NewReader(secure)
				for {
					if _, _, err := readMessage(br); err != nil {
						return
					}
					_, _ = io.WriteString(secure, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			})
		})
	}
	t.Run("1.3, a ticket while it is idle", func(t *testing.T) {
		idle, sent := make(chan struct{}), make(chan struct{})
		between := func() {
			idle <- struct{}{}
			await(t, sent, "ticket")
		}
		keepsConnection(t, roots, between, func(conn net.Conn, _ *bufio.Reader) {
			var keys strings.Builder
			secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}, SessionTicketsDisabled: true, KeyLogWriter: &keys}) //nolint:gosec // a test's
			if err := secure.Handshake(); err != nil {
				t.Error(err)
				return
			}
			out := newRecords(t, secure, keys.String())
			for br := bufio.NewReader(secure); ; {
				if _, _, err := readMessage(br); err != nil {
					return
				}
				_, _ = conn.Write(out.seal([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), 23))
				select {
				case <-idle:
				case <-t.Context().Done():
					return
				}
				_, _ = conn.Write(out.seal([]byte("\x04\x00\x00\x12\x00\x00\x0e\x10\x01\x02\x03\x04\x01\x00\x00\x04tick\x00\x00"), 22))
				sent <- struct{}{}
			}
		})
	})
}

// keepsConnection sends requests one by one to an origin with that script, calls between between
// them, and requires that they use a single connection.
func keepsConnection(t *testing.T, roots *x509.CertPool, between func(), script func(net.Conn, *bufio.Reader)) {
	o := newOrigin(t, script)
	config := o.config("")
	config.BaseURL.Scheme, config.Dial.RootCAs = "https", roots
	f := relaying(t, newUpstream(t, config))
	c := dial(t, f.addr)
	for range 5 {
		c.send(get)
		if _, body := c.message(); body != "ok" {
			t.Fatalf("got %q", body)
		}
		await(t, f.outcomes, "outcome")
		between()
	}
	if n := o.count(); n != 1 {
		t.Errorf("%d connections to the upstream, want 1", n)
	}
}

// records makes the records that a TLS 1.3 server may send after its handshake, because crypto/tls
// cannot be told to send a ticket then.
type records struct {
	aead     cipher.AEAD
	iv       []byte
	sequence uint64
}

func newRecords(t *testing.T, secure *tls.Conn, keys string) *records {
	if suite := secure.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("the cipher suite is %s", tls.CipherSuiteName(suite))
	}
	_, after, _ := strings.Cut(keys, "SERVER_TRAFFIC_SECRET_0 ")
	secret, err := hex.DecodeString(strings.Fields(after)[1])
	if err != nil {
		t.Fatal(err)
	}
	expand := func(label string, length int) []byte {
		info := string([]byte{0, byte(length), byte(len("tls13 " + label))}) + "tls13 " + label + "\x00"
		b, err := hkdf.Expand(sha256.New, secret, info, length)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	block, err := aes.NewCipher(expand("key", 16))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return &records{aead: aead, iv: expand("iv", 12)}
}

// seal makes a record of that content type from text.
func (r *records) seal(text []byte, contentType byte) []byte {
	nonce := bytes.Clone(r.iv)
	binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^r.sequence)
	r.sequence++
	inner := append(bytes.Clone(text), contentType)
	head := binary.BigEndian.AppendUint16([]byte{23, 3, 3}, uint16(len(inner)+r.aead.Overhead()))
	return r.aead.Seal(head, nonce, inner, head)
}
