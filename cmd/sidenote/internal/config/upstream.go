package config

import (
	"cmp"
	"crypto/tls"
	"errors"
	"time"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy"
	"sidenote/proxy/transport"
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
	u.Dial.Socket = u.BaseURL.Socket
	if u.BaseURL.Scheme == "http" && u.CA+u.Cert+u.Key != "" {
		c.problem(key, "has ca, cert or key, and base_url %s is not https, so they would not be used", u.BaseURL)
	}
	certificates(c, src).Fill(&u.Dial, key, u.CA, u.Cert, u.Key)
	readProxy(c, src, key+".proxy", u)
}

// certificates returns a Reader of certificate files.
func certificates(c loader, src Source) Reader {
	return Reader{
		Read:    func(key, name string) []byte { return c.readNamed(src, key, name) },
		Again:   func(key, name string) ([]byte, error) { return readAgain(c, src, key, name) },
		Problem: c.problem,
	}
}

// readProxy sets the proxy of an upstream, by default that of the environment.
func readProxy(c loader, src Source, key string, u *Upstream) {
	var err error
	text := u.Proxy.Value.Reveal()
	if _, written := c.places[key]; !written {
		if u.Dial.Proxy, err = transport.ProxyFromEnvironment(u.BaseURL.URL, src.Env); err != nil {
			c.problem(key, "HTTPS_PROXY in the environment %v", err)
		}
		return
	}
	if text == "" {
		text = c.secretText(src, key, &u.Proxy.Secret)
	}
	if text == "" || text == Off {
		return // an empty one was reported
	}
	if u.Dial.Socket != "" {
		c.problem(key, "goes with an upstream that is reached by TCP; base_url is %s", u.BaseURL)
	}
	if u.Dial.Proxy, err = transport.ParseProxy(text); err != nil {
		c.problem(key, "%v", err)
	}
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
