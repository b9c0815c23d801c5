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
	Issuer     string   `yaml:"issuer" need:"true"`   // the claim iss of its tokens
	Audience   string   `yaml:"audience" need:"true"` // must be, or be among, the aud of its tokens
	JWKSURL    keysURL  `yaml:"jwks_url"`
	JWKSFile   string   `yaml:"jwks_file"` // in a file: relative to it
	Algorithms []string `yaml:"algorithms" of:"RS256|RS384|RS512|PS256|PS384|PS512|ES256|ES384|ES512|EdDSA"`
}

// Allowed returns the signature algorithms that are accepted.
func (i Issuer) Allowed() []string {
	if len(i.Algorithms) == 0 {
		return []string{"RS256"}
	}
	return i.Algorithms
}

// Source returns the source of the keys.
func (i Issuer) Source() tenant.KeySource {
	if i.JWKSFile != "" {
		return tenant.KeysFromFile(i.JWKSFile)
	}
	return tenant.KeysFromURL(i.JWKSURL.String())
}

// From returns the file or URL of the keys.
func (i Issuer) From() string {
	if i.JWKSFile != "" {
		return i.JWKSFile
	}
	return i.JWKSURL.String()
}

// A keysURL is the URL of an issuer's keys: https://id.example.com/jwks.
type keysURL struct{ *url.URL }

// UnmarshalText refuses URLs whose content others on the way could change, and credentials, which
// would end up in logs. Its error does not repeat a URL with credentials.
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

// A Header says which peers may send the header Sidenote-Tenant.
type Header struct {
	Trusted      []network `yaml:"trusted"`      // addresses of peers
	Certificates []string  `yaml:"certificates"` // names in verified certificates of peers
}

// Used reports whether any peer is trusted.
func (h Header) Used() bool { return len(h.Trusted)+len(h.Certificates) > 0 }

// Networks converts networks for the proxy.
func Networks(list []network) []netip.Prefix {
	var all []netip.Prefix
	for _, n := range list {
		all = append(all, n.Prefix)
	}
	return all
}

// A network is an address or a range of them: 10.0.0.7, 10.0.0.0/8, fd00::/8.
type network struct{ netip.Prefix }

// UnmarshalText refuses the network of all addresses.
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

// claimValues are the accepted values of a claim.
type claimValues []string

// DecodeYAML reads a list of strings; a single string is short for a list of one.
func (v *claimValues) DecodeYAML(d *strictyaml.Decoder, key string, n ast.Node) {
	if text, ok := strictyaml.Text(n); ok {
		*v = claimValues{text}
		return
	}
	var list []string
	d.Value(key, n, reflect.ValueOf(&list).Elem(), "")
	*v = list
}

// Claims are the claims, by name, that a token needs to name a tenant. Names of nested claims have
// dots.
type Claims map[string]claimValues

// rule returns the rule that maps tokens of an issuer with the claims c to the tenant owner.
func (c Claims) rule(owner, issuer string) tenant.ClaimRule {
	r := tenant.ClaimRule{Tenant: owner, Issuer: issuer, Claims: make(map[string][]string, len(c))}
	for name, values := range c {
		r.Claims[name] = values
	}
	return r
}
