package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/strictyaml"
)

// A listenerReport is an address that Sidenote would listen on.
type listenerReport struct {
	For     string `json:"for"`     // requests, admin, telemetry, mcp
	Address string `json:"address"` // host:port, or unix: and a path
	TLS     bool   `json:"tls,omitempty"`
	Tenant  string `json:"tenant,omitempty"` // of all requests on this port
}

// listeners lists the listeners that are not off.
func listeners(cfg *config.Config) []listenerReport {
	var all []listenerReport
	for _, l := range cfg.Listen {
		all = append(all, listenerReport{"requests", string(l.Address), l.TLS.On(), string(l.Tenant)})
	}
	all = append(all, listenerReport{"admin", string(cfg.Admin.Listen), cfg.Admin.TLS.On(), ""},
		listenerReport{"telemetry", string(cfg.Telemetry.Listen), cfg.Telemetry.TLS.On(), ""}, listenerReport{"mcp", string(cfg.MCP.Listen), cfg.MCP.TLS.On(), string(cfg.MCP.Tenant)})
	return slices.DeleteFunc(all, func(l listenerReport) bool { return l.Address == config.Off })
}

// A tokenReport is a token of admin.tokens.
type tokenReport struct {
	Name      string   `json:"name"`
	Scope     string   `json:"scope"`
	Knowledge []string `json:"knowledge,omitempty"` // absent: all bases
	Expires   string   `json:"expires,omitempty"`   // its last day
}

func tokenReports(cfg *config.Config) (all []tokenReport) {
	for _, t := range cfg.Admin.Tokens {
		last, _ := t.Expires.MarshalText()
		all = append(all, tokenReport{string(t.Name), t.Scope, config.Texts(t.Knowledge), string(last)})
	}
	return all
}

// String describes the token on one line.
func (t tokenReport) String() string {
	text := fmt.Sprintf("%s: %s", t.Name, t.Scope)
	if len(t.Knowledge) > 0 {
		text += " of " + strings.Join(t.Knowledge, " ")
	}
	if t.Expires == "" {
		return text + ", does not expire"
	}
	return text + ", until " + t.Expires
}

// An issuerReport is an issuer of tokens that name tenants.
type issuerReport struct {
	Name       string   `json:"name"`
	Issuer     string   `json:"issuer"`
	Audience   string   `json:"audience"`
	Algorithms []string `json:"algorithms"`
	Keys       string   `json:"keys"` // the URL or file of its keys; check fetches none
}

func issuers(cfg *config.Config) []issuerReport {
	all := []issuerReport{}
	for _, name := range slices.Sorted(maps.Keys(cfg.Identity.JWT)) {
		i := cfg.Identity.JWT[name]
		from := i.JWKSFile
		if from == "" {
			from = i.JWKSURL.String()
		}
		all = append(all, issuerReport{string(name), i.Issuer, i.Audience, i.Allowed(), from})
	}
	return all
}

// trusted lists the peers that may send Sidenote-Tenant.
func trusted(cfg *config.Config) []string {
	all := []string{}
	for _, n := range cfg.Identity.Header.Trusted {
		all = append(all, n.String())
	}
	for _, name := range cfg.Identity.Header.Certificates {
		all = append(all, "certificate "+name)
	}
	return all
}

// unusedClaims lists tenants whose filters need claims although no token names them: every chat
// of theirs would be refused.
func unusedClaims(cfg *config.Config) (list strictyaml.Problems) {
	for _, name := range cfg.TenantNames() {
		t := cfg.Tenants[name]
		claim := claimText(cfg, name)
		if claim == "" || len(t.JWT) > 0 {
			continue
		}
		key := "tenants." + string(name)
		list = append(list, strictyaml.Problem{Place: cfg.Place(key), Key: key, Reason: fmt.Sprintf(
			"its filters ask for the claim %q of callers' tokens, and no token names this tenant, so chats under them get a 403; give it jwt, or a policy without claims", claim)})
	}
	return list
}

// claimed returns the first claim that the filters of a tenant or its overrides need, or "".
func claimText(cfg *config.Config, tenant config.Name) string {
	p, _ := cfg.Tenant(tenant)
	for one := range p.All {
		for claim := range one.Rewrite.Filter.Claims {
			return string(claim)
		}
	}
	return ""
}

// someOf joins names; of a long list it takes the first and counts the rest.
func someOf(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
