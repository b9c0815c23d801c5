package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/transport/transporttest"
)

// P2: a port is refused, by name, if it is in use twice, open by accident, of an unknown tenant,
// or has a certificate without its key.
func TestListen(t *testing.T) {
	authority := transporttest.NewAuthority()
	pair := authority.Issue(time.Now().Add(time.Hour))
	d := disk{"etc/cert.pem": string(pair.Cert), "etc/key.pem": string(pair.Key), "etc/ca.pem": string(authority.PEM)}
	const tenants = "tenants: {a: {keys: [{sha256: " + digest + "}]}, b: {policy: default}}\npolicies: {default: {mode: off}}\n"
	for lines, want := range map[string]string{
		"listen: 127.0.0.1:1": "<nil>",
		"listen: {address: 127.0.0.1:1, tls: {cert: cert.pem, key: key.pem}}":                                   "<nil>",
		"listen: [127.0.0.1:1, {address: 127.0.0.1:2, tls: {cert: cert.pem, key: key.pem, client_ca: ca.pem}}]": "<nil>",
		"listen: [127.0.0.1:1, 'localhost:01']":                                                                 "listen[1].address: localhost:01 is taken by listen[0].address",
		"listen: [127.0.0.1:1, 127.0.0.1:8081]":                                                                 "listen[1].address: 127.0.0.1:8081 is taken by admin.listen",
		"listen: [127.0.0.1:1, off]":                                                                            "listen[1].address: cannot be off",
		"listen: unix:/run/s.sock":                                                                              "<nil>",
		"listen: [127.0.0.1:1, {address: 'unix:/run/s.sock', tls: {cert: cert.pem, key: key.pem}}]":             "<nil>",
		"listen: unix:s.sock":                                                                                   `listen: "s.sock" is not the path of a socket; write it from the root on, as in unix:/run/sidenote.sock`,
		"listen: unix:/run/../s.sock":                                                                           `listen: "/run/../s.sock" is not the path of a socket`,
		"listen: unix:/" + strings.Repeat("x", 100):                                                             "has 101 bytes, and systems take 100",
		"listen: ['unix:/run/s.sock', 'unix:/run/s.sock']":                                                      "listen[1].address: unix:/run/s.sock is taken by listen[0].address",
		"listen: unix:/run/s.sock\ntelemetry: 'unix:/run/s.sock'":                                               "telemetry.listen: unix:/run/s.sock is taken by listen",
		"listen: unix:/run/s.sock\nadmin: unix:/run/s.sock":                                                     "admin.listen: unix:/run/s.sock is taken by listen",
		"admin: {tls: {cert: ../testdata/nothing.pem, key: k.pem}}":                                             "admin.tls.cert: ",
		"admin: {tls: {cert: c.pem}}":                                                                           "admin.tls.key: ",
		"listen: unix:/run/s.sock\nupstream: unix:/run/s.sock:/v1":                                              "upstream.base_url: unix:/run/s.sock:/v1 is Sidenote's own address",
		"listen: 127.0.0.1:80\nupstream: unix:/run/u.sock":                                                      "<nil>",
		"upstream: unix:u.sock:/v1":                                                                             `upstream.base_url: "u.sock" is not the path of a socket`,
		"upstream: unix:/run/u.sock:v1":                                                                         `upstream.base_url: "unix:/run/u.sock:v1" has no path behind its second colon`,
		"upstream: unix:/run/u.sock:/v1/chat/completions":                                                       "ends in /chat/completions",
		"upstream: {base_url: 'unix:/run/u.sock', ca: ca.pem}":                                                  "upstream: has ca, cert or key, and base_url unix:/run/u.sock is not https",
		"upstream: {base_url: 'unix:/run/u.sock', proxy: 'http://p.test:3128'}":                                 "upstream.proxy: goes with an upstream that is reached by TCP; base_url is unix:/run/u.sock",
		"listen: {address: 127.0.0.1:1, proxy_protocol: [10.3.0.0/24, 'fd00::1']}":                              "<nil>",
		"listen: {address: 127.0.0.1:1, proxy_protocol: [0.0.0.0/0]}":                                           `listen.proxy_protocol[0]: "0.0.0.0/0" is every address, and so trusts anybody`,
		"listen: {address: 127.0.0.1:1, proxy_protocol: true}":                                                  "listen.proxy_protocol: expected a list",
		"listen: {address: 'unix:/run/s.sock', proxy_protocol: [10.3.0.0/24]}":                                  "listen.proxy_protocol: goes by addresses, and unix:/run/s.sock has none",
		"listen: []":            "listen: is blank",
		"listen: [{tenant: b}]": "listen[0].address: is missing",
		"listen: {address: 127.0.0.1:1, tls: {cert: cert.pem}}":                                   "listen.tls.key: is missing",
		"listen: {address: 127.0.0.1:1, tls: cert.pem}":                                           "listen.tls: expected a map",
		"listen: {address: 127.0.0.1:1, tls: {cert: gone.pem, key: key.pem}}":                     `listen.tls.cert: "gone.pem" cannot be read`,
		"listen: {address: 127.0.0.1:1, tls: {cert: cert.pem, key: cert.pem}}":                    `listen.tls.cert: "cert.pem" with key "cert.pem"`,
		"listen: {address: 127.0.0.1:1, tls: {cert: cert.pem, key: key.pem, client_ca: key.pem}}": `listen.tls.client_ca: "key.pem" contains no PEM certificate`,
		"telemetry: {listen: '127.0.0.1:3', tls: {cert: cert.pem, key: gone.pem}}":                `telemetry.tls.key: "gone.pem" cannot be read`,
		"mcp: 127.0.0.1:3": "<nil>",
		"mcp: {listen: 'unix:/run/m.sock', tls: {cert: cert.pem, key: key.pem, client_ca: ca.pem}}": "<nil>",
		"mcp: {listen: '127.0.0.1:3', tls: {cert: cert.pem, key: gone.pem}}":                        `mcp.tls.key: "gone.pem" cannot be read`,
		"mcp: 127.0.0.1:8081":                    "mcp.listen: 127.0.0.1:8081 is taken by admin.listen",
		"mcp: 0.0.0.0:3":                         "mcp.listen: 0.0.0.0:3 can be reached from other machines, and callers need no key; give tenants keys",
		"mcp: 0.0.0.0:3\nidentity: {open: true}": "<nil>",
		"mcp: {listen: '0.0.0.0:3', tls: {cert: cert.pem, key: key.pem, client_ca: ca.pem}}":                                                             "<nil>",
		"mcp: {listen: 127.0.0.1:3, tenant: b}":                                                                                                          `mcp.tenant: "b" needs tenants, and there are none`,
		"mcp: {listen: 127.0.0.1:3, path: /x}":                                                                                                           "mcp.path: ",
		tenants + "mcp: {listen: 127.0.0.1:3, tenant: b}":                                                                                                "<nil>",
		tenants + "mcp: {listen: 127.0.0.1:3, tenant: c}":                                                                                                `mcp.tenant: no tenant is named "c"`,
		tenants + "listen: {address: 127.0.0.1:1, tenant: b}\nmcp: 0.0.0.0:3":                                                                            "<nil>",
		tenants + "mcp: {listen: 0.0.0.0:3, tenant: b}":                                                                                                  `mcp.listen: 0.0.0.0:3 can be reached from other machines, and its callers are tenant "b" without a key`,
		"upstream: http://127.0.0.1:3\nmcp: 127.0.0.1:3":                                                                                                 "upstream.base_url: http://127.0.0.1:3 is Sidenote's own address",
		"upstream: https://127.0.0.1:2\nlisten: [127.0.0.1:1, 127.0.0.1:2]":                                                                              "upstream.base_url: https://127.0.0.1:2 is Sidenote's own address",
		"listen: {address: 127.0.0.1:1, tenant: b}":                                                                                                      `listen.tenant: "b" needs tenants, and there are none`,
		tenants + "listen: {address: 127.0.0.1:1, tenant: b}":                                                                                            "<nil>",
		tenants + "listen: {address: 127.0.0.1:1, tenant: c}":                                                                                            `listen.tenant: no tenant is named "c"`,
		tenants + "listen: 127.0.0.1:1":                                                                                                                  "tenants.b.keys: is missing: add keys, jwt or a listener; no request can be identified as this tenant",
		tenants + "listen: {address: 0.0.0.0:1, tenant: b}":                                                                                              `listen: 0.0.0.0:1 can be reached from other machines, and its callers are tenant "b" without a key`,
		tenants + "listen: {address: 0.0.0.0:1, tenant: b}\nidentity: {open: true}":                                                                      "<nil>",
		tenants + "listen: [0.0.0.0:1, {address: 0.0.0.0:2, tenant: b, tls: {cert: cert.pem, key: key.pem, client_ca: ca.pem}}]":                         "<nil>",
		tenants + "listen: [127.0.0.1:1, {address: 0.0.0.0:2, tenant: b, tls: {cert: cert.pem, key: key.pem}}]":                                          "listen: 0.0.0.0:2 can be reached",
		"listen: {address: 0.0.0.0:1, tls: {cert: cert.pem, key: key.pem}}":                                                                              "listen: 0.0.0.0:1 can be reached",
		"listen: {address: 0.0.0.0:1, tls: {cert: cert.pem, key: key.pem, client_ca: ca.pem}}":                                                           "<nil>",
		tenants + "identity: {unknown: b}\nlisten: [{address: 0.0.0.0:1, tls: {cert: cert.pem, key: key.pem, client_ca: ca.pem}}, ':2']":                 "listen: :2 can be reached",
		tenants + "listen: {address: 127.0.0.1:1, tenant: b}\nidentity: {header: {certificates: [x.test]}}":                                              "identity.header.certificates: needs a listener that verifies certificates",
		tenants + "listen: {address: 127.0.0.1:1, tls: {cert: cert.pem, key: key.pem, client_ca: ca.pem}}\nidentity: {header: x.test}":                   "identity.header: expected a map",
		tenants + "listen: {address: 127.0.0.1:1, tls: {cert: cert.pem, key: key.pem, client_ca: ca.pem}}\nidentity: {header: {certificates: [x.test]}}": "<nil>",
	} {
		text := lines + "\n"
		if !strings.Contains(lines, "upstream:") {
			text += "upstream: https://u.test\n"
		}
		d["etc/c.yaml"] = text
		_, err := config.Load(d.source("etc/c.yaml"))
		if got := fmt.Sprint(err); !strings.Contains(got, want) || want == "<nil>" && err != nil {
			t.Errorf("%s:\ngot  %v\nwant %s", lines, err, want)
		}
	}
}

// A flag changes the address of the only port; its tenant and certificates stay, so that a
// variable of an image cannot remove them.
func TestListenFlag(t *testing.T) {
	pair := transporttest.NewAuthority().Issue(time.Now().Add(time.Hour))
	d := disk{"etc/cert.pem": string(pair.Cert), "etc/key.pem": string(pair.Key)}
	load := func(listen string) (*config.Config, error) {
		d["etc/c.yaml"] = "upstream: https://u.test\nlisten: " + listen + "\n"
		src := d.source("etc/c.yaml")
		src.Flags.Listen = "127.0.0.1:9"
		return config.Load(src)
	}
	c, err := load("{address: 127.0.0.1:1, tls: {cert: cert.pem, key: key.pem}}")
	if err != nil {
		t.Fatal(err)
	}
	if l := c.Listen[0]; len(c.Listen) != 1 || l.Address != "127.0.0.1:9" || l.TLS.Cert != "etc/cert.pem" {
		t.Errorf("got %+v", c.Listen)
	}
	if _, err := load("[127.0.0.1:1, 127.0.0.1:2]"); !strings.Contains(fmt.Sprint(err), "--listen: gives one address, but the configuration lists several at etc/c.yaml:2:") {
		t.Errorf("got %v", err)
	}
}
