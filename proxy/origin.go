package proxy

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// keyless is where callers without a recognised key may come from. A web page could
// send their requests through the browser of whoever may reach Sidenote.
type keyless struct {
	origins []origin
	hosts   []string
}

func newKeyless(t Tenants) keyless {
	k := keyless{hosts: t.Hosts}
	for _, text := range t.Origins {
		o, _ := parseAllowed(text) // what is none matches nothing
		k.origins = append(k.origins, o)
	}
	return k
}

// check refuses pages of other sites and, on a loopback address, names that a page's
// own name can have been rebound to. The origin is never compared with the name: after
// DNS rebinding they are the same.
func (k *keyless) check(ctx *fasthttp.RequestCtx) error {
	h := &ctx.Request.Header
	for _, value := range h.PeekAll(fasthttp.HeaderOrigin) {
		if !k.allowsOrigin(string(value)) {
			return &Error{Reason: ReasonOrigin, Param: fasthttp.HeaderOrigin, Message: fmt.Sprintf("Pages of %q may not ask without a tenant's key; list their origin under identity.origins in the configuration.", value)}
		}
	}
	if local, ok := ctx.LocalAddr().(*net.TCPAddr); !ok || !local.IP.IsLoopback() {
		return nil
	}
	for _, host := range [...][]byte{h.Host(), authority(h.RequestURI())} {
		if !k.allowsHost(host) {
			return &Error{Reason: ReasonHost, Param: fasthttp.HeaderHost, Message: fmt.Sprintf("Sidenote is not known as %q on this machine; call it by address or as localhost, or list the name under identity.hosts in the configuration.", host)}
		}
	}
	return nil
}

func (k *keyless) allowsOrigin(text string) bool {
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

// allowsHost tells whether host, with or without a port, is a name that nobody else's
// page can have; "" is what only programs send.
func (k *keyless) allowsHost(host []byte) bool {
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

// authority returns the host and port of a target in absolute form, else nothing.
func authority(target []byte) []byte {
	if len(target) == 0 || target[0] == '/' {
		return nil
	}
	_, rest, _ := bytes.Cut(target, []byte("://"))
	if i := bytes.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

// cutPort splits the port off, if there is one. ok is false where it is no number.
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

// hostName returns the normal form of a name, "" of what is none: lower case, without
// the dot that may end it. An address, IPv6 in brackets, comes without them.
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

// matchesName tells whether name is the allowed one, or ends like *.example.com.
func matchesName(allowed, name string) bool {
	if end, wild := strings.CutPrefix(allowed, "*."); wild {
		rest, ok := strings.CutSuffix(name, end)
		return ok && len(rest) > 1 && rest[len(rest)-1] == '.'
	}
	return allowed == name
}

// ValidHost tells whether text may stand in Tenants.Hosts: a name in lower case
// without a port, or *.NAME for all below it.
func ValidHost(text string) bool {
	text = strings.TrimPrefix(text, "*.")
	name, address := hostName(text)
	return name != "" && !address && name == text
}

// An origin is what a browser says of the page that sends a request, or a set of
// those: with no host, all of a scheme; with a host like *.example.com, all below it.
type origin struct{ scheme, host, port string }

func (allowed origin) matches(o origin) bool {
	return allowed.scheme == o.scheme && (allowed.host == "" || allowed.port == o.port && matchesName(allowed.host, o.host))
}

// ValidOrigin tells whether text may stand in Tenants.Origins: an origin, one with *.
// before its host, or the scheme of an app with its colon.
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

// parseOrigin reads an origin as RFC 6454 writes it. What stands behind the scheme of
// an app is its own affair.
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
