package config

import (
	"cmp"
	"crypto/tls"
	"errors"
	"slices"
	"time"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy"
	"sidenote/proxy/transport"
	"sidenote/retrieval/services"
	"sidenote/rewrite/tokens"
)

// A ProxyURL is treated as a secret because it may hold a password. Off means a direct connection,
// whatever the environment says.
type ProxyURL struct{ Secret }

// SetPlain sets a URL that is written in the file itself. It refuses one with a password.
func (u *ProxyURL) SetPlain(text string) error {
	if text != Off {
		p, err := transport.ParseProxy(text)
		if err != nil {
			return err
		}
		if p.HasLogin() {
			return errors.New("holds a password in plain text; write {env: NAME} or {file: PATH}")
		}
	}
	u.Value = proxy.NewSecret(text)
	return nil
}

// Shown returns where the URL is read from, or the URL if it is written in the file.
func (u ProxyURL) Shown() string { return cmp.Or(u.Secret.Shown(), u.Value.Reveal()) }

// readUpstream reads the secrets and files of an upstream, and sets how it is reached.
func (c loader) readUpstream(src Source, key string, u *Upstream) {
	c.readSecret(src, key+".api_key", &u.APIKey)
	if u.BaseURL.URL == nil {
		return // was reported
	}
	bases := u.BaseURL.all()
	for i, base := range bases {
		if base.Scheme == "http" && u.CA+u.Cert+u.Key != "" {
			c.problem(key, "has ca, cert or key, and base_url %s is not https, so they would not be used", base)
		}
		if slices.ContainsFunc(bases[:i], func(before baseURL) bool { return before.String() == base.String() }) {
			c.problem(key+".base_url", "%s is listed twice", base)
		}
		if first := proxy.VendorKeyHeader(bases[0].URL); u.APIKey.Shown() != "" && u.keyHeader() == "" && proxy.VendorKeyHeader(base.URL) != first {
			c.problem(key+".key_header", "is auto, and %s takes keys in another header than %s; set it, or make two upstreams", base, bases[0])
		}
	}
	certificates(c, src).Fill(&u.Dial, key, u.CA, u.Cert, u.Key)
	proxies := c.readProxies(src, key+".proxy", u)
	u.Dial.Socket, u.Dial.Proxy = bases[0].Socket, proxies[0]
	for i, base := range bases[1:] {
		dial := u.Dial
		dial.Socket, dial.Proxy = base.Socket, proxies[i+1]
		u.Others = append(u.Others, proxy.UpstreamBase{BaseURL: base.URL, Dial: dial})
	}
}

// ServiceBases returns the further base URLs of an upstream for clients of its services.
func ServiceBases(others []proxy.UpstreamBase) []services.Base {
	var all []services.Base
	for _, b := range others {
		all = append(all, services.Base{URL: b.BaseURL, Dial: b.Dial.DialContext, TLS: b.Dial.TLS(b.BaseURL.Hostname())})
	}
	return all
}

// certificates returns a Reader of certificate files.
func certificates(c loader, src Source) Reader {
	return Reader{
		Read:    func(key, name string) []byte { return c.readNamed(src, key, name) },
		Again:   func(key, name string) ([]byte, error) { return readAgain(c, src, key, name) },
		Problem: c.problem,
	}
}

// readProxies returns the proxy for each base URL of an upstream, by default that of the environment;
// nil for none.
func (c loader) readProxies(src Source, key string, u *Upstream) []*transport.Proxy {
	bases := u.BaseURL.all()
	proxies := make([]*transport.Proxy, len(bases))
	var err error
	text := u.Proxy.Value.Reveal()
	if _, written := c.places[key]; !written {
		for i, base := range bases {
			if proxies[i], err = transport.ProxyFromEnvironment(base.URL, src.Env); err != nil {
				c.problem(key, "HTTPS_PROXY in the environment %v", err)
			}
		}
		return proxies
	}
	if text == "" {
		text = c.secretText(src, key, &u.Proxy.Secret)
	}
	if text == "" || text == Off {
		return proxies // an empty one was reported
	}
	one, err := transport.ParseProxy(text)
	if err != nil {
		c.problem(key, "%v", err)
	}
	for i, base := range bases {
		if base.Socket != "" {
			c.problem(key, "goes with an upstream that is reached by TCP; base_url is %s", base)
		}
		proxies[i] = one
	}
	return proxies
}

// expiredCertificates lists the certificates of upstreams, engines and ports that are not valid at the
// given time.
func expiredCertificates(c *Config, now time.Time) (expired strictyaml.Problems) {
	add := func(key string, pairs []tls.Certificate) {
		for _, pair := range pairs {
			if why := transport.InvalidCertificate(pair, now); why != "" {
				expired = append(expired, strictyaml.Problem{Place: c.Place(key), Key: key, Reason: why})
			}
		}
	}
	for name, u := range c.upstreams() {
		key := "upstreams." + string(name) + ".cert"
		if _, several := c.Upstreams[name]; !several {
			key = "upstream.cert"
		}
		add(key, u.Dial.Certificates)
	}
	for name, k := range c.Knowledge {
		add("knowledge."+string(name)+".tls.cert", k.reach.Certificates)
	}
	for key, pairs := range c.served {
		add(key, pairs)
	}
	return expired.Sorted(c.files)
}

// TellOfCertificates makes tell hear each time certificates of upstreams are read again: why they
// cannot be used, or nil. Call it before the configuration is in use.
func TellOfCertificates(c *Config, tell func(upstream Name, err error)) {
	for name, u := range c.upstreams() {
		if u.Dial.Reload != nil {
			u.Dial.Reload.OnReload = func(err error) { tell(name, err) }
		}
	}
}

// keyHeader returns the header of the key for proxy.Upstream.
func (u *Upstream) keyHeader() string {
	if u.KeyHeader == "auto" {
		return ""
	}
	return u.KeyHeader
}

// promptCache returns how the upstream caches prompts; unknown if that depends on the model.
func (u Upstream) promptCache() tokens.PromptCache {
	if u.PromptCache == "auto" {
		return tokens.CacheUnknown
	}
	return tokens.PromptCache(u.PromptCache)
}
