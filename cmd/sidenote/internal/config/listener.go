package config

import (
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy/transport"
)

// A Listener is a data port: an address, and optionally the tenant of its callers.
type Listener struct {
	Address Address `yaml:"address" need:"true"`
	Tenant  Name    `yaml:"tenant,omitempty"` // of every caller on this port, whatever it sends; absent: as identity says
	TLS     TLS     `yaml:"tls,omitempty"`

	Proxies []network `yaml:"proxy_protocol,omitempty"` // load balancers whose connections start with a PROXY protocol header
}

// TLS names the PEM files of a listener. They are read again when they change.
type TLS struct {
	Cert     string `yaml:"cert" need:"true"`
	Key      string `yaml:"key" need:"true"`
	ClientCA string `yaml:"client_ca,omitempty"` // verifies client certificates; absent: clients need none
}

// On reports whether TLS is configured.
func (t TLS) On() bool { return t != TLS{} }

// Files returns the files that t names.
func (t TLS) Files() transport.CertificateFiles { return transport.CertificateFiles(t) }

// Ports are the data ports. In a file they are an address, a map or a list of either.
type Ports []Listener

// DecodeYAML reads an address, a listener, or a list of them.
func (p *Ports) DecodeYAML(d *strictyaml.Decoder, key string, n ast.Node) {
	var one Listener
	_, list := n.(*ast.SequenceNode)
	_, whole := n.(ast.MapNode)
	switch {
	case list:
		d.List(key, n, reflect.ValueOf(p).Elem(), "")
		return
	case whole && !strictyaml.IsVariable(n):
		d.Structure(key, n, reflect.ValueOf(&one).Elem())
	default:
		d.Scalar(key, n, reflect.ValueOf(&one.Address).Elem(), "")
	}
	if one.Address != "" { // otherwise the problem was reported
		*p = Ports{one}
	}
}

// String lists the addresses.
func (ls Ports) String() string {
	var all []string
	for _, l := range ls {
		all = append(all, string(l.Address))
	}
	return strings.Join(all, ", ")
}

// MarshalText formats the listeners as in a file, on one line.
func (ls Ports) MarshalText() ([]byte, error) {
	var all []string
	for _, l := range ls {
		all = append(all, l.Shown())
	}
	if len(all) == 1 {
		return []byte(all[0]), nil
	}
	return []byte("[" + strings.Join(all, ", ") + "]"), nil
}

// Shown formats the listener as in a file, on one line.
func (l Listener) Shown() string {
	if l.Tenant == "" && !l.TLS.On() && len(l.Proxies) == 0 {
		return string(l.Address)
	}
	text, err := yaml.MarshalWithOptions(l, yaml.Flow(true))
	if err != nil {
		panic("BUG: a listener cannot be written: " + err.Error())
	}
	return strings.TrimSpace(string(text))
}

// Open returns the ports that other machines can reach without a client certificate and whose
// callers need no key: all such ports, or only those with a tenant.
func (ls Ports) Open(all bool) (open Ports) {
	for _, l := range ls {
		if l.Address != "" && !l.Address.Loopback() && l.TLS.ClientCA == "" && (all || l.Tenant != "") {
			open = append(open, l)
		}
	}
	return open
}
