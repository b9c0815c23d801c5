package config_test

import (
	"fmt"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// A data port that other machines can reach without a key must be allowed explicitly.
func TestOpenBeyondLoopback(t *testing.T) {
	const (
		up     = "upstream: https://u.test\n"
		keyed  = "tenants: {a: {keys: [" + digest + "]}}\n"
		web    = "tenants: {a: {keys: [" + digest + "]}, web: {policy: default}}\npolicies: {default: {mode: inject}}\n"
		key    = "upstream: {base_url: https://u.test, api_key: {env: KEY}}\n"
		advice = "; give tenants keys, listen on 127.0.0.1, or say that anyone may ask, by identity: {open: true} or --open"
	)
	nobody := func(listen string) string {
		return "c.yaml:1:1: listen: " + listen + " can be reached from other machines, and callers need no key" + advice
	}
	for _, c := range []struct{ name, listen, file, want string }{
		{"every interface", ":8080", up, nobody(":8080")},
		{"every interface of IPv4", "0.0.0.0:8080", up, nobody("0.0.0.0:8080")},
		{"every interface of IPv6", "'[::]:8080'", up, nobody("[::]:8080")},
		{"an address", "192.0.2.1:8080", up, nobody("192.0.2.1:8080")},
		{"a name", "gateway.test:8080", up, nobody("gateway.test:8080")},
		{"a name that only begins well", "localhost.test:8080", up, nobody("localhost.test:8080")},
		{"a free port", "0.0.0.0:0", up, nobody("0.0.0.0:0")},
		{"strangers are a tenant", ":8080", up + web + "identity: {unknown: web}\n", `c.yaml:1:1: listen: :8080 can be reached from other machines, and callers that no key names are tenant "web"` + advice},
		{"said not to be", ":8080", up + "identity: {open: false}\n", nobody(":8080")},
		{"said to be", ":8080", up + "identity: {open: true}\n", ""},
		{"said to be, also for strangers", ":8080", up + web + "identity: {open: true, unknown: web}\n", ""},
		{"said to be, at our cost", ":8080", key + "identity: {open: true}\n", ""},
		{"everybody has a key", ":8080", up + keyed, ""},
		{"strangers are refused", ":8080", up + keyed + "identity: {unknown: refuse}\n", ""},
		{"loopback", "127.0.0.1:8080", up, ""},
		{"loopback, elsewhere", "127.8.8.8:8080", up, ""},
		{"loopback of IPv6", "'[::1]:8080'", up, ""},
		{"loopback of IPv4 in IPv6", "'[::ffff:127.0.0.1]:8080'", up, ""},
		{"loopback by name", "LocalHost:8080", up, ""},
		{"loopback, and strangers are a tenant", "127.0.0.1:8080", up + web + "identity: {unknown: web}\n", ""},
	} {
		_, err := config.Load(disk{"c.yaml": "listen: " + c.listen + "\n" + c.file}.source("c.yaml"))
		if got := fmt.Sprint(err); got != c.want && (c.want != "" || err != nil) {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

// A command without callers opens no port.
func TestOfflineCommandsOpenNothing(t *testing.T) {
	src := disk{"c.yaml": "listen: :8080\nknowledge: {docs: ./docs}\n"}.source("c.yaml")
	src.Offline = true
	if _, err := config.Load(src); err != nil {
		t.Error(err)
	}
}

// The flag wins over the file in both directions.
func TestOpenByFlag(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		file string
		flag *bool
		ok   bool
	}{{"", nil, false}, {"", &yes, true}, {"", &no, false}, {"identity: {open: true}\n", &no, false}, {"identity: {open: false}\n", &yes, true}} {
		src := disk{"c.yaml": "upstream: https://u.test\n" + c.file}.source("c.yaml")
		src.Flags = config.Flags{Listen: "0.0.0.0:8080", Open: c.flag}
		if _, err := config.Load(src); (err == nil) != c.ok {
			t.Errorf("%q with %v: %v", c.file, c.flag, err)
		}
	}
}
