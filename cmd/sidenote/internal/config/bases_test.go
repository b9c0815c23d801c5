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

// An upstream has one base URL or several, each reached in its own way, and time limits of its own.
func TestSeveralBaseURLs(t *testing.T) {
	src := disk{"c.yaml": `
upstream:
  base_url: [https://a.test/v1, "unix:/run/b.sock:/v2", {env: C}]
  timeouts: {connect: 2s, idle: 1m}
upstreams: {one: https://a.test}
`}.source("c.yaml")
	src.Env = env(map[string]string{"C": "https://127.0.0.1/v3", "HTTPS_PROXY": "http://p.test:1"})
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	u := c.Proxy().Upstreams["default"]
	if len(u.Others) != 2 || u.BaseURL.Path != "/v1" || u.Others[0].BaseURL.Path != "/v2" || u.Others[1].BaseURL.String() != "https://127.0.0.1/v3" {
		t.Fatalf("%v, %+v", u.BaseURL, u.Others)
	}
	if u.Dial.Proxy == nil || u.Dial.Socket != "" || u.Others[0].Dial.Socket != "/run/b.sock" || u.Others[0].Dial.Proxy != nil || u.Others[1].Dial.Proxy != nil {
		t.Errorf("%+v, %+v", u.Dial, u.Others)
	}
	if u.Timeouts.Connect != 2*time.Second || u.Timeouts.FirstByte != 0 || u.Timeouts.Idle != time.Minute {
		t.Errorf("%+v", u.Timeouts)
	}
	next, err := config.Load(disk{"c.yaml": "upstream: {base_url: [https://a.test/v1, https://b.test/v1]}\n"}.source("c.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, change := range config.CompareConfigs(c, next).Keys {
		if change.Key == "upstream.base_url" && !change.Restart {
			found = change.Old + " → " + change.New
		}
	}
	if found != "[https://a.test/v1, unix:/run/b.sock:/v2, https://127.0.0.1/v3] → [https://a.test/v1, https://b.test/v1]" {
		t.Errorf("changed %s", found)
	}
}

func TestBaseURLsRefused(t *testing.T) {
	for lines, want := range map[string]string{
		"base_url: [https://a.test, https://a.test]":          `upstream.base_url: https://a.test is listed twice`,
		"base_url: [https://a.test, ftp://b.test]":            `upstream.base_url[1]: "ftp://b.test" is not a URL`,
		"base_url: [https://a.test, 'http://127.0.0.1:8080']": `upstream.base_url: http://127.0.0.1:8080 is Sidenote's own address`,
		"base_url: []": `upstream.base_url: is blank`,
		"base_url: [https://a.test, http://b.test], ca: ca.pem":                                            `base_url http://b.test is not https`,
		"base_url: [https://a.test, 'unix:/run/b.sock'], proxy: 'http://p.test:1'":                         `upstream.proxy: goes with an upstream that is reached by TCP; base_url is unix:/run/b.sock`,
		"base_url: [https://a.openai.azure.com, https://b.test], api_key: {env: KEY}":                      `upstream.key_header: is auto, and https://b.test takes keys in another header than https://a.openai.azure.com`,
		"base_url: [https://a.openai.azure.com, https://b.test], api_key: {env: KEY}, key_header: api-key": "<nil>",
		"base_url: https://a.test, timeouts: {first_byte: 0s}":                                             `upstream.timeouts.first_byte: 0s is out of range; use 1ms to 24h`,
		"base_url: https://a.test, timeouts: {write: 1s}":                                                  `upstream.timeouts.write: unknown key`,
	} {
		src := disk{"c.yaml": "upstream: {" + lines + "}\n", "ca.pem": string(transporttest.NewAuthority().PEM)}.source("c.yaml")
		src.Env = env(map[string]string{"KEY": "sk-1"})
		if _, err := config.Load(src); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", lines, err, want)
		}
	}
}

func TestTenantSeries(t *testing.T) {
	for text, want := range map[string]string{
		"all": "{all 0} <nil>", "off": "{off 0} <nil>", "{top: 50}": "{all 50} <nil>",
		"some": `"some" is none of all, off`, "{top: 0}": "0 is out of range", "{top: 200k}": "200k is out of range", "top": `"top" is none of all, off`,
	} {
		c, err := config.Load(disk{"c.yaml": "upstream: https://a.test\ntelemetry: {tenants: " + text + "}\n"}.source("c.yaml"))
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(c.Telemetry.Tenants, " ", err)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// Keys and certificates are listed with the times at which they expire.
func TestExpiries(t *testing.T) {
	authority := transporttest.NewAuthority()
	soon := time.Now().Add(time.Hour).Truncate(time.Second)
	pair := authority.Issue(soon)
	dir := files(t, map[string]string{
		"c.yaml": `
upstream: {base_url: https://u.test, cert: cert.pem, key: key.pem}
admin: {listen: "127.0.0.1:1", tls: {cert: cert.pem, key: key.pem}}
tenants:
  acme: {keys: [{sha256: ` + strings.Repeat("ab", 32) + `, name: app, expires: 2027-01-31}, {sha256: ` + strings.Repeat("cd", 32) + `, expires: 2027-02-01}, {sha256: ` + strings.Repeat("ef", 32) + `}]}
`, "cert.pem": string(pair.Cert), "key.pem": string(pair.Key),
	})
	c, err := config.Load(config.Source{Path: filepath.Join(dir, "c.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]time.Time{}
	for _, e := range c.Expiries() {
		got[e.Kind+" "+e.Name] = e.At
	}
	want := map[string]time.Time{
		"key acme/app": time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC), "key acme/cdcdcdcd": time.Date(2027, 2, 2, 0, 0, 0, 0, time.UTC),
		"certificate upstreams.default.cert": soon,
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	for name, at := range want {
		if !got[name].Equal(at) {
			t.Errorf("%s: %v, want %v", name, got[name], at)
		}
	}
	ports := c.PortCertificates()
	if at := ports["admin.tls.cert"]; len(ports) != 1 || at == nil || !at().Equal(soon) {
		t.Errorf("%v", ports)
	}
}
