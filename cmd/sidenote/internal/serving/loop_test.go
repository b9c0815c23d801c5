package serving

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// An upstream whose name resolves to one of our ports is refused.
func TestUpstreamLoop(t *testing.T) {
	for _, c := range []struct {
		name, listen, upstream string
		resolves               []string // addresses of the upstream's name
		own                    bool
	}{
		{"own name", "127.0.0.1:0", "http://vm.test", []string{"127.0.0.1"}, true},
		{"own name, mapped", "127.0.0.1:0", "http://vm.test", []string{"::ffff:127.0.0.1"}, true},
		{"one of several", "127.0.0.1:0", "http://vm.test", []string{"192.0.2.1", "127.0.0.1"}, true},
		{"every interface", "0.0.0.0:0", "http://vm.test", []string{"127.0.0.1"}, true},
		{"zero is this machine", "0.0.0.0:0", "http://vm.test", []string{"0.0.0.0"}, true},
		{"somebody else", "0.0.0.0:0", "http://vm.test", []string{"192.0.2.1"}, false},
		{"other loopback address", "127.0.0.1:0", "http://vm.test", []string{"127.0.0.9"}, false},
		{"unknown name", "127.0.0.1:0", "http://vm.test", nil, false},
	} {
		l, err := net.Listen("tcp", c.listen)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		resolve := func(_ context.Context, _, host string) (found []netip.Addr, err error) {
			for _, a := range c.resolves {
				found = append(found, netip.MustParseAddr(a))
			}
			if host != "vm.test" || found == nil {
				return nil, errors.New("no such host")
			}
			return found, nil
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		for _, written := range []string{port, "0" + port} {
			cfg, err := config.Load(config.Source{Flags: config.Flags{Upstream: c.upstream + ":" + written, Admin: "off"}})
			if err != nil {
				t.Fatal(err)
			}
			if err := refuseLoop(t.Context(), cfg, Listeners{Data: []net.Listener{l}}, resolve); (err != nil) != c.own {
				t.Errorf("%s, port %s: %v", c.name, written, err)
			}
		}
	}
}

// Only names of upstreams on one of our port numbers are resolved.
func TestUpstreamOfAnotherPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	cfg, err := config.Load(config.Source{Flags: config.Flags{Upstream: "https://api.test", Admin: "off"}})
	if err != nil {
		t.Fatal(err)
	}
	resolve := func(_ context.Context, _, host string) ([]netip.Addr, error) {
		t.Errorf("%s was looked up", host)
		return nil, nil
	}
	if err := refuseLoop(t.Context(), cfg, Listeners{Data: []net.Listener{l}}, resolve); err != nil {
		t.Error(err)
	}
}
