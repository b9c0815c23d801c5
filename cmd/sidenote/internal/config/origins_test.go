package config_test

import (
	"fmt"
	"slices"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// The origins and hosts for callers without a key are checked and reach the proxy.
func TestOriginsAndHosts(t *testing.T) {
	const up = "upstream: https://u.test\n"
	c, err := config.Load(disk{"c.yaml": up + `identity:
  origins: ["https://app.example", "HTTPS://*.dev.example:8443", "http://[fd00::1]:3000", "https://app.test/", "chrome-extension://abc", "moz-extension:"]
  hosts: [Sidenote.Example, "*.corp.example", box]`}.source("c.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got := c.Proxy().Tenants
	if len(got.Origins) != 6 || !slices.Equal(got.Hosts, []string{"sidenote.example", "*.corp.example", "box"}) {
		t.Errorf("got %q, %q", got.Origins, got.Hosts)
	}
	const noOrigin = " is not an origin; write it as in https://app.example.com, or moz-extension: for all of an app's scheme"
	const noHost = " is not a name; write it without scheme and port, as in sidenote.example.com or *.example.com"
	for _, f := range []struct{ key, value, want string }{
		{"origins", "*", "would let every web page read the knowledge; list the origins of yours"},
		{"origins", "null", "null is what any web page can send; give the page an origin, or its requests a key"},
		{"origins", "app.example", `"app.example"` + noOrigin},
		{"origins", "https:", `"https:"` + noOrigin},
		{"origins", "https://", `"https://"` + noOrigin},
		{"origins", "https://*", `"https://*"` + noOrigin},
		{"origins", "https://a.*.example", `"https://a.*.example"` + noOrigin},
		{"origins", "https://app.example/chat", `"https://app.example/chat"` + noOrigin},
		{"origins", "https://me@app.example", `"https://me@app.example"` + noOrigin},
		{"origins", "app://", `"app://"` + noOrigin},
		{"origins", "9p:", `"9p:"` + noOrigin},
		{"hosts", "https://sidenote.example", `"https://sidenote.example"` + noHost},
		{"hosts", "sidenote.example:8080", `"sidenote.example:8080"` + noHost},
		{"hosts", "*", `"*"` + noHost},
		{"hosts", "a.*.example", `"a.*.example"` + noHost},
		{"hosts", "10.0.0.1", `"10.0.0.1"` + noHost},
	} {
		file := fmt.Sprintf("%sidentity: {%s: ['%s']}", up, f.key, f.value)
		want := fmt.Sprintf("c.yaml:2:%d: identity.%s[0]: %s", len(f.key)+15, f.key, f.want)
		if _, err := config.Load(disk{"c.yaml": file}.source("c.yaml")); fmt.Sprint(err) != want {
			t.Errorf("%s:\ngot  %v\nwant %s", file, err, want)
		}
	}
}
