package config

import (
	"crypto/tls"
	"strings"

	"sidenote/cmd/sidenote/internal/strictyaml"
)

// A listening is a listener of any kind, with its keys in the configuration.
type listening struct {
	key     string // of the address
	address Address
	tls     string // key of tls
	files   *TLS
}

// listeners returns all listeners.
func (c delegation) listeners() (all []listening) {
	for i := range c.Listen {
		key := "listen"
		if _, several := c.places["listen[0]"]; several {
			key += "[" + itoa(i) + "]"
		}
		at := key
		if _, ok := c.places[key+".address"]; ok {
			at += ".address"
		}
		all = append(all, listening{at, c.Listen[i].Address, key + ".tls", &c.Listen[i].TLS})
	}
	return append(all, listening{"admin.listen", c.Admin.Listen, "admin.tls", &c.Admin.TLS},
		listening{"telemetry.listen", c.Telemetry.Listen, "telemetry.tls", &c.Telemetry.TLS}, listening{"mcp.listen", c.MCP.Listen, "mcp.tls", &c.MCP.TLS})
}

// applyListenFlag replaces the address of the files by that of --listen. With several listeners it
// would have to replace all, with their tenants and certificates, so that is an error.
func (c loader) applyListenFlag(text string) {
	if text == "" {
		return
	}
	place := strictyaml.Place{File: "--listen"}
	if len(c.Listen) > 1 {
		c.problems = append(c.problems, strictyaml.Problem{Place: place, Reason: "gives one address, but the configuration lists several at " + c.Place("listen").String() +
			"; leave it out, or SIDENOTE_LISTEN empty"})
		return
	}
	if len(c.Listen) == 0 {
		return // was reported
	}
	delete(c.places, "listen.address")
	c.places["listen"] = strictyaml.Mark{Place: place}
	if err := c.Listen[0].Address.UnmarshalText([]byte(text)); err != nil {
		c.problems = append(c.problems, strictyaml.Problem{Place: place, Reason: err.Error()})
	}
}

// readTLS resolves the paths of certificates and reads them, to check that they are usable.
func readTLS(c loader, src Source) {
	c.served = map[string][]tls.Certificate{}
	for _, l := range c.listeners() {
		if !l.files.On() || l.files.Cert == "" || l.files.Key == "" {
			continue // no TLS, or reported as missing
		}
		t := *l.files
		l.locate(c)
		c.served[l.tls+".cert"] = certificates(c, src).Pair(l.tls, t.Cert, t.Key)
		if t.ClientCA != "" {
			certificates(c, src).Authorities(l.tls+".client_ca", t.ClientCA)
		}
	}
}

// locate resolves the paths of the certificates.
func (l listening) locate(c loader) {
	for key, path := range map[string]*string{".cert": &l.files.Cert, ".key": &l.files.Key, ".client_ca": &l.files.ClientCA} {
		if *path != "" {
			*path = c.locate(l.tls+key, *path)
		}
	}
}

func (c checker) checkListeners() {
	all := c.listeners()
	for i, l := range all {
		if l.address == Off && strings.HasPrefix(l.key, "listen") {
			c.problem(l.key, "cannot be off; write host:port")
		}
		for j := range i {
			if l.address != Off && samePort(l.address, all[j].address) {
				c.taken(l.key, l.address, all[j].key, all[j].address)
			}
		}
	}
	if !c.Admin.Listen.Loopback() && c.Admin.Token == (Secret{}) && c.Admin.ReadToken == (Secret{}) && len(c.Admin.Tokens) == 0 {
		c.problem("admin.listen", "%s can be reached from other machines, so admin.token must be set", c.Admin.Listen)
	}
	c.checkAdminTokens()
	if read := c.Admin.ReadToken.Value.Reveal(); read != "" && read == c.Admin.Token.Value.Reveal() {
		c.problem("admin.read_token", "is the same as admin.token, so who has it could write")
	}
	for i, l := range c.Listen {
		at := strings.TrimSuffix(all[i].tls, ".tls")
		if key := at + ".proxy_protocol"; len(l.Proxies) > 0 && l.Address.Socket() != "" {
			c.problem(key, "goes by addresses, and %s has none", l.Address)
		}
		checkPortTenant(c, at+".tenant", l.Tenant)
	}
	checkPortTenant(c, "mcp.tenant", c.MCP.Tenant)
}

func checkPortTenant(c checker, key string, tenant Name) {
	if len(c.Tenants) == 0 && tenant != "" {
		c.problem(key, "%q needs tenants, and there are none", tenant)
	} else {
		known(c.Config, key, "tenant", tenant, c.Tenants)
	}
}

// ofPort reports whether the callers of some listener are the tenant.
func ofPort(c checker, tenant Name) bool {
	for _, l := range c.CallerPorts() {
		if l.Tenant == tenant {
			return true
		}
	}
	return false
}
