package transport_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"sidenote/proxy/transport"
)

// T09: addresses reported by anyone but trusted proxies are ignored.
func TestClient(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, c := range []struct{ peer, lines, want string }{
		{"10.0.0.1", "", "10.0.0.1"},
		{"10.0.0.1", "203.0.113.9", "203.0.113.9"},
		{"192.0.2.1", "203.0.113.9", "192.0.2.1"}, // an untrusted peer
		{"10.0.0.1", "198.51.100.1, 203.0.113.9", "203.0.113.9"},
		{"10.0.0.1", "10.9.9.9, 203.0.113.9 ,10.0.0.2", "203.0.113.9"},
		{"10.0.0.1", "203.0.113.9\n10.0.0.2", "203.0.113.9"},
		{"10.0.0.1", "203.0.113.9\n198.51.100.1\n10.0.0.2", "198.51.100.1"},
		{"10.0.0.1", "10.0.0.3,10.0.0.2", "10.0.0.3"}, // all are trusted: the first one counts
		{"10.0.0.1", "203.0.113.9, unknown", "10.0.0.1"},
		{"10.0.0.1", "203.0.113.9, unknown, 10.0.0.2", "10.0.0.2"},
		{"10.0.0.1", "203.0.113.9,", "10.0.0.1"},
		{"10.0.0.1", "203.0.113.9\n", "10.0.0.1"},
		{"10.0.0.1", "203.0.113.9:4711", "203.0.113.9"},
		{"10.0.0.1", "2001:db8::1", "2001:db8::1"},
		{"10.0.0.1", "[2001:db8::1]", "2001:db8::1"},
		{"10.0.0.1", "[2001:db8::1]:443", "2001:db8::1"},
		{"fd00::1", "::ffff:203.0.113.9", "203.0.113.9"},
		{"10.0.0.1", "::ffff:10.0.0.2, 10.0.0.3", "10.0.0.2"},
		{"10.0.0.1", strings.Repeat("1", 65), "10.0.0.1"},
	} {
		var lines [][]byte
		if c.lines != "" {
			for line := range strings.SplitSeq(c.lines, "\n") {
				lines = append(lines, []byte(line))
			}
		}
		if got := transport.ClientAddress(netip.MustParseAddr(c.peer), trusted, lines); got.String() != c.want {
			t.Errorf("%s, %q: %v, want %s", c.peer, c.lines, got, c.want)
		}
	}
}

// Peer addresses have one form, whatever their socket.
func TestOf(t *testing.T) {
	for want, peer := range map[string]net.Addr{
		"127.0.0.1":  &net.TCPAddr{IP: net.ParseIP("::ffff:127.0.0.1"), Port: 1},
		"fe80::1":    &net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"},
		"invalid IP": &net.UnixAddr{Name: "@"},
	} {
		if got := transport.AddressOf(peer).String(); got != want {
			t.Errorf("%v: %s, want %s", peer, got, want)
		}
	}
}
