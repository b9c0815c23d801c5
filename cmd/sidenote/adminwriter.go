package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"

	"sidenote/proxy/admin"
	"sidenote/retrieval/knowledge/store"
)

// callWriter returns what asks the process that writes a state folder, with a token or,
// where that is "", with the folder's own. Anybody may listen by now at the address
// that a lock names: so who listens there has to prove on each connection that it
// knows the folder's token, before anything else is sent on it.
func callWriter(ctx context.Context, who *store.LockedError, token string) (*adminCaller, error) {
	if why := callable(who); why != "" {
		return nil, errors.New(why)
	}
	secret, err := store.AdminToken(who.Dir)
	if err != nil {
		return nil, fmt.Errorf("the token of the folder cannot be read, so nobody can be asked: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, adminWait)
	defer cancel()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialProven(ctx, network, address, secret)
	}
	conn, err := dial(ctx, "tcp", who.Address)
	if err != nil {
		return nil, fmt.Errorf("its admin port cannot be asked: %w", cause(err))
	}
	_ = conn.Close()
	return newAdminCaller(who.Address, cmp.Or(token, secret), dial), nil
}

// callable tells whether the address that the writer of a state folder gave can be
// called from here; if not, why.
func callable(who *store.LockedError) (why string) {
	if who.Address == "" {
		return "it takes no work over, for want of an admin port"
	}
	host, _, err := net.SplitHostPort(who.Address)
	here, _ := os.Hostname() // as the writer found out its own
	if addr, bad := netip.ParseAddr(host); err == nil && bad == nil && addr.IsLoopback() && who.Host != here {
		return "its admin port answers on its own machine only"
	}
	return ""
}

// errUnproven is about a listener that may be anybody.
var errUnproven = errors.New("whoever listens there did not prove to be that process (an older Sidenote cannot), so nothing was sent")

// dialProven returns a connection to a listener that has proved on it that it knows a
// state folder's token.
func dialProven(ctx context.Context, network, address, secret string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err = prove(conn, secret)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// maxProof is more than any answer to a challenge takes, in bytes.
const maxProof = 64 << 10

// prove challenges who is at the other end of a connection.
func prove(conn net.Conn, secret string) error {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails: it ends the process instead
	challenge := hex.EncodeToString(random[:])
	want, err := admin.Proof(secret, challenge, conn.RemoteAddr())
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "GET %s?challenge=%s HTTP/1.1\r\nHost: %s\r\n\r\n", admin.ProofPath, challenge, conn.RemoteAddr()); err != nil {
		return err
	}
	in := bufio.NewReader(io.LimitReader(conn, maxProof))
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnproven, err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	var got admin.Proved
	switch {
	case err != nil, json.Unmarshal(text, &got) != nil, !hmac.Equal([]byte(got.Proof), []byte(want)):
		return errUnproven
	case resp.Close, in.Buffered() > 0:
		return errors.New("it is being stopped")
	}
	return nil
}
