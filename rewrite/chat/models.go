package chat

import (
	"slices"
	"strings"
)

// modelKeys are the members by which upstreams choose a model. OpenAI has model; gateways such as
// OpenRouter and LiteLLM also have lists of fallbacks.
var modelKeys = append([]string{"model"}, modelLists...)

var modelLists = []string{"models", "fallbacks"}

// Models returns the models named in a body of any route: a JSON object with the member model or,
// for gateways, the lists models and fallbacks. It returns none if all of them are missing or
// null. It returns an *Error, NotJSON or Ambiguous, if another server could read other names.
func Models(body []byte) (names []string, err error) {
	r := modelReader{Parser: Parser{scanner: scanner{b: body, loneSurrogate: -1}}}
	if k := r.kind(); k != KindObject {
		r.value()
		r.end()
		r.fail(NotJSON, "body is %s, not an object", k)
		return nil, r.err
	}
	r.object(func(key Span, escaped bool) {
		if name, _ := r.key(0, "", key, escaped, modelKeys); name != "" {
			r.member(name)
			return
		}
		r.value()
	})
	r.end()
	switch {
	case r.err != nil:
		return nil, r.err
	case r.keys.err != nil:
		return nil, r.keys.err
	}
	return r.names, nil
}

// Models is like the function Models for r.Body, which Parse has accepted. It reads the body
// again only if it may name more than one model.
func (r *Request) Models() ([]string, error) {
	if r.Model == "" || r.modelLists {
		return Models(r.Body)
	}
	return []string{r.Model}, nil
}

// namesModels reports whether a member with this name, which is not in topKeys, may be one of
// modelLists.
func namesModels(name []byte, escaped bool) bool {
	return escaped || slices.ContainsFunc(modelLists, func(list string) bool {
		return strings.EqualFold(string(name), list)
	})
}

// A modelReader collects the names in the members modelKeys.
type modelReader struct {
	Parser
	names []string
}

// member reads the value of one of modelKeys.
func (r *modelReader) member(key string) {
	switch k := r.kind(); {
	case k == KindNull:
		r.value()
	case k == KindArray && key != "model":
		r.array(func(int) { r.name(key) })
	case key == "model":
		r.name(key)
	default:
		r.wrongType(key, k)
	}
}

// name reads one model name.
func (r *modelReader) name(key string) {
	if k := r.kind(); k != KindString {
		r.wrongType(key, k)
		return
	}
	v, _ := r.str()
	if r.err != nil {
		return
	}
	name := Unquote(v.Of(r.b))
	if r.garbled(v) && r.keys.note() {
		r.keys.describe(key, nil, "model %q is not Unicode", name)
	}
	r.names = append(r.names, name)
}

// wrongType skips a value that cannot be a model name.
func (r *modelReader) wrongType(key string, k Kind) {
	if r.value(); r.keys.note() {
		r.keys.describe(key, nil, "%s has %s in place of a model's name", key, k)
	}
}
