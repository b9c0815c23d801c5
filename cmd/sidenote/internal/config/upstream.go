package config

import (
	"cmp"
	"crypto/tls"
	"errors"
	"time"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy"
	"sidenote/proxy/transport"
)

// A ProxyURL may hold a password, and is a secret then. Off reaches the upstream directly,
// whatever the environment says.
type ProxyURL struct{ Secret }

// SetPlain sets the URL that is written in the file itself. One with a password is refused.
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

// Shown tells where the URL is read, or the one that is written in the file.
func (u ProxyURL) Shown() string { return cmp.Or(u.Secret.Shown(), u.Value.Reveal()) }

// readUpstream reads the secrets and files of an upstream, and fills in how it is reached.
func (c loader) readUpstream(src Source, key string, u *Upstream) {
	c.readSecret(src, key+".api_key", &u.APIKey)
	if u.BaseURL.URL == nil {
		return // reported
	}
	u.Dial.Socket = u.BaseURL.Socket
	if u.BaseURL.Scheme == "http" && u.CA+u.Cert+u.Key != "" {
		c.problem(key, "has ca, cert or key, and base_url %s is not https, so they would not be used", u.BaseURL)
	}
	certificates(c, src).Fill(&u.Dial, key, u.CA, u.Cert, u.Key)
	readProxy(c, src, key+".proxy", u)
}

// certificates reads files of certificates.
func certificates(c loader, src Source) Reader {
	return Reader{
		Read:    func(key, name string) []byte { return c.readNamed(src, key, name) },
		Again:   func(key, name string) ([]byte, error) { return readAgain(c, src, key, name) },
		Problem: c.problem,
	}
}

// readProxy fills in the proxy of an upstream, which the environment names where the
// configuration does not.
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
		return // an empty one is reported
	}
	if u.Dial.Socket != "" {
		c.problem(key, "goes with an upstream that is reached by TCP; base_url is %s", u.BaseURL)
	}
	if u.Dial.Proxy, err = transport.ParseProxy(text); err != nil {
		c.problem(key, "%v", err)
	}
}

// expiredCertificates lists the certificates of upstreams and ports that are not valid at a time.
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
	for key, pairs := range c.served {
		add(key, pairs)
	}
	return expired.Sorted(c.files)
}

// TellOfCertificates lets tell hear of certificates of upstreams that are read again while
// the configuration is in use: why they cannot be used, or nil. Call it before that.
func TellOfCertificates(c *Config, tell func(upstream Name, err error)) {
	for name, u := range c.upstreams() {
		if u.Dial.Reload != nil {
			u.Dial.Reload.Tell = func(err error) { tell(name, err) }
		}
	}
}
