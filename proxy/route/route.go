// Package route determines the kind of a request from its method and path, as the most lenient
// upstream would read them.
package route

import (
	"bytes"
	"encoding/hex"
	"strings"

	"sidenote/rewrite/chat"
)

// A Kind is the kind of a request, from a closed list. It is a metric label.
type Kind string

// The routes. Those that are not Rewritten are relayed unchanged.
const (
	Chat        Kind = "chat"
	Completions Kind = "completions"
	Responses   Kind = "responses"
	InputTokens Kind = "input_tokens" // counts the tokens of a request to Responses
	Compact     Kind = "compact"      // shortens a conversation of Responses
	Messages    Kind = "messages"     // Anthropic's
	CountTokens Kind = "count_tokens" // counts the tokens of a request to Messages
	Embeddings  Kind = "embeddings"
	Moderations Kind = "moderations"
	Models      Kind = "models"
	Stored      Kind = "stored_responses" // reads, deletes or cancels a response, or opens a WebSocket
	Assistants  Kind = "assistants"       // and their threads
	Realtime    Kind = "realtime"
	Other       Kind = "other"
)

// Generates reports whether a model writes an answer on this route without sources of Sidenote.
func (k Kind) Generates() bool {
	return k == Completions || k == Assistants || k == Realtime
}

// Rewritten reports whether sources are added to requests of this route.
func (k Kind) Rewritten() bool {
	return k.Answers() || k == InputTokens || k == Compact || k == CountTokens
}

// Answers reports whether requests of a rewritten route are answered with a model's text.
func (k Kind) Answers() bool { return k == Chat || k == Responses || k == Messages }

// API returns the API of a rewritten route; Completions for other routes.
func (k Kind) API() chat.API {
	switch k {
	case Responses, InputTokens, Compact:
		return chat.Responses
	case Messages, CountTokens:
		return chat.Messages
	}
	return chat.Completions
}

// A Target is the interpretation of a method and a request target.
type Target struct {
	Route Kind
	// Path is the normalised path: percent-decoded once, without empty and dot
	// segments, path parameters, query and trailing slash.
	Path string
	// Ambiguous means that the path as sent differs from the normalised one, so another server may
	// read it as another route.
	Ambiguous bool
}

// Defaults returns the routes allowed for a tenant that uses Sidenote's own upstream key and whose
// policy lists none.
func Defaults() []string {
	return []string{"/chat/completions", "/completions", "/embeddings", "/responses", "/responses/input_tokens", "/responses/compact", "/messages", "/messages/count_tokens", "/moderations", "/models"}
}

// Classify finds the route of a request line by its normalised path, as a lenient upstream would.
// The raw target is what is forwarded.
func Classify(method, target []byte) Target {
	if t, ok := fastPath(method, target); ok {
		return t
	}
	raw := rawPath(target)
	t := Target{Route: Other, Path: normalise(raw)}
	t.Ambiguous = t.Path != string(raw)
	switch {
	case bytes.EqualFold(method, []byte("POST")):
		suffix, route := postRoute(t.Path)
		t.Route = route
		t.Ambiguous = t.Ambiguous || string(method) != "POST" || !strings.HasSuffix(t.Path, suffix)
	case string(method) == "GET" || string(method) == "HEAD":
		if _, ok := models(t.Path); ok {
			t.Route = Models
		}
	}
	if t.Route == Other {
		t.Route = unread(t.Path)
	}
	return t
}

// unread returns the route of a path whose requests are not read.
func unread(path string) Kind {
	for _, r := range [...]struct {
		name  string
		route Kind
	}{{"/responses", Stored}, {"/assistants", Assistants}, {"/threads", Assistants}, {"/realtime", Realtime}} {
		if _, rest, found := strings.Cut(path, r.name); found && (rest == "" || rest[0] == '/') {
			return r.route
		}
	}
	return Other
}

// fastPath classifies the request lines of nearly all requests.
func fastPath(method, target []byte) (t Target, ok bool) {
	if string(method) != "POST" {
		return t, false
	}
	switch string(target) {
	case "/v1/chat/completions":
		return Target{Route: Chat, Path: "/v1/chat/completions"}, true
	case "/v1/completions":
		return Target{Route: Completions, Path: "/v1/completions"}, true
	case "/v1/responses":
		return Target{Route: Responses, Path: "/v1/responses"}, true
	case "/v1/messages":
		return Target{Route: Messages, Path: "/v1/messages"}, true
	case "/v1/embeddings":
		return Target{Route: Embeddings, Path: "/v1/embeddings"}, true
	}
	return t, false
}

// postRoute returns the route of POST to path, and the suffix that identified it. Letter case is
// ignored, as some servers do.
func postRoute(path string) (suffix string, route Kind) {
	for _, r := range [...]struct {
		suffix string
		route  Kind
	}{
		{"/chat/completions", Chat},
		{"/completions", Completions},
		{"/responses", Responses},
		{"/responses/input_tokens", InputTokens},
		{"/responses/compact", Compact},
		{"/messages", Messages},
		{"/messages/count_tokens", CountTokens},
		{"/embeddings", Embeddings},
		{"/moderations", Moderations},
	} {
		at := len(path) - len(r.suffix)
		if at < 0 || !strings.EqualFold(path[at:], r.suffix) {
			continue
		}
		if r.route == Messages && strings.Contains(path, "/threads/") {
			return "", Other // this stores a message in a thread; no model runs
		}
		return r.suffix, r.route
	}
	return cloud(path)
}

// cloud returns the route of POST to path at a cloud that serves the Messages API under paths of its
// own, with the same bodies, and the end of the path that identified it. The streams of Bedrock are
// not events and its route for them is none.
func cloud(path string) (suffix string, route Kind) {
	if _, model, found := strings.Cut(path, "/publishers/anthropic/models/"); found && !strings.Contains(model, "/") { // Vertex AI
		switch name, method, _ := strings.Cut(model, ":"); {
		case name == "count-tokens" && method == "rawPredict":
			return model, CountTokens
		case method == "rawPredict" || method == "streamRawPredict":
			return model, Messages
		}
	}
	if model, ok := bedrockModel(path); ok && strings.Contains(model, "anthropic.claude") {
		return "/invoke", Messages
	}
	return "", Other
}

// bedrockModel returns the model in a path of Bedrock's InvokeModel.
func bedrockModel(path string) (model string, ok bool) {
	before, ok := strings.CutSuffix(path, "/invoke")
	_, model, found := strings.Cut(before, "/model/")
	return model, ok && found
}

// models reports whether path is that of the list of models or of one of them, whose name may
// contain slashes, and returns what precedes "/models".
func models(path string) (prefix string, ok bool) {
	prefix, name, found := strings.Cut(path, "/models")
	return prefix, found && (name == "" || name[0] == '/')
}

// Allowed reports whether a tenant may use t with Sidenote's own upstream key. It is strict, since
// that key opens the files and stored answers of all tenants: the path must not be ambiguous, only
// a known prefix may precede the route, and a route allows only POST to exactly that path
// ("/models": GET of the list or of one model).
func (t Target) Allowed(method []byte, routes []string) bool {
	if t.Ambiguous {
		return false
	}
	if len(routes) == 0 {
		routes = Defaults()
	}
	for _, route := range routes {
		if strings.HasSuffix(route, "/models") {
			if prefix, ok := models(t.Path); ok && knownPrefix(prefix) && (string(method) == "GET" || string(method) == "HEAD") {
				return true
			}
		} else if prefix, ok := strings.CutSuffix(t.Path, route); ok && knownPrefix(prefix) && string(method) == "POST" {
			return true
		}
	}
	return false
}

// PathModels returns the models named in the path: the deployment in "/deployments/NAME/…", by
// which Azure chooses the model, that of "/models/NAME", and those of Vertex AI and Bedrock.
func (t Target) PathModels() (names []string) {
	prefix := t.Path
	if t.Route == Models {
		before, name, _ := strings.Cut(t.Path, "/models")
		if name != "" {
			names = append(names, name[1:])
		}
		prefix = before
	}
	if _, model, found := strings.Cut(prefix, "/publishers/anthropic/models/"); found && t.Route == Messages {
		name, _, _ := strings.Cut(model, ":")
		names = append(names, name)
	}
	if model, ok := bedrockModel(prefix); ok && t.Route == Messages {
		names = append(names, model)
	}
	if _, rest, found := strings.Cut(prefix, "/deployments/"); found {
		name, _, _ := strings.Cut(rest, "/")
		names = append(names, name)
	}
	return names
}

// knownPrefix reports whether prefix is a usual end of base URLs: "/v1", "/api/v1beta",
// "/openai/deployments/NAME".
func knownPrefix(prefix string) bool {
	rest, deployment, _ := strings.Cut(prefix, "/deployments/")
	if strings.Contains(deployment, "/") {
		return false
	}
	for seg := range strings.SplitSeq(rest, "/") {
		version := len(seg) > 1 && seg[0] == 'v' && seg[1] >= '0' && seg[1] <= '9'
		if !version && seg != "" && seg != "api" && seg != "openai" {
			return false
		}
	}
	return true
}

// rawPath returns the path of a request target. Scheme and host of an absolute form are skipped:
// they do not choose the upstream.
func rawPath(target []byte) []byte {
	if !bytes.HasPrefix(target, []byte("/")) {
		_, rest, found := bytes.Cut(target, []byte("://"))
		if !found {
			return target // "*", or the host and port of CONNECT
		}
		target = bytes.TrimLeftFunc(rest, func(c rune) bool { return c != '/' && c != '?' && c != '#' })
	}
	path, _, _ := bytes.Cut(target, []byte("?"))
	return path
}

// normalise interprets raw as the most lenient servers do. It percent-decodes once, treats '\' as
// '/', cuts ";…" off each segment and everything after NUL, '?' or '#', and resolves empty and dot
// segments. "*", the target of OPTIONS for the whole server, is not a path and stays.
func normalise(raw []byte) string {
	if string(raw) == "*" {
		return "*"
	}
	decoded := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c == '%' && i+2 < len(raw) {
			var escaped [1]byte
			if _, err := hex.Decode(escaped[:], raw[i+1:i+3]); err == nil {
				c = escaped[0]
				i += 2
			}
		}
		if c == 0 || c == '?' || c == '#' {
			break
		}
		if c == '\\' {
			c = '/'
		}
		decoded = append(decoded, c)
	}
	var kept []string
	for seg := range strings.SplitSeq(string(decoded), "/") {
		seg, _, _ = strings.Cut(seg, ";")
		switch seg = strings.TrimSpace(seg); seg {
		case "", ".":
		case "..":
			kept = kept[:max(len(kept)-1, 0)]
		default:
			kept = append(kept, seg)
		}
	}
	return "/" + strings.Join(kept, "/")
}
