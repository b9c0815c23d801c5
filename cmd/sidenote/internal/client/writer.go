package client

import (
	"bufio"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"

	"sidenote/cmd/internal/terminal"
	"sidenote/proxy/admin"
	"sidenote/retrieval/knowledge/store"
)

// AdminOfWriter returns a client of the process that writes a state folder. It sends token or, if
// that is "", the folder's own. The address in the lock may belong to another program by now, so
// on each connection the listener must first prove that it knows the folder's token.
//
// A TLS listener is authenticated by that proof, which is bound to the session, and not by an
// authority. So its certificates may change, and need not name the address. shown is presented if
// the listener requests a certificate.
func AdminOfWriter(ctx context.Context, who *store.LockedError, token string, shown *Certificate) (*Admin, error) {
	if why := unreachable(who); why != "" {
		return nil, errors.New(why)
	}
	secret, err := store.AdminToken(who.Dir)
	if err != nil {
		return nil, fmt.Errorf("the token of the folder cannot be read, so nobody can be asked: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	settings, err := shown.Settings()
	if err != nil {
		return nil, err
	}
	settings.MinVersion = tls.VersionTLS13 // earlier sessions may have nothing that a proof can be bound to
	settings.InsecureSkipVerify = true     //nolint:gosec // the proof takes its place
	at := parse(who.Address)
	dial := func(ctx context.Context) (net.Conn, error) {
		return at.dialProven(ctx, settings, who.Dir, secret)
	}
	conn, err := dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("its admin port cannot be asked: %w", shown.Explain(terminal.Cause(err), flags))
	}
	_ = conn.Close()
	c := NewAdmin(at.host(), cmp.Or(token, secret), dial)
	c.shown = shown
	return c, nil
}

// unreachable says why the address given by the writer of a state folder cannot be reached from
// here, or "".
func unreachable(who *store.LockedError) (why string) {
	if who.Address == "" {
		return "it has no admin port, so it cannot take over the work"
	}
	host, _, err := net.SplitHostPort(parse(who.Address).target)
	here, _ := os.Hostname() // as the writer determined its own
	if addr, bad := netip.ParseAddr(host); err == nil && bad == nil && addr.IsLoopback() && who.Host != here {
		return "its admin port answers on its own machine only"
	}
	return ""
}

// ErrUnproven means that a listener did not prove to be the writer.
var ErrUnproven = errors.New("the listener did not prove to be that process (an older Sidenote cannot), so nothing was sent")

// dialProven connects to a listener and returns the connection after the listener has proved that
// it knows secret, the token of the state folder dir.
func (a address) dialProven(ctx context.Context, settings *tls.Config, dir, secret string) (net.Conn, error) {
	conn, err := a.dial(ctx, settings)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	if socket, ok := conn.(*net.UnixConn); ok {
		err = checkListener(socket, dir)
	}
	if err == nil {
		err = prove(conn, a.host(), secret)
	}
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// maxProof exceeds any answer to a challenge, in bytes.
const maxProof = 64 << 10

// prove sends a challenge on a connection and checks the proof.
func prove(conn net.Conn, host, secret string) error {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails: it ends the process instead
	challenge := hex.EncodeToString(random[:])
	var session *tls.ConnectionState
	if secure, ok := conn.(*tls.Conn); ok {
		state := secure.ConnectionState()
		session = &state
	}
	want, err := admin.Proof(secret, challenge, conn.RemoteAddr(), session)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "GET %s?challenge=%s HTTP/1.1\r\nHost: %s\r\n\r\n", admin.ProofPath, challenge, host); err != nil {
		return err
	}
	in := bufio.NewReader(io.LimitReader(conn, maxProof))
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnproven, err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	var got admin.Proved
	switch {
	case err != nil, json.Unmarshal(text, &got) != nil, !hmac.Equal([]byte(got.Proof), []byte(want)):
		return ErrUnproven
	case resp.Close, in.Buffered() > 0:
		return errors.New("it is being stopped")
	}
	return nil
}
