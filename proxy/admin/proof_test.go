package admin_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/admin"
)

// A listener proves to any caller that it knows the token of its state folder, and reveals nothing
// else about the token. The proof is for the listener's address, whatever name it was called by.
func TestListenerProvesItself(t *testing.T) {
	const path = "/v1/proof?challenge="
	ask := strings.Repeat("0123456789abcdef", 4)
	url := startProving(t, func() (string, error) { return "state", nil })
	at, err := net.ResolveTCPAddr("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	proof := func(token, challenge string, at net.Addr) string {
		text, err := admin.Proof(token, challenge, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, host := range []string{at.String(), "localhost:1", "127.0.0.2:8081"} {
		var got admin.Proved
		code, body := call(t, "GET", url+path+ask, "", "Host: "+host)
		if err := json.Unmarshal([]byte(body), &got); err != nil || code != 200 || got.Proof != proof("state", ask, at) || len(got.Proof) != 64 {
			t.Errorf("called %s: %d, %s, %v", host, code, body, err)
		}
	}
	seen := map[string]bool{
		proof("state", ask, at): true, proof("state", ask[1:]+"0", at): true, proof("other", ask, at): true,
		proof("state", ask, &net.TCPAddr{IP: at.IP, Port: at.Port + 1}): true, proof("state", ask, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2), Port: at.Port}): true,
	}
	if len(seen) != 5 {
		t.Errorf("of five proofs %d differ", len(seen))
	}
	if proof("state", ask, &net.TCPAddr{IP: at.IP.To16(), Port: at.Port}) != proof("state", ask, &net.TCPAddr{IP: at.IP.To4(), Port: at.Port}) {
		t.Error("an address that is mapped to IPv6 is another")
	}
	for _, challenge := range []string{"", ask[1:], ask + "0", strings.ToUpper(ask), ask[1:] + "%0A", "x" + ask[1:]} {
		if code, body := call(t, "GET", url+path+challenge, ""); code != 400 || strings.Contains(body, "proof\"") {
			t.Errorf("%q: %d, %s", challenge, code, body)
		}
	}
	if code, _ := call(t, "POST", url+path+ask, ""); code != 405 {
		t.Errorf("POST: %d", code)
	}
	if code, _ := call(t, "GET", url+path+ask, "", "Origin: https://evil.example"); code != 403 {
		t.Errorf("from a page: %d", code)
	}
	for _, none := range []func() (string, error){nil, func() (string, error) { return "", errors.New("the state is in memory") }} {
		if code, body := call(t, "GET", startProving(t, none)+path+ask, ""); code != 404 || strings.Contains(body, "memory") {
			t.Errorf("without a state folder: %d, %s", code, body)
		}
	}
}

// startProving starts an admin port with a configured token and one of the state folder.
func startProving(t *testing.T, state func() (string, error)) string {
	t.Helper()
	h := handler(func(h *admin.Handler) { h.Token, h.StateToken = proxy.NewSecret("tok"), state })
	return listen(t, admin.NewServer(h.Handle, slog.New(slog.DiscardHandler)))
}
