package services

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// maxText is the number of bytes of an error's text that are searched.
const maxText = 4 << 10

// maxDepth is the maximum nesting that is read. Real errors have at most four levels.
const maxDepth = 6

// A Refusal is a parameter that a model refuses.
type Refusal struct {
	Param   string
	Instead string // the parameter that the error recommends; "" for none
}

// An Error is the content of an error answer of any shape.
type Error struct {
	Params []string // named in a field of their own
	Text   string   // messages, one per line
}

// Parse decodes the body of an error answer. body must not be compressed.
func Parse(body []byte) Error {
	e := parse(body)
	return Error{e.params, e.text}
}

func parse(body []byte) (e apiError) {
	if json.Valid(body) {
		e.read(body, 0)
	} else {
		e.say(string(body))
	}
	return e
}

// MayRefuseParam reports whether an answer of that status can refuse a parameter.
func MayRefuseParam(status int) bool { return status == 400 || status == 422 }

// RefusedParam returns the parameter, one of names, that an error answer refuses. ok is false if
// the status is neither 400 nor 422, or the error names none of them. body must not be compressed.
func RefusedParam(status int, body []byte, names ...string) (r Refusal, ok bool) {
	if !MayRefuseParam(status) {
		return r, false
	}
	e := parse(body)
	if r.Param = e.named(names); r.Param == "" {
		return r, false
	}
	if m := instead.FindStringSubmatch(e.text); m != nil && m[1] != r.Param {
		r.Instead = m[1]
	}
	return r, true
}

var instead = regexp.MustCompile("(?i)\\buse\\W{0,3}([a-z][a-z0-9_]*)\\W{0,3} instead")

// spellings are further names by which errors refuse a parameter: those that gateways translate it
// to.
var spellings = map[string][]string{
	"reasoning_effort":      {"reasoning.effort", "does not support thinking", "thinking_config", "thinking_level", "thinking_budget", "thinking level", "thinking budget"},
	"max_tokens":            {"max_new_tokens", "max_output_tokens"},
	"max_completion_tokens": {"max_new_tokens", "max_output_tokens"},
}

// words are parameters whose names are also common words in errors. They count only in quotes or
// after a word such as "parameter".
var words = map[string]bool{"user": true, "store": true, "metadata": true, "seed": true, "stop": true, "n": true, "reasoning": true}

// An apiError is the content of an error answer of any shape.
type apiError struct {
	params []string // named in a field of their own
	text   string
}

// read collects the texts of OpenAI's and FastAPI's error shapes, and of those that gateways make.
func (e *apiError) read(value json.RawMessage, depth int) {
	value = bytes.TrimSpace(value)
	if len(value) == 0 || depth > maxDepth {
		return
	}
	switch value[0] {
	case '"':
		var text string
		if json.Unmarshal(value, &text) == nil {
			e.say(text)
		}
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(value, &list) == nil {
			for _, element := range list {
				e.read(element, depth+1)
			}
		}
	case '{':
		var f struct {
			Param   any             `json:"param"`
			Loc     []any           `json:"loc"`
			Message json.RawMessage `json:"message"`
			Msg     json.RawMessage `json:"msg"`
			Detail  json.RawMessage `json:"detail"`
			Error   json.RawMessage `json:"error"`
			Errors  json.RawMessage `json:"errors"`
		}
		if json.Unmarshal(value, &f) != nil {
			return
		}
		if param, ok := f.Param.(string); ok {
			e.name(param)
		}
		if len(f.Loc) > 0 {
			if param, ok := f.Loc[len(f.Loc)-1].(string); ok {
				e.name(param)
			}
		}
		for _, field := range []json.RawMessage{f.Message, f.Msg, f.Detail, f.Error, f.Errors} {
			e.read(field, depth+1)
		}
	}
}

func (e *apiError) name(param string) {
	switch param = strings.TrimPrefix(param, "body."); param {
	case "", "None", "null":
	default:
		e.params = append(e.params, param)
	}
}

func (e *apiError) say(text string) {
	e.text += text + "\n"
	e.text = e.text[:min(len(e.text), maxText)]
}

// named returns the one of names that the error refuses; "" if none. Parameters named in a field
// of their own decide, else the first name in the text.
func (e *apiError) named(names []string) (found string) {
	for _, param := range e.params {
		for _, name := range names {
			if matches(name, param) {
				return name
			}
		}
	}
	if len(e.params) > 0 {
		return ""
	}
	at := len(e.text)
	for _, name := range names {
		if loc := pattern(name).FindStringIndex(e.text); loc != nil && loc[0] < at {
			at, found = loc[0], name
		}
	}
	return found
}

// matches reports whether param, the value of a field, means the parameter name.
func matches(name, param string) bool {
	if strings.EqualFold(param, name) || strings.EqualFold(param, camel(name)) {
		return true
	}
	for _, s := range spellings[name] {
		if strings.EqualFold(param, s) || strings.EqualFold(param, camel(s)) {
			return true
		}
	}
	return false
}

// pattern matches a parameter name in a text.
func pattern(name string) *regexp.Regexp {
	if words[name] {
		quoted := regexp.QuoteMeta(name)
		return regexp.MustCompile("(?i)['\"`]" + quoted + "['\"`]|\\b(?:parameter|argument|property|field|supplied)s?:? " + quoted + "\\b")
	}
	forms := []string{name, camel(name)}
	for _, s := range spellings[name] {
		forms = append(forms, s, camel(s))
	}
	for i := range forms {
		forms[i] = regexp.QuoteMeta(forms[i])
	}
	return regexp.MustCompile(`(?i)(?:^|[^a-z0-9_])(?:` + strings.Join(forms, "|") + `)(?:[^a-z0-9_]|$)`)
}

// camel returns a name as Google and xAI spell it: reasoningEffort.
func camel(name string) string {
	parts := strings.Split(name, "_")
	for i := 1; i < len(parts); i++ {
		if parts[i] != "" {
			parts[i] = strings.ToUpper(parts[i][:1]) + parts[i][1:]
		}
	}
	return strings.Join(parts, "")
}
