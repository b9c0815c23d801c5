package config

import (
	"reflect"
	"time"

	"github.com/goccy/go-yaml/ast"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/retrieval/tools"
)

// Tools configure the tools of chats and limit their use. In a file a list alone is Offer.
type Tools struct {
	Offer       []tools.ToolName `yaml:"offer,flow" of:"search_knowledge|read_knowledge|search_files|recall"`
	Protocol    string           `yaml:"protocol" of:"functions|xml"`
	FirstSearch bool             `yaml:"first_search"`                   // sources are injected up front as well
	MaxRounds   Count            `yaml:"max_rounds" min:"1" max:"16"`    // per request
	MaxTokens   Count            `yaml:"max_tokens" min:"256" max:"10M"` // of all results of a request
	Timeout     time.Duration    `yaml:"timeout" min:"1ms" max:"1h"`     // of all rounds of a request
	Preamble    string           `yaml:"preamble" of:"show|hide"`        // text that a model writes before a call
	Trace       string           `yaml:"trace" of:"off|on"`              // calls and results in the answer
	Heartbeat   string           `yaml:"heartbeat" of:"on|off"`          // comments in a stream between rounds
}

// defaultTools returns the defaults of tools.
func defaultTools() Tools {
	return Tools{
		Offer: []tools.ToolName{tools.SearchKnowledge, tools.ReadKnowledge}, Protocol: "functions", FirstSearch: true,
		MaxRounds: 4, MaxTokens: 8000, Timeout: time.Minute, Preamble: "show", Trace: "off", Heartbeat: "on",
	}
}

// DecodeYAML reads a map, or a list of the tools to offer.
func (t *Tools) DecodeYAML(d *strictyaml.Decoder, key string, n ast.Node) {
	switch strictyaml.Shape(n) {
	case "list":
		offer := strictyaml.Fields(reflect.TypeFor[Tools]())[0]
		d.Note(strictyaml.Join(key, offer.Key), n, n)
		d.Value(strictyaml.Join(key, offer.Key), n, reflect.ValueOf(t).Elem().FieldByIndex(offer.Index), offer.Tag)
	case "map":
		d.Structure(key, n, reflect.ValueOf(t).Elem())
	default:
		d.Problem(n, key, "expected a list of tools, as in [search_knowledge, read_knowledge], or a map, got a %s", strictyaml.Shape(n))
	}
}

// Policy converts the settings for package tools, for tools over the given bases.
func (t *Tools) Policy(bases []tools.Base) tools.Policy {
	return tools.Policy{
		Offer: t.Offer, Bases: bases, XML: t.Protocol == "xml", FirstSearch: t.FirstSearch, MaxRounds: int(t.MaxRounds), MaxTokens: int(t.MaxTokens),
		Timeout: t.Timeout, HidePreamble: t.Preamble == "hide", Trace: t.Trace == "on", NoHeartbeat: t.Heartbeat == "off",
	}
}
