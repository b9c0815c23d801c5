package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy/tenant"
)

// An Issuer signs tokens (JWT) for Sidenote. Its keys come from JWKSURL or JWKSFile.
type Issuer struct {
	Issuer     string   `yaml:"issuer" need:"true"`   // iss of its tokens
	Audience   string   `yaml:"audience" need:"true"` // that aud of its tokens is or holds
	JWKSURL    keysURL  `yaml:"jwks_url"`
	JWKSFile   string   `yaml:"jwks_file"` // in a file: relative to it
	Algorithms []string `yaml:"algorithms" of:"RS256|RS384|RS512|PS256|PS384|PS512|ES256|ES384|ES512|EdDSA"`
}

// Allowed returns the algorithms that signatures may have.
func (i Issuer) Allowed() []string {
	if len(i.Algorithms) == 0 {
		return []string{"RS256"}
	}
	return i.Algorithms
}

// Source is where the keys come from.
func (i Issuer) Source() tenant.KeySource {
	if i.JWKSFile != "" {
		return tenant.KeysFromFile(i.JWKSFile)
	}
	return tenant.KeysFromURL(i.JWKSURL.String())
}

// From names the place where the keys come from: a file or a URL.
func (i Issuer) From() string {
	if i.JWKSFile != "" {
		return i.JWKSFile
	}
	return i.JWKSURL.String()
}

// A keysURL is where an issuer publishes its keys: https://id.example.com/jwks.
type keysURL struct{ *url.URL }

// UnmarshalText refuses what others on the way could change, and credentials, which would
// end up in logs. Its error does not repeat a URL with credentials.
func (k *keysURL) UnmarshalText(text []byte) error {
	u, err := url.Parse(string(text))
	switch {
	case mayLogin(u, err, text):
		return errors.New("holds credentials; keys are public and need none")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("%q is not a URL; write it as in https://id.example.com/jwks", text)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return fmt.Errorf("%q is not https, so others on the way could put keys of their own there", text)
	}
	k.URL = u
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (k keysURL) MarshalText() ([]byte, error) {
	if k.URL == nil {
		return nil, nil
	}
	return []byte(k.String()), nil
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.Unmap().IsLoopback()
}

// A Header says whose header Sidenote-Tenant is believed.
type Header struct {
	Trusted      []network `yaml:"trusted"`      // addresses of peers
	Certificates []string  `yaml:"certificates"` // names in verified certificates of peers
}

// Used tells whether anybody is trusted.
func (h Header) Used() bool { return len(h.Trusted)+len(h.Certificates) > 0 }

// Networks returns networks as the proxy wants them.
func Networks(list []network) []netip.Prefix {
	var all []netip.Prefix
	for _, n := range list {
		all = append(all, n.Prefix)
	}
	return all
}

// A network is an address or a range of them: 10.0.0.7, 10.0.0.0/8, fd00::/8.
type network struct{ netip.Prefix }

// UnmarshalText refuses what is no network, and the one that holds every address.
func (n *network) UnmarshalText(text []byte) error {
	p, err := netip.ParsePrefix(string(text))
	if addr, bare := netip.ParseAddr(string(text)); bare == nil {
		p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	switch {
	case err != nil || p.Addr().Zone() != "" || p.Addr().Is4In6():
		return fmt.Errorf("%q is not an address or network; write it as in 10.0.0.7 or 10.0.0.0/8", text)
	case p.Bits() == 0:
		return fmt.Errorf("%q is every address, and so trusts anybody", text)
	case p != p.Masked():
		return fmt.Errorf("%q has an address within the network; write %s for the network, or %s", text, p.Masked(), p.Addr())
	}
	n.Prefix = p
	return nil
}

// claimValues are what a claim may have, one of them at least.
type claimValues []string

// DecodeYAML reads a list of texts; a text is short for a list of one.
func (v *claimValues) DecodeYAML(d *strictyaml.Decoder, key string, n ast.Node) {
	if text, ok := strictyaml.Text(n); ok {
		*v = claimValues{text}
		return
	}
	var list []string
	d.Value(key, n, reflect.ValueOf(&list).Elem(), "")
	*v = list
}

// Claims are what a token must have to name a tenant, by name; those of a nested object with
// dots between.
type Claims map[string]claimValues

// rule is the one by which tokens of an issuer that have c name a tenant.
func (c Claims) rule(owner, issuer string) tenant.ClaimRule {
	r := tenant.ClaimRule{Tenant: owner, Issuer: issuer, Claims: make(map[string][]string, len(c))}
	for name, values := range c {
		r.Claims[name] = values
	}
	return r
}
