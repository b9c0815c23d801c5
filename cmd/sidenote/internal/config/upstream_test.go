package config_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/transport/transporttest"
)

// P2: wrong connection settings of an upstream are refused by name: a certificate without its key
// or with another's, missing files, a proxy URL with a password.
func TestUpstreamFiles(t *testing.T) {
	authority := transporttest.NewAuthority()
	pair, other := authority.Issue(time.Now().Add(time.Hour)), authority.Issue(time.Now().Add(time.Hour))
	d := disk{"/tls/ca.pem": string(authority.PEM), "etc/cert.pem": string(pair.Cert), "etc/key.pem": string(pair.Key), "/tls/other.pem": string(other.Key), "/tls/empty.pem": "\n", "/tls/text.pem": "canary"}
	for lines, want := range map[string]string{
		"base_url: https://u.test, ca: /tls/ca.pem, cert: cert.pem, key: key.pem":      "<nil>",
		"base_url: https://u.test, cert: cert.pem":                                     `upstreams.a.key: is missing; it is the file of the key of cert, "cert.pem"`,
		"base_url: https://u.test, key: key.pem":                                       `upstreams.a.cert: is missing; it is the file of the certificate of key, "key.pem"`,
		"base_url: https://u.test, cert: cert.pem, key: /tls/other.pem":                `upstreams.a.cert: "cert.pem" with key "/tls/other.pem": private key does not match public key`,
		"base_url: https://u.test, cert: key.pem, key: cert.pem":                       `upstreams.a.cert: "key.pem" with key "cert.pem": failed to find certificate PEM data`,
		"base_url: https://u.test, cert: gone.pem, key: key.pem":                       `upstreams.a.cert: "gone.pem" cannot be read: file does not exist`,
		"base_url: https://u.test, ca: /tls/empty.pem":                                 `upstreams.a.ca: "/tls/empty.pem" is empty`,
		"base_url: https://u.test, ca: /tls/text.pem":                                  `upstreams.a.ca: "/tls/text.pem" contains no PEM certificate`,
		"base_url: http://u.test, ca: /tls/ca.pem":                                     `upstreams.a: has ca, cert or key, and base_url http://u.test is not https`,
		"base_url: https://u.test, proxy: http://p.test:3128":                          "<nil>",
		"base_url: https://u.test, proxy: {env: CORP_PROXY}":                           "<nil>",
		"base_url: https://u.test, proxy: off":                                         "<nil>",
		"base_url: https://u.test, proxy: http://me:canary@p.test":                     `upstreams.a.proxy: holds a password in plain text; write {env: NAME} or {file: PATH}`,
		"base_url: https://u.test, proxy: p.test:3128":                                 `upstreams.a.proxy: is not the URL of a proxy`,
		"base_url: https://u.test, proxy: {env: GONE}":                                 `upstreams.a.proxy.env: GONE is not set in the environment`,
		"base_url: https://u.test, proxy: {env: BAD_PROXY}":                            `upstreams.a.proxy: is a proxy reached over TLS`,
		"base_url: https://u.test, proxy: {file: /tls/text.pem}":                       `upstreams.a.proxy: is not the URL of a proxy`,
		"base_url: https://u.test, proxy: {env: CORP_PROXY, file: /tls/text.pem}":      `upstreams.a.proxy: has both env and file; keep one`,
		"base_url: https://u.test, cert: cert.pem, key: key.pem, password: {env: KEY}": `upstreams.a.password: unknown key`,
	} {
		d["etc/c.yaml"] = "upstreams: {a: {" + lines + "}}\n"
		src := d.source("etc/c.yaml")
		src.Env = env(map[string]string{"CORP_PROXY": "http://me:canary@p.test:1", "BAD_PROXY": "https://me:canary@p.test:1"})
		_, err := config.Load(src)
		if text := fmt.Sprint(err); !strings.Contains(text, want) || strings.Contains(text, "canary") {
			t.Errorf("%s:\ngot  %v\nwant %s", lines, err, want)
		}
	}
}

// HTTPS_PROXY is the default of an upstream, only for https beyond loopback.
func TestUpstreamProxy(t *testing.T) {
	src := disk{"c.yaml": `
upstreams:
  says: {base_url: https://a.test, proxy: http://own.test:1}
  nothing: {base_url: https://a.test}
  plain: {base_url: http://a.test}
  near: {base_url: https://127.0.0.1}
  direct: {base_url: https://a.test, proxy: off}
policies: {default: {upstream: says}}
`}.source("c.yaml")
	src.Env = env(map[string]string{"HTTPS_PROXY": "http://me:canary@env.test:2"})
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"says": "http://own.test:1", "nothing": "http://***@env.test:2", "plain": "", "near": "", "direct": ""} {
		got := ""
		if p := c.Proxy().Upstreams[name].Dial.Proxy; p != nil {
			got = p.String()
		}
		if got != want {
			t.Errorf("%s has proxy %q, want %q", name, got, want)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", c.Upstreams, c.Upstreams, c.Upstreams); strings.Contains(text, "canary") {
		t.Errorf("a print shows the password: %s", text)
	}
	src.Env = env(map[string]string{"HTTPS_PROXY": "https://me:canary@env.test:2"})
	if _, err := config.Load(src); !strings.Contains(fmt.Sprint(err), "HTTPS_PROXY in the environment is a proxy reached over TLS") || strings.Contains(fmt.Sprint(err), "canary") {
		t.Errorf("got %v", err)
	}
}

// An included file can only name certificates in its own folder. An expired one causes a warning
// at its position.
func TestUpstreamCertificates(t *testing.T) {
	authority := transporttest.NewAuthority()
	old := authority.Issue(time.Now().Add(-time.Hour))
	for ca, want := range map[string]string{
		"ca.pem":    "<nil>",
		"../ca.pem": `upstreams.a.ca: "../ca.pem" lies outside of this file's folder`,
	} {
		dir := files(t, map[string]string{
			"c.yaml": "include: [{path: team/c.yaml, may: [upstreams]}]\n", "ca.pem": string(authority.PEM),
			"team/c.yaml": "upstreams: {a: {base_url: https://u.test, cert: cert.pem, key: key.pem, ca: " + ca + "}}\n",
			"team/ca.pem": string(authority.PEM), "team/cert.pem": string(old.Cert), "team/key.pem": string(old.Key),
		})
		c, err := config.Load(config.Source{Path: filepath.Join(dir, "c.yaml")})
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", ca, err, want)
		}
		if err != nil {
			continue
		}
		if got := c.Expired(time.Now()).Error(); !strings.Contains(got, "team/c.yaml:1:") || !strings.Contains(got, "upstreams.a.cert: is a certificate that expired on") {
			t.Errorf("got %q", got)
		}
	}
}

// An expired certificate of a port causes a warning, too.
func TestPortCertificates(t *testing.T) {
	authority := transporttest.NewAuthority()
	old, good := authority.Issue(time.Now().Add(-time.Hour)), authority.Issue(time.Now().Add(time.Hour))
	dir := files(t, map[string]string{
		"c.yaml": "upstream: https://u.test\nlisten:\n- {address: 127.0.0.1:0, tls: {cert: good.pem, key: good-key.pem}}\n" +
			"- {address: 127.0.0.1:0, tls: {cert: old.pem, key: old-key.pem}}\ntelemetry: {listen: 127.0.0.1:0, tls: {cert: old.pem, key: old-key.pem}}\n",
		"good.pem": string(good.Cert), "good-key.pem": string(good.Key), "old.pem": string(old.Cert), "old-key.pem": string(old.Key),
	})
	c, err := config.Load(config.Source{Path: filepath.Join(dir, "c.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, p := range c.Expired(time.Now()) {
		keys = append(keys, p.Key+" "+p.Place.String()[len(dir)+1:])
		if !strings.Contains(p.Reason, "is a certificate that expired on") {
			t.Errorf("%s", p)
		}
	}
	if got := strings.Join(keys, ", "); got != "listen[1].tls.cert c.yaml:4:32, telemetry.tls.cert c.yaml:5:40" {
		t.Errorf("got %q", got)
	}
}
