package review

import (
	"encoding/json"
	"errors"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/strictyaml"
)

// A Report is what `sidenote check --json` prints, whether the configuration is
// right or not.
type Report struct {
	Object   string         `json:"object"` // "check"
	OK       bool           `json:"ok"`
	Problems []Problem      `json:"problems"`
	Warnings []Problem      `json:"warnings"`
	Tenants  []TenantReport `json:"tenants"` // of a configuration that is right, as all that follows

	Listeners []Listener `json:"listeners,omitempty"`
	Issuers   []Issuer   `json:"issuers,omitempty"`
	Trusted   []string   `json:"trusted,omitempty"` // networks whose header Sidenote-Tenant is believed

	Changes *config.Changes  `json:"changes,omitempty"` // with --diff
	Policy  []config.Setting `json:"policy,omitempty"`  // with --tenant: what its requests get
}

// A Problem is one thing that is wrong, or may be.
type Problem struct {
	File    string `json:"file"` // or a flag such as --upstream; "" where it has no place
	Line    int    `json:"line"` // from 1; 0 of a flag or of a whole file
	Column  int    `json:"column"`
	Key     string `json:"key"`
	Message string `json:"message"`
}

// A TenantReport is what a tenant's requests get, in short.
type TenantReport struct {
	Name          string          `json:"name"`
	Policy        string          `json:"policy"`
	Hash          string          `json:"hash"` // of the whole policy, as in the log
	Mode          string          `json:"mode"`
	Upstream      string          `json:"upstream"`
	Knowledge     []string        `json:"knowledge"`
	ContextTokens int             `json:"context_tokens"`
	Filter        json.RawMessage `json:"filter,omitempty"` // of its documents; none: it sees all
}

// NewReport returns the report of a configuration, or of the problems that it has instead.
func NewReport(cfg *config.Config, err error, warnings strictyaml.Problems) Report {
	problems, _ := errors.AsType[strictyaml.Problems](err)
	r := Report{Object: "check", OK: err == nil, Problems: reported(problems), Warnings: reported(warnings), Tenants: []TenantReport{}}
	if err != nil {
		return r
	}
	r.Listeners, r.Issuers, r.Trusted = listeners(cfg), issuers(cfg), trusted(cfg)
	for _, name := range cfg.TenantNames() {
		p, _ := cfg.Tenant(name)
		t := TenantReport{
			Name: string(name), Policy: p.Name, Hash: p.Hash, Mode: p.Rewrite.Mode.String(), Upstream: p.Upstream,
			Knowledge: p.Rewrite.Knowledge, ContextTokens: p.Rewrite.ContextTokens,
		}
		if f := p.Rewrite.Filter; f != nil {
			t.Filter = json.RawMessage(f.String())
		}
		r.Tenants = append(r.Tenants, t)
	}
	return r
}

func reported(problems strictyaml.Problems) []Problem {
	list := make([]Problem, 0, len(problems))
	for _, p := range problems {
		list = append(list, Problem{p.Place.File, p.Place.Line, p.Place.Column, p.Key, p.Reason})
	}
	return list
}
