package serving

import (
	"log/slog"
	"net"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// The error about an address in use names the flag that chooses another one.
func TestAddressInUseNamesTheFlag(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	at := config.Address(taken.Addr().String())
	for flag, cfg := range map[string]*config.Config{
		"--listen":    {Listen: config.Ports{{Address: at}}, Admin: config.Admin{Listen: config.Off}},
		"--admin":     {Admin: config.Admin{Listen: at}},
		"--telemetry": {Admin: config.Admin{Listen: config.Off}, Telemetry: config.Telemetry{Listen: at}},
	} {
		cfg.MCP.Listen = config.Off
		if cfg.Telemetry.Listen == "" {
			cfg.Telemetry.Listen = config.Off
		}
		_, err := OpenPorts(t.Context(), cfg, func(slog.Level, string) {})
		if err == nil || !strings.Contains(err.Error(), string(at)+": address already in use; ") || !strings.HasSuffix(err.Error(), "choose another address with "+flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// The warning about an open port says whose API key pays.
func TestOpenLine(t *testing.T) {
	l := addressed{at: net.TCPAddr{IP: net.IPv6unspecified, Port: 8080}}
	for file, want := range map[string]string{
		"upstream: http://u.test\n":                                  "open: anyone who reaches [::]:8080 may ask, without a key",
		"upstream: {base_url: http://u.test, api_key: {env: KEY}}\n": "open: anyone who reaches [::]:8080 may ask, without a key and with the api_key of upstream default",
	} {
		cfg, err := config.Load(config.Source{
			Path: "c.yaml", Read: func(string) ([]byte, error) { return []byte("listen: ':8080'\nidentity: {open: true}\n" + file), nil },
			Env: func(string) (string, bool) { return "sk-canary", true },
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := OpenLine(cfg, cfg.Listen[0], l); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// An addressed is a listener with a given address.
type addressed struct {
	net.Listener
	at net.TCPAddr
}

func (a addressed) Addr() net.Addr { return &a.at }

// T10: a name may resolve to another address than it suggests; the actual address counts.
func TestRealAddressCounts(t *testing.T) {
	load := func(listen string, open bool) *config.Config {
		cfg, err := config.Load(config.Source{Flags: config.Flags{Upstream: "http://u.test", Listen: listen, Open: &open}})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	for _, c := range []struct {
		listen, real, want string
		open               bool
	}{
		{"localhost:8080", "192.0.2.1", "listen: localhost:8080 is 192.0.2.1:8080 here, which can be reached from other machines, and callers need no key; write 127.0.0.1:8080", false},
		{"localhost:8080", "127.0.0.1", "", false},
		{"localhost:8080", "::1", "", false},
		{"localhost:8080", "192.0.2.1", "", true},
		{"0.0.0.0:8080", "::", "", true},
	} {
		l := addressed{at: net.TCPAddr{IP: net.ParseIP(c.real), Port: 8080}}
		got := ""
		cfg := load(c.listen, c.open)
		if err := refuseOpen(cfg, "listen", cfg.Listen[0], l); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s at %s, open %v: got %q, want %q", c.listen, c.real, c.open, got, c.want)
		}
	}
}
