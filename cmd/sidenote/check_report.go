package main

import (
	"encoding/json"
	"errors"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/strictyaml"
)

// A checkReport is what `sidenote check --json` prints, whether the configuration is valid or not.
type checkReport struct {
	Object   string          `json:"object"` // "check"
	OK       bool            `json:"ok"`
	Problems []problemReport `json:"problems"`
	Warnings []problemReport `json:"warnings"`
	Tenants  []tenantReport  `json:"tenants"` // these and the following are empty if there are problems

	Listeners []listenerReport `json:"listeners,omitempty"`
	Tokens    []tokenReport    `json:"admin_tokens,omitempty"`
	Issuers   []issuerReport   `json:"issuers,omitempty"`
	Trusted   []string         `json:"trusted,omitempty"` // peers that may send Sidenote-Tenant

	Changes *config.Changes  `json:"changes,omitempty"` // with --diff
	Policy  []config.Setting `json:"policy,omitempty"`  // with --tenant: what its requests get
}

// A problemReport is a mistake, or a possible one.
type problemReport struct {
	File    string `json:"file"` // or a flag such as --upstream; "" without a position
	Line    int    `json:"line"` // from 1; 0 for a flag or a whole file
	Column  int    `json:"column"`
	Key     string `json:"key"`
	Message string `json:"message"`
}

// A tenantReport summarizes what a tenant's requests get.
type tenantReport struct {
	Name          string          `json:"name"`
	Policy        string          `json:"policy"`
	Hash          string          `json:"hash"` // of the whole policy, as in the log
	Mode          string          `json:"mode"`
	Upstream      string          `json:"upstream"`
	Knowledge     []string        `json:"knowledge"`
	ContextTokens int             `json:"context_tokens"`
	Placement     string          `json:"placement"`
	PlacementAuto string          `json:"placement_auto"`   // what placement auto is, or would be
	Filter        json.RawMessage `json:"filter,omitempty"` // on documents; absent: it sees all
}

// NewReport returns the report of a configuration, or of the problems in err.
func newCheckReport(cfg *config.Config, err error, warnings strictyaml.Problems) checkReport {
	problems, _ := errors.AsType[strictyaml.Problems](err)
	r := checkReport{Object: "check", OK: err == nil, Problems: problemReports(problems), Warnings: problemReports(warnings), Tenants: []tenantReport{}}
	if err != nil {
		return r
	}
	r.Listeners, r.Tokens, r.Issuers, r.Trusted = listeners(cfg), tokenReports(cfg), issuers(cfg), trusted(cfg)
	for _, name := range cfg.TenantNames() {
		p, _ := cfg.Tenant(name)
		t := tenantReport{
			Name: string(name), Policy: p.Name, Hash: p.Hash, Mode: p.Rewrite.Mode.String(), Upstream: p.Upstream,
			Knowledge: p.Rewrite.Knowledge, ContextTokens: p.Rewrite.ContextTokens,
			Placement: string(p.Rewrite.Placement), PlacementAuto: automaticPlacement(cfg, &p),
		}
		if f := p.Rewrite.Filter; f != nil {
			t.Filter = json.RawMessage(f.String())
		}
		r.Tenants = append(r.Tenants, t)
	}
	return r
}

func problemReports(problems strictyaml.Problems) []problemReport {
	list := make([]problemReport, 0, len(problems))
	for _, p := range problems {
		list = append(list, problemReport{p.Place.File, p.Place.Line, p.Place.Column, p.Key, p.Reason})
	}
	return list
}
