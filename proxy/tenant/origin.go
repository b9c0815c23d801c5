package tenant

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
)

// OriginRules say which web pages and host names may be used for requests without a key or token.
// Without them any web page could send such requests through the browser of a user who can reach
// Sidenote.
type OriginRules struct {
	origins []origin
	hosts   []string
}

// NewOriginRules returns rules that allow pages of this machine and of origins. On this machine
// Sidenote may be called by its own names and by hosts.
func NewOriginRules(origins, hosts []string) OriginRules {
	k := OriginRules{hosts: hosts}
	for _, text := range origins {
		o, _ := parseAllowed(text) // an invalid one matches nothing
		k.origins = append(k.origins, o)
	}
	return k
}

// AllowsOrigin reports whether pages of an origin, as in the header Origin, may send requests.
func (k *OriginRules) AllowsOrigin(text string) bool {
	o, ok := parseOrigin(text)
	if !ok {
		return false
	}
	switch o.scheme {
	case "http", "https":
		if loopbackName(o.host) {
			return true
		}
	case "app", "tauri", "vscode-webview":
		return true
	}
	return slices.ContainsFunc(k.origins, func(allowed origin) bool { return allowed.matches(o) })
}

func loopbackName(name string) bool {
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback() || name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// AllowsHost reports whether host, with or without a port, is a name that no page of the public
// web can have. "" is allowed: only programs send it, never browsers.
func (k *OriginRules) AllowsHost(host []byte) bool {
	if len(host) == 0 {
		return true
	}
	bare, _, ok := cutPort(host)
	switch {
	case !ok:
		return false
	case string(bare) == "127.0.0.1", string(bare) == "localhost":
		return true
	}
	name, address := hostName(string(bare))
	return address || name != "" && (!strings.Contains(name, ".") || loopbackName(name) ||
		strings.HasSuffix(name, ".local") || strings.HasSuffix(name, ".internal") ||
		slices.ContainsFunc(k.hosts, func(allowed string) bool { return matchesName(allowed, name) }))
}

// Authority returns the host and port of a request target in absolute form; nil for other targets.
func Authority(target []byte) []byte {
	if len(target) == 0 || target[0] == '/' {
		return nil
	}
	_, rest, _ := bytes.Cut(target, []byte("://"))
	if i := bytes.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

// cutPort splits a port off, if there is one. ok is false if the port is not a number.
func cutPort(hostport []byte) (host, port []byte, ok bool) {
	i := bytes.LastIndexByte(hostport, ':')
	if i < 0 || hostport[len(hostport)-1] == ']' {
		return hostport, nil, true
	}
	host, port = hostport[:i], hostport[i+1:]
	for _, c := range port {
		if c < '0' || c > '9' {
			return nil, nil, false
		}
	}
	return host, port, true
}

// hostName normalizes a host name: lower case, without a final dot; "" if it is invalid. For an IP
// address it returns the address, IPv6 without brackets, and true.
func hostName(bare string) (name string, address bool) {
	name = strings.TrimSuffix(strings.ToLower(bare), ".")
	inside, opened := strings.CutPrefix(name, "[")
	inside, closed := strings.CutSuffix(inside, "]")
	if addr, err := netip.ParseAddr(inside); err == nil && opened == closed && addr.Is6() == opened {
		return inside, true
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return "", false
		}
	}
	return name, false
}

// matchesName reports whether name equals allowed or, if allowed begins with "*.", is below it.
func matchesName(allowed, name string) bool {
	if end, wild := strings.CutPrefix(allowed, "*."); wild {
		rest, ok := strings.CutSuffix(name, end)
		return ok && len(rest) > 1 && rest[len(rest)-1] == '.'
	}
	return allowed == name
}

// ValidHost reports whether text is valid as a host for NewOriginRules: a name in lower case
// without a port, or *.NAME for all names below it.
func ValidHost(text string) bool {
	text = strings.TrimPrefix(text, "*.")
	name, address := hostName(text)
	return name != "" && !address && name == text
}

// An origin is a value of the header Origin, which identifies the page that sent a request. An
// allowed origin may be a set: all origins of a scheme if the host is "", or all hosts below a
// host like *.example.com.
type origin struct{ scheme, host, port string }

func (allowed origin) matches(o origin) bool {
	return allowed.scheme == o.scheme && (allowed.host == "" || allowed.port == o.port && matchesName(allowed.host, o.host))
}

// ValidOrigin reports whether text is valid as an origin for NewOriginRules: an origin, possibly
// with *. before its host, or the scheme of an app followed by a colon.
func ValidOrigin(text string) bool {
	_, ok := parseAllowed(text)
	return ok
}

func parseAllowed(text string) (o origin, ok bool) {
	if scheme, app := strings.CutSuffix(text, ":"); app {
		o, ok = parseOrigin(scheme + "://")
		return o, ok && o.host == ""
	}
	bare := strings.Replace(strings.TrimSuffix(text, "/"), "://*.", "://", 1)
	o, ok = parseOrigin(bare)
	if strings.Contains(text, "://*.") {
		o.host = "*." + o.host
	}
	return o, ok && o.host != ""
}

// parseOrigin parses an origin as in RFC 6454. The host is checked only for http and https, since
// the schemes of apps have rules of their own.
func parseOrigin(text string) (o origin, ok bool) {
	scheme, rest, ok := strings.Cut(text, "://")
	o.scheme = strings.ToLower(scheme)
	if !ok || !validScheme(o.scheme) {
		return origin{}, false
	}
	standard, web := map[string]string{"http": "80", "https": "443"}[o.scheme]
	if !web {
		o.host = strings.ToLower(rest)
		return o, !strings.ContainsAny(rest, "*, ")
	}
	bare, port, ok := cutPort([]byte(rest))
	if o.port = string(port); o.port == standard {
		o.port = ""
	}
	o.host, _ = hostName(string(bare))
	return o, ok && o.host != ""
}

func validScheme(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return s != ""
}
