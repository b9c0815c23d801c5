package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/rewrite/staged"
)

// Stages configure how chats are answered in stages. In a file a list, or the name of a preset, is
// Chain.
type Stages struct {
	Chain        Chain         `yaml:"chain,omitempty"`
	StageTimeout time.Duration `yaml:"stage_timeout" min:"1ms" max:"1h"` // of one stage
	Timeout      time.Duration `yaml:"timeout" min:"1ms" max:"1h"`       // of all stages of a request
	Cache        time.Duration `yaml:"cache" min:"0s" max:"24h"`         // how long outputs before the last stage are cached; 0: not at all
	Usage        string        `yaml:"usage" of:"sum|last"`              // the usage that the answer reports
	Heartbeat    string        `yaml:"heartbeat" of:"on|off"`            // comments in a stream before the last stage
	Unfit        string        `yaml:"unfit" of:"inject|refuse"`         // requests that a chain cannot handle
}

// A Chain is a list of stages. In a file it may be the name of a preset.
type Chain []stage

// A stage is one call of a model.
type stage struct {
	Name         Name        `yaml:"name" need:"true"`
	SystemPrompt string      `yaml:"system_prompt,omitempty"`
	UserPrompt   string      `yaml:"user_prompt_template" need:"true"`
	Temperature  temperature `yaml:"temperature,omitempty"`                  // absent: that of the request
	MaxTokens    Count       `yaml:"max_tokens,omitempty" min:"1" max:"10M"` // of its output; absent: the request's limit
	Model        model       `yaml:"model,omitempty"`                        // absent: that of the request
	Upstream     Name        `yaml:"upstream,omitempty"`                     // of the model; absent: that of the policy
	When         whenStage   `yaml:"when,omitempty"`                         // the chain ends after it
	Draft        bool        `yaml:"draft,omitempty"`                        // its output can be the answer; absent: if the next stage has a stop_if
	Budget       Count       `yaml:"budget,omitempty" min:"16" max:"1M"`     // tokens of its output that later stages get
}

// whenStage gives first lines of a stage's output that end the chain.
type whenStage struct {
	StopIf  string `yaml:"stop_if,omitempty"`  // the output of the previous stage is the answer
	EmptyIf string `yaml:"empty_if,omitempty"` // nothing was found to answer from
}

// defaultStages returns the defaults of stages.
func defaultStages() Stages {
	return Stages{StageTimeout: time.Minute, Timeout: 3 * time.Minute, Usage: "sum", Heartbeat: "on", Unfit: "inject"}
}

// DecodeYAML reads a map, or a chain alone.
func (s *Stages) DecodeYAML(d *strictyaml.Decoder, key string, n ast.Node) {
	if strictyaml.Shape(n) == "map" && !strictyaml.IsVariable(n) {
		d.Structure(key, n, reflect.ValueOf(s).Elem())
		return
	}
	at := strictyaml.Join(key, "chain")
	d.Note(at, n, n)
	d.Value(at, n, reflect.ValueOf(&s.Chain).Elem(), "")
}

// DecodeYAML reads a list of stages, or the name of a preset.
func (c *Chain) DecodeYAML(d *strictyaml.Decoder, key string, n ast.Node) {
	if strictyaml.Shape(n) == "list" {
		d.List(key, n, reflect.ValueOf((*[]stage)(c)).Elem(), "")
		return
	}
	name := ""
	d.Scalar(key, n, reflect.ValueOf(&name).Elem(), "")
	if name == "" {
		return // was reported
	}
	chain, ok := Preset(name)
	if !ok {
		d.Problem(n, key, "no preset is named %q; there are %s%s", name, strings.Join(staged.Presets(), ", "), strictyaml.DidYouMean(name, staged.Presets()))
		return
	}
	*c = chain
}

// Preset returns the stages of a preset. Its file is a configuration with a policy of that name.
func Preset(name string) (chain Chain, ok bool) {
	text, ok := staged.Preset(name)
	if !ok {
		return nil, false
	}
	var file struct {
		Policies map[Name]struct {
			Mode   string `yaml:"mode"`
			Stages Stages `yaml:"stages"`
		} `yaml:"policies"`
	}
	var problems strictyaml.Problems
	d := strictyaml.Decoder{File: name, Marks: strictyaml.Marks{}, Problems: &problems, Fields: strictyaml.Cache{}}
	for part, err := range strictyaml.Parts(text) {
		if err != nil {
			panic("BUG: preset " + name + ": " + err.Error())
		}
		d.Part(part, reflect.ValueOf(&file).Elem())
	}
	chain = file.Policies[Name(name)].Stages.Chain
	if len(problems) > 0 || len(chain) == 0 {
		panic(fmt.Sprintf("BUG: preset %s: %v", name, problems))
	}
	return chain, true
}

// A temperature is from 0 to 2, or not given.
type temperature struct {
	Value float64
	Given bool
}

// UnmarshalText reads a number from 0 to 2.
func (t *temperature) UnmarshalText(text []byte) error {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(f >= 0 && f <= 2) {
		return fmt.Errorf("%s is not a temperature; use 0 to 2", text)
	}
	*t = temperature{f, true}
	return nil
}

// MarshalText is the inverse of UnmarshalText; a temperature not given is "".
func (t temperature) MarshalText() ([]byte, error) {
	if !t.Given {
		return nil, nil
	}
	return strconv.AppendFloat(nil, t.Value, 'g', -1, 64), nil
}

// stages converts the chain for package staged.
func (s *Stages) stages() []staged.Stage {
	list := make([]staged.Stage, len(s.Chain))
	for i, from := range s.Chain {
		list[i] = staged.Stage{
			Name: string(from.Name), SystemPrompt: from.SystemPrompt, UserPrompt: from.UserPrompt, MaxTokens: int(from.MaxTokens),
			Model: string(from.Model), Upstream: string(from.Upstream), StopIf: from.When.StopIf, EmptyIf: from.When.EmptyIf, Draft: from.Draft, Budget: int(from.Budget),
		}
		if from.Temperature.Given {
			list[i].Temperature = &from.Temperature.Value
		}
	}
	return list
}

// Compile checks the chain; protected are additional tags that texts in prompts must not imitate.
// The error is a *staged.Error.
func (s *Stages) Compile(protected []string) (*staged.Chain, error) {
	return staged.Compile(s.stages(), protected...)
}

// Wrong returns what is wrong with the chain, and the key; "" if nothing is.
func (s *Stages) Wrong(protected []string) (key, why string) {
	_, err := s.Compile(protected)
	wrong, ok := errors.AsType[*staged.Error](err)
	if !ok {
		return "", ""
	}
	if key = "chain"; wrong.Stage >= 0 {
		key += "[" + strconv.Itoa(wrong.Stage) + "]"
	}
	if wrong.Field != "" {
		key = strictyaml.Join(key, wrong.Field)
	}
	return key, wrong.Reason
}

// Policy converts a checked chain for package staged.
func (s *Stages) Policy(protected []string) staged.Policy {
	chain, err := s.Compile(protected)
	if err != nil {
		panic("BUG: stages were not checked: " + err.Error())
	}
	return staged.Policy{
		Stages: chain.Stages, Chain: chain, StageTimeout: s.StageTimeout, Timeout: s.Timeout, Cache: s.Cache,
		LastUsage: s.Usage == "last", NoHeartbeat: s.Heartbeat == "off", RefuseUnfit: s.Unfit == "refuse",
	}
}
