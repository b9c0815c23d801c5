// Package route finds out what a request asks for by its method and path, as the most
// lenient upstream would read them.
package route

import (
	"bytes"
	"encoding/hex"
	"strings"
)

// A Kind is the kind of a request, from a closed list. It is a metric label.
type Kind string

// The routes that Sidenote tells apart. All but Chat pass unchanged.
const (
	Chat        Kind = "chat"
	Completions Kind = "completions"
	Responses   Kind = "responses"
	Messages    Kind = "messages" // Anthropic's
	Embeddings  Kind = "embeddings"
	Moderations Kind = "moderations"
	Models      Kind = "models"
	Other       Kind = "other"
)

// Generates tells whether a model writes an answer on this route, to which Sidenote
// does not add sources.
func (k Kind) Generates() bool {
	return k == Completions || k == Responses || k == Messages
}

// A Target is how Sidenote reads a method and a request target.
type Target struct {
	Route Kind
	// Path is the normalised path: percent-decoded once, without empty and dot
	// segments, path parameters, query and trailing slash.
	Path string
	// Ambiguous: the path as sent and as normalised differ, so another server may
	// read it as another route.
	Ambiguous bool
}

// Defaults are the routes open to a tenant that uses Sidenote's own
// upstream key and whose policy lists none.
func Defaults() []string {
	return []string{"/chat/completions", "/completions", "/embeddings", "/responses", "/moderations", "/models"}
}

// Classify finds the route of a request line by its normalised path, as a lenient
// upstream would. The raw target is what is forwarded.
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
	return t
}

// fastPath classifies the request lines that nearly all requests have.
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
	case "/v1/embeddings":
		return Target{Route: Embeddings, Path: "/v1/embeddings"}, true
	}
	return t, false
}

// postRoute returns the route of POST to path, and the suffix it was found by. The
// path may be in another letter case, which some servers ignore.
func postRoute(path string) (suffix string, route Kind) {
	for _, r := range [...]struct {
		suffix string
		route  Kind
	}{
		{"/chat/completions", Chat},
		{"/completions", Completions},
		{"/responses", Responses},
		{"/messages", Messages},
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
	return "", Other
}

// models tells whether path is that of the list of models or of one of them, whose name
// may hold slashes, and returns what stands before "/models".
func models(path string) (prefix string, ok bool) {
	prefix, name, found := strings.Cut(path, "/models")
	return prefix, found && (name == "" || name[0] == '/')
}

// Allowed tells whether a tenant may reach t with Sidenote's own upstream key. It is
// strict, as that key opens the files and stored answers of all tenants: the path must
// not be ambiguous, only a known prefix may stand before the route, and a route allows
// POST to exactly that path ("/models": GET of the list or of one model).
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

// PathModels returns the models that the path names: the one of "/deployments/NAME/…", by
// which Azure chooses the model, and that of "/models/NAME".
func (t Target) PathModels() (names []string) {
	prefix := t.Path
	if t.Route == Models {
		before, name, _ := strings.Cut(t.Path, "/models")
		if name != "" {
			names = append(names, name[1:])
		}
		prefix = before
	}
	if _, rest, found := strings.Cut(prefix, "/deployments/"); found {
		name, _, _ := strings.Cut(rest, "/")
		names = append(names, name)
	}
	return names
}

// knownPrefix tells whether prefix is one that base URLs end in: "/v1",
// "/api/v1beta", "/openai/deployments/NAME".
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

// rawPath returns the path of a request target. The scheme and host of an absolute
// form are skipped: they do not choose the upstream.
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

// normalise reads raw as the most lenient servers do. It percent-decodes once, takes
// '\' for '/', cuts ";…" off each segment and everything from NUL, '?' or '#' on, and
// resolves empty and dot segments. "*", the target of OPTIONS for the whole server, is
// not a path and stays.
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
