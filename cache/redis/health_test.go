package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"sidenote/cache"
)

// A changeLog records the calls of Changed.
type changeLog struct {
	mu    sync.Mutex
	lines []string
}

func (d *changeLog) changed(line string, bad bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf("%s %v", strings.TrimPrefix(line, "redis 127.0.0.1:1: "), bad))
}

// read returns the new entries.
func (d *changeLog) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

func (d *changeLog) wants(t *testing.T, when string, want ...string) {
	t.Helper()
	if got := d.read(); !slices.Equal(got, want) {
		t.Errorf("%s: told %q, want %q", when, got, want)
	}
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d changeLog
		h := health{changed: d.changed}
		lines := func(want ...string) {
			t.Helper()
			if got := h.lines(); !slices.Equal(got, want) {
				t.Errorf("lines %q, want %q", got, want)
			}
		}
		lines()
		h.clear("a")
		h.worked("a")
		d.wants(t, "nothing was wrong")
		h.fail("a", "one")
		h.fail("a", "one")
		h.fail("b", "one")
		d.wants(t, "both suffer from one", "one true")
		lines("one")
		h.fail("a", "two")
		h.fail("a", "one")
		h.fail("a", "two")
		d.wants(t, "the reasons take turns", "two true")
		lines("one", "two")
		h.clear("a")
		d.wants(t, "a works", "two false")
		lines("one")
		h.clear("b")
		d.wants(t, "b works", "one false")
		lines()
		h.fail("a", "one")
		h.worked("a")
		<-time.After(recoveryTime - 1)
		h.worked("a")
		d.wants(t, "a worked once, too soon", "one true")
		<-time.After(1)
		h.worked("a")
		d.wants(t, "a worked after a while", "one false")
	})
}

// At its memory limit a Redis accepts every second write. That is reported once.
func TestTroubleDoesNotFlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d changeLog
		const line = "its memory is full (OOM); what it holds is read, nothing new is kept"
		full := ends(says("OOM command not allowed"))
		s, f := fakeStore(t, Options{Changed: d.changed}, works, full)
		for i := range 1000 {
			if i%2 == 0 {
				f.answer(works, works)
			} else {
				f.answer(works, full)
			}
			_ = s.Set(t.Context(), "k", nil, time.Minute)
			<-time.After(20 * time.Millisecond)
		}
		d.wants(t, "in between", line+" true")
		f.answer(works, works)
		for range 200 {
			if err := s.Set(t.Context(), "k", nil, time.Minute); err != nil {
				t.Fatal(err)
			}
			<-time.After(20 * time.Millisecond)
		}
		d.wants(t, "in the end", line+" false")
	})
}

// A command that was refused while the breaker stays closed is probed until it works: an idle
// replica would never find out by its own calls.
func TestTroubleEndsUnasked(t *testing.T) {
	for name, c := range map[string]struct {
		reply says
		write bool
		line  string
	}{
		"write":               {"OOM no", true, "its memory is full (OOM); what it holds is read, nothing new is kept"},
		"write that may not":  {"NOPERM no", true, "the user may not do what is needed; grant +getrange +set ~sidenote:*; what it holds is read, nothing new is kept"},
		"read, the first one": {"LOADING no", false, "loading its data (LOADING); going on without it"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d changeLog
				s, f := fakeStore(t, Options{Changed: d.changed}, works, works)
				if c.write {
					f.answer(works, ends(c.reply))
					_ = s.Set(t.Context(), "k", nil, time.Minute)
				} else {
					f.answer(ends(c.reply), works)
					_, _ = s.Get(t.Context(), "k")
				}
				d.wants(t, "refused", c.line+" true")
				<-time.After(time.Hour)
				if got := s.db.Trouble(); len(got) != 1 {
					t.Errorf("an hour later: trouble %q", got)
				}
				f.answer(works, works)
				<-time.After(recoveryTime + time.Second)
				d.wants(t, "over", c.line+" false")
				if s.Open() {
					t.Error("the breaker is open")
				}
			})
		})
	}
}

// A call that began before an outage says nothing about the time after it, whether it succeeds or
// fails.
func TestLateCallsSayNothing(t *testing.T) {
	for name, late := range map[string]error{"works": nil, "fails": says("OOM no"), "is denied": says("NOPERM no")} {
		synctest.Test(t, func(t *testing.T) {
			var d changeLog
			end := make(chan error)
			waits := func(context.Context) error { return <-end }
			s, f := fakeStore(t, Options{Changed: d.changed}, waits, waits)
			var calls sync.WaitGroup
			for range 2 {
				calls.Go(func() { _, _ = s.Get(t.Context(), "k") })
				calls.Go(func() { _ = s.Set(t.Context(), "k", nil, time.Minute) })
			}
			synctest.Wait()
			f.answer(ends(syscall.ECONNREFUSED), works)
			for !s.Open() {
				_, _ = s.Get(t.Context(), "k")
			}
			d.wants(t, "the outage", "connection refused; going on without it true")
			f.answer(ends(goredis.ErrPoolTimeout), works) // so that the failure is long past
			<-time.After(recoveryTime + time.Second)
			end <- late
			end <- late
			synctest.Wait()
			if d.wants(t, name+" while the breaker is open"); len(s.db.Trouble()) != 1 {
				t.Errorf("%s: trouble %q", name, s.db.Trouble())
			}
			f.answer(works, works)
			<-time.After(time.Second)
			d.wants(t, "back", "connection refused; going on without it false")
			end <- late
			end <- late
			calls.Wait()
			if d.wants(t, name+" after it"); s.Open() || s.db.Trouble() != nil {
				t.Errorf("%s: open %v, trouble %q", name, s.Open(), s.db.Trouble())
			}
		})
	}
}

// A probe that was not made, because the pool was full or the DB closed, changes nothing.
func TestProbeThatWasNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d changeLog
		s, f := fakeStore(t, Options{Changed: d.changed}, ends(syscall.ECONNREFUSED), works)
		for !s.Open() {
			_, _ = s.Get(t.Context(), "k")
		}
		d.wants(t, "the outage", "connection refused; going on without it true")
		f.answer(ends(goredis.ErrPoolTimeout), works)
		<-time.After(10 * time.Second)
		if !s.Open() {
			t.Error("closed while the pool is full")
		}
		f.answer(hangs, works)
		<-time.After(time.Second)
		if err := s.db.Close(); err != nil {
			t.Fatal(err)
		}
		if !s.Open() {
			t.Error("closed by closing")
		}
		for _, line := range d.read() {
			if strings.HasSuffix(line, "false") {
				t.Errorf("told %q", line)
			}
		}
	})
}

// Errors that no test server produces.
func TestRareLines(t *testing.T) {
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 6379}, Err: err}
	}
	shake := func(err error) error { return &handshakeError{&tls.CertificateVerificationError{Err: err}} }
	const out, reads = "; going on without it", "; what it holds is read, nothing new is kept"
	for _, c := range []struct {
		url, op string
		err     error
		want    string
	}{
		{"rediss://h", opGet, shake(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}), "its TLS certificate is for another host" + out},
		{"rediss://h", opGet, shake(x509.CertificateInvalidError{Reason: x509.Expired}), "its TLS certificate is not valid at this time" + out},
		{"rediss://h", opGet, shake(x509.CertificateInvalidError{Reason: x509.NameMismatch}), "its TLS certificate is not trusted; see redis.ca" + out},
		{"rediss://h", opGet, &handshakeError{errors.New("remote error: tls: protocol version not supported")}, "TLS handshake failed" + out},
		{"rediss://h", opGet, errors.New("tls: bad record MAC"), "TLS handshake failed" + out},
		{"rediss://h", opGet, &handshakeError{io.EOF}, "does not answer in TLS; use redis:// or its TLS port" + out},
		{"rediss://h", opGet, &handshakeError{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}}, "does not speak TLS; use redis:// or its TLS port" + out},
		{"redis://h", opGet, dial(&net.DNSError{Err: "server misbehaving", Name: "h", IsTemporary: true}), "its name cannot be looked up" + out},
		{"redis://h", opGet, dial(&net.DNSError{Err: "i/o timeout", Name: "h", IsTimeout: true}), "cannot be connected to within 250ms" + out},
		{"redis://h", opGet, dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "cannot be reached" + out},
		{"redis://h?cluster=true", opGet, dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "cannot be reached (10.0.0.1:6379)" + out},
		{"redis://h?master_name=m", opGet, dial(os.ErrDeadlineExceeded), "cannot be connected to (10.0.0.1:6379) within 250ms" + out},
		{"unix:///run/s", opGet, dial(os.NewSyscallError("connect", syscall.EACCES)), "no permission to use its socket" + out},
		{"redis://h", opSet, says("MISCONF Redis is configured to save RDB snapshots"), "refuses writes (MISCONF)" + reads},
		{"redis://h", opSet, says("ERR unknown command 'SET'"), "does not know SET; a Sentinel wants ?master_name=NAME in redis.url" + reads},
		{"redis://h", opSet, says("NOAUTH Authentication required."), "wants a password; put it into redis.url" + out},
		{"redis://h", opSet, says("LOADING Redis is loading"), "loading its data (LOADING)" + out},
		{"redis://h?cluster=true", opGet, says("TRYAGAIN Multiple keys request during rehashing of slot"), "has no master for our keys (TRYAGAIN)" + out},
		{"redis://h", opGet, says("A" + strings.Repeat("B", 100)), "answers GETRANGE with an error (unknown)" + out},
	} {
		d, err := Open(Options{URL: c.url})
		if err != nil {
			t.Fatal(err)
		}
		if got := d.explain(c.op, c.err, nil); got != "redis "+d.Address()+": "+c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The errors of calls say what happened and do not quote the server.
func TestErrorsOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for cause, want := range map[error]string{
			says("ERR unknown command 'AUTH', with args beginning with: 'CANARY'"): "redis GETRANGE: other",
			fmt.Errorf("dial: %w", syscall.ECONNREFUSED):                           "redis GETRANGE: refused",
			context.DeadlineExceeded:                                               "redis GETRANGE: timeout",
		} {
			s, _ := fakeStore(t, Options{}, ends(cause), works)
			if _, err := s.Get(t.Context(), "k"); err == nil || err.Error() != want || !errors.Is(err, cause) || errors.Is(err, cache.ErrSkipped) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	})
}
