package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"sidenote/cmd/sidenote/internal/strictyaml"
)

// A Setting is a key of a policy with its value.
type Setting struct {
	Key   string          `json:"key"`   // such as "retrieval.top_k"; a list is one setting
	Value json.RawMessage `json:"value"` // in JSON
	From  []SettingSource `json:"from"`  // empty: the value is a default

	value reflect.Value
}

// A SettingSource is a position at which a value, or a part of it, was written.
type SettingSource struct {
	File   string `json:"file"` // or a flag
	Line   int    `json:"line"` // from 1; 0 for a flag
	Column int    `json:"column"`
	Tenant Name   `json:"tenant,omitempty"` // the tenant that sets it, or
	Policy Name   `json:"policy,omitempty"` // the policy that sets it
	Env    string `json:"env,omitempty"`    // the variable that supplied it
}

// String formats the source for a comment: "sidenote.yaml:5:7 policy base".
func (s SettingSource) String() string {
	text := strictyaml.Place{File: s.File, Line: s.Line, Column: s.Column}.String()
	if s.Tenant != "" {
		text += " tenant " + string(s.Tenant)
	} else {
		text += " policy " + string(s.Policy)
	}
	if s.Env != "" {
		text += " env " + s.Env
	}
	return text
}

// PolicyOrigins lists the settings that apply to a tenant's requests, in the order of the schema.
// Unset keys without a default are left out.
func PolicyOrigins(c *Config, tenant Name) []Setting {
	w := walk{config: c, tenant: tenant}
	w.structure("", reflect.ValueOf(c.Policy(tenant)))
	return w.settings
}

type walk struct {
	config   *Config
	tenant   Name
	settings []Setting
}

func (w *walk) structure(key string, v reflect.Value) {
	for _, f := range strictyaml.Fields(v.Type()) {
		x, at := v.FieldByIndex(f.Index), strictyaml.Join(key, f.Key)
		_, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		empty := x.IsZero() || x.Kind() == reflect.Slice && x.Len() == 0
		switch {
		case empty && slices.Contains(strings.Split(options, ","), "omitempty"):
		case x.Kind() == reflect.Struct && len(strictyaml.Fields(x.Type())) > 0:
			w.structure(at, x)
		default:
			w.settings = append(w.settings, Setting{Key: at, Value: encoded(x), From: w.from(at), value: x})
		}
	}
}

// encoded returns a value in JSON.
func encoded(v reflect.Value) json.RawMessage {
	text, err := yaml.Marshal(v.Interface())
	var plain any
	if err == nil {
		err = yaml.Unmarshal(text, &plain)
	}
	out, encodeErr := json.Marshal(plain)
	if err != nil || encodeErr != nil {
		panic(fmt.Sprintf("BUG: a setting cannot be encoded: %v, %v", err, encodeErr))
	}
	return out
}

// from returns where the value of a key was written. A tenant's filters are added to those of its
// policy; its other lists replace them.
func (w *walk) from(key string) []SettingSource {
	list := []SettingSource{}
	at, env, written := Written(w.config, "tenants."+string(w.tenant)+"."+key)
	own := SettingSource{at.File, at.Line, at.Column, w.tenant, "", env}
	if written && key != "filters" {
		return append(list, own)
	}
	name := w.config.Tenants[w.tenant].Policy
	if name == "" {
		name = "default"
	}
	for ; name != ""; name = w.config.Policies[name].Extends {
		if at, env, ok := Written(w.config, "policies."+string(name)+"."+key); ok {
			list = append(list, SettingSource{at.File, at.Line, at.Column, "", name, env})
			break
		}
	}
	if written {
		list = append(list, own)
	}
	return list
}

// OriginYAML formats settings as a policy, each with a comment that names its source.
func OriginYAML(settings []Setting) string {
	var b strings.Builder
	var above []string
	for _, s := range settings {
		keys := strings.Split(s.Key, ".")
		depth := len(keys) - 1
		for i := range depth {
			if i >= len(above) || above[i] != keys[i] {
				fmt.Fprintf(&b, "%s%s:\n", strings.Repeat("  ", i), keys[i])
				above = append(above[:i:i], keys[i])
			}
		}
		above = above[:min(len(above), depth)]
		comment := "default"
		if len(s.From) > 0 {
			parts := make([]string, len(s.From))
			for i, from := range s.From {
				parts[i] = from.String()
			}
			comment = strings.Join(parts, ", ")
		}
		first, rest, more := strings.Cut(s.text(keys[depth]), "\n")
		indent := strings.Repeat("  ", depth)
		fmt.Fprintf(&b, "%s%s  # %s\n", indent, first, comment)
		if more {
			b.WriteString(indent + strings.ReplaceAll(rest, "\n", "\n"+indent) + "\n")
		}
	}
	return b.String()
}

// text formats a single setting in YAML; a list of scalars takes one line.
func (s Setting) text(name string) string {
	if s.value.Kind() == reflect.Slice && s.value.Type().Elem().Kind() != reflect.Struct {
		return name + ": " + strictyaml.TextSetting(s.value)
	}
	text, err := yaml.Marshal(yaml.MapSlice{{Key: name, Value: s.value.Interface()}})
	if err != nil {
		panic("BUG: a setting cannot be written: " + err.Error())
	}
	return strings.TrimSuffix(string(text), "\n")
}
