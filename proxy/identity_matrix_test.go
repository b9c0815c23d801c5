package proxy_test

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
	"sidenote/proxy/tenant/tenanttest"
	"sidenote/rewrite"
)

// A sentAs is a credential and the tenant that it identifies.
type sentAs struct {
	lines  []string
	tenant string // "" if it identifies no tenant, denied if the caller is refused
	by     string
}

const denied = "denied"

// credentials returns all kinds of credentials. Those in trusted count only from a trusted peer.
func credentials(t *testing.T, s *tenanttest.Signer) (anybody, trusted map[string]sentAs) {
	now := time.Now()
	claims := func(change map[string]any) map[string]any { return tenanttest.Claims(now, change) }
	token := func(change map[string]any) string { return s.Token(claims(change)) }
	der, err := x509.MarshalPKIXPublicKey(s.RSA.Public())
	if err != nil {
		t.Fatal(err)
	}
	good := token(map[string]any{"groups": "jwt"})
	_, rest, _ := strings.Cut(good, ".")
	body, _, _ := strings.Cut(rest, ".")
	anybody = map[string]sentAs{
		"nothing":          {nil, "", ""},
		"a key":            {[]string{"Authorization: Bearer k-key"}, "key", "key"},
		"a key as Azure":   {[]string{"api-key: k-key"}, "key", "key"},
		"a key three ways": {[]string{"authorization: bearer k-key", "API-Key: k-key", "x-api-key: k-key"}, "key", "key"},
		"an unknown key":   {[]string{"Authorization: Bearer k-nobody"}, "", ""},
		"an expired key":   {[]string{"Authorization: Bearer k-old"}, denied, ""},
		"an early key":     {[]string{"x-api-key: k-early"}, denied, ""},
		"a token":          {[]string{"Authorization: Bearer " + good}, "jwt", "jwt"},
		"a token as Azure": {[]string{"api-key: " + good}, "jwt", "jwt"},
		"of two groups":    {[]string{"x-api-key: " + token(map[string]any{"groups": []string{"jwt", "jwt2"}})}, denied, ""},
	}
	for name, bad := range map[string]string{
		"wrong audience": token(map[string]any{"groups": "jwt", "aud": "other"}), "expired": token(map[string]any{"groups": "jwt", "exp": now.Unix() - 62}),
		"not yet valid": token(map[string]any{"groups": "jwt", "nbf": now.Unix() + 3600}), "no exp": token(map[string]any{"groups": "jwt", "exp": nil}),
		"no tenant": token(nil), "huge": token(map[string]any{"groups": "jwt", "x": strings.Repeat("x", 13<<10)}),
		"missing kid": s.Sign(jose.RS256, s.RSA, "", claims(nil)), "wrong kid": s.Sign(jose.RS256, s.RSA, "rsa-9", claims(nil)),
		"key of the wrong type": s.Sign(jose.ES256, s.EC, tenanttest.RSA, claims(nil)), "key confusion": s.Sign(jose.HS256, der, tenanttest.RSA, claims(nil)),
		"alg none": base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + body + ".", "cut": good[:len(good)-10], "ES384": strings.Replace(good, ".", "x.", 1),
	} {
		anybody["a token: "+name] = sentAs{[]string{"Authorization: Bearer " + bad}, denied, ""}
	}
	anybody["a token of another issuer"] = sentAs{[]string{"Authorization: Bearer " + token(map[string]any{"iss": "https://elsewhere"})}, "", ""}
	trusted = map[string]sentAs{
		"a header":               {[]string{"Sidenote-Tenant: header"}, "header", "header"},
		"in other letters":       {[]string{"sidenote-TENANT:  header "}, "header", "header"},
		"of a tenant with a key": {[]string{"Sidenote-Tenant: key"}, "key", "header"},
		"and another's upstream": {[]string{"Sidenote-Tenant: header", "Authorization: Bearer k-nobody"}, "header", "header"},
		"and the tenant's key":   {[]string{"Authorization: Bearer k-key", "Sidenote-Tenant: key"}, "key", "key"},
		"and the tenant's token": {[]string{"Authorization: Bearer " + good, "Sidenote-Tenant: jwt"}, "jwt", "jwt"},
		"and another's key":      {[]string{"Authorization: Bearer k-key", "Sidenote-Tenant: header"}, denied, ""},
		"and another's token":    {[]string{"Authorization: Bearer " + good, "Sidenote-Tenant: header"}, denied, ""},
		"and an expired key":     {[]string{"Authorization: Bearer k-old", "Sidenote-Tenant: header"}, denied, ""},
		"and a bad token":        {[]string{"Authorization: Bearer " + good[:len(good)-10], "Sidenote-Tenant: jwt"}, denied, ""},
		"twice":                  {[]string{"Sidenote-Tenant: header", "Sidenote-Tenant: header"}, denied, ""},
		"with _":                 {[]string{"Sidenote_Tenant: header"}, denied, ""},
		"with _ and -":           {[]string{"Sidenote-Tenant: header", "SIDENOTE_TENANT: key"}, denied, ""},
		"empty":                  {[]string{"Sidenote-Tenant:"}, denied, ""},
		"of nobody":              {[]string{"Sidenote-Tenant: nobody"}, denied, ""},
		"a list":                 {[]string{"Sidenote-Tenant: header, key"}, denied, ""},
		"in capitals":            {[]string{"Sidenote-Tenant: HEADER"}, denied, ""},
	}
	return anybody, trusted
}

// P14, T09, T12: a caller's identity does not depend on route or policy. Each policy gets the
// routes that it allows, and no response says why a credential is invalid.
func TestIdentityMatrix(t *testing.T) {
	s, u := tenanttest.NewSigner(t), newUpstream(t, answerJSON("{}"))
	routes, policies := matrix()
	old, early := keyOf("k-old", nil), keyOf("k-early", nil)
	old.Expires, early.NotBefore = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	anybody, ofTrusted := credentials(t, s)
	refusals := map[string]bool{} // bodies of 401
	for policy, change := range policies {
		named := map[string]*tenant.Policy{}
		for _, name := range []string{"key", "jwt", "jwt2", "header", "web"} {
			named[name] = policyOf(name, change)
		}
		old.Policy, early.Policy = named["key"], named["key"]
		tenants := tenant.Tenants{
			Keys:    []tenant.Key{keyOf("k-key", named["key"]), old, early},
			Issuers: []tenant.Issuer{s.Trusted()}, Named: slices.Collect(maps.Values(named)),
			Rules: []tenant.ClaimRule{
				{Tenant: "jwt", Issuer: tenanttest.Name, Claims: map[string][]string{"groups": {"jwt"}}},
				{Tenant: "jwt2", Issuer: tenanttest.Name, Claims: map[string][]string{"groups": {"jwt2"}}},
			},
		}
		for _, trusted := range []bool{false, true} {
			for _, unknown := range []string{"", "web"} {
				tenants.Trusted, tenants.Unknown = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, named[unknown]
				if trusted {
					tenants.Trusted = append(tenants.Trusted, netip.MustParsePrefix("127.0.0.0/8"))
				}
				g := start(t, proxy.Config{Tenants: tenants, Upstreams: map[string]proxy.Upstream{
					"stub": {BaseURL: u.url}, "ours": {BaseURL: u.url, APIKey: proxy.NewSecret("sk-ours")},
				}}, nil)
				check := func(cell string, c sentAs, route string) {
					t.Helper()
					if c.tenant == "" {
						c.tenant, c.by = unknown, "unknown"
					}
					status := 200
					switch {
					case c.tenant == denied, c.tenant == "":
						status, c.tenant, c.by = 401, "", ""
					case policy == "ours" && route == "spelt":
						status = 400
					case policy == "ours" && route != "chat":
						status = 403
					}
					checkCell(t, g, u, g.raw, fmt.Sprintf("%s, policy %s, trusted %v, unknown %q, %s", cell, policy, trusted, unknown, route), routes[route], c, status, relayed(c, policy), refusals)
				}
				for route := range routes {
					for name, c := range anybody {
						check(name, c, route)
					}
					for name, c := range ofTrusted {
						if !trusted {
							c.tenant = denied
						}
						check("header "+name, c, route)
					}
				}
			}
		}
	}
	if len(refusals) != 2 { // one with a credential, one without
		t.Errorf("refusals differ: %v", slices.Collect(maps.Keys(refusals)))
	}
}

// matrix returns the routes, as request lines, and the policies of the identity tests.
func matrix() (routes map[string]string, policies map[string]func(*tenant.Policy)) {
	own := func(p *tenant.Policy) { p.Upstream, p.Routes = "ours", []string{"/chat/completions"} }
	routes = map[string]string{"chat": "POST /v1/chat/completions", "models": "GET /v1/models", "files": "DELETE /v1/files/x", "spelt": "POST /v1//chat/completions"}
	return routes, map[string]func(*tenant.Policy){"relayed": nil, "ours": own, "off": func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Off }}
}

// relayed returns the credential that the upstream gets under a policy.
func relayed(c sentAs, policy string) (want string) {
	for _, l := range c.lines { // without Sidenote's own key the client's is relayed, unless it is a token for Sidenote
		if value, ok := strings.CutPrefix(l, "Authorization: "); ok && c.by != "jwt" {
			want = value
		}
		if strings.HasPrefix(l, "authorization") {
			want = "bearer k-key"
		}
	}
	if policy == "ours" {
		want = "Bearer sk-ours"
	}
	return want
}

// checkCell sends a request and checks its answer, its report and what the upstream got. want is
// the credential that is forwarded.
func checkCell(t *testing.T, g *rig, u *stubUpstream, send func(*testing.T, string) *http.Response, cell, line string, c sentAs, status int, want string, refusals map[string]bool) {
	t.Helper()
	body := ""
	if strings.HasPrefix(line, "POST") {
		body = chatBody
	}
	resp := send(t, fmt.Sprintf("%s HTTP/1.1\r\nHost: localhost\r\nCookie: session=canary\r\n%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", line, strings.Join(append(c.lines, "X-A: b"), "\r\n"), len(body), body))
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	r := <-g.reports
	if resp.StatusCode != status || r.Tenant != c.tenant || string(r.By) != c.by || (status == 401) != (r.Denied != "") {
		t.Errorf("%s: %d, tenant %q by %q, denied %q; want %d, %q by %q", cell, resp.StatusCode, r.Tenant, r.By, r.Denied, status, c.tenant, c.by)
	}
	if status == 401 {
		refusals[string(text)] = true
	}
	if status >= 400 {
		if len(u.seen) > 0 {
			t.Errorf("%s: what was refused reached the upstream: %v", cell, <-u.seen)
		}
		return
	}
	seen := u.next(t)
	head := strings.ToLower(strings.Join(seen.head, "\n"))
	ours := want == "Bearer sk-ours"
	if strings.Contains(head, "sidenote") || strings.Contains(head, "session=canary") == ours || seen.header("Authorization") != want ||
		(ours || c.by == "jwt" || c.by == "listener") && strings.Contains(head, "api-key") {
		t.Errorf("%s: the upstream got %q, want the credential %q", cell, head, want)
	}
}

// P14: a trusted address proves nothing about a web page in a browser there: Sidenote-Tenant counts
// only from pages of allowed origins, and a preflight does not change that.
func TestTrustedPeersPages(t *testing.T) {
	u := newUpstream(t, func(_ seen, w io.Writer) {
		_, _ = io.WriteString(w, "HTTP/1.1 204 No Content\r\nAccess-Control-Allow-Headers: *\r\n\r\n")
	})
	tenants := tenant.Tenants{
		Keys: []tenant.Key{keyOf("k-key", policyOf("acme", nil))}, Named: []*tenant.Policy{policyOf("beta", nil)},
		Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Origins: []string{"https://app.example"},
	}
	g := start(t, proxy.Config{Tenants: tenants, Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}}}, nil)
	const preflight = "OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nAccess-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: sidenote-tenant\r\nOrigin: "
	const named = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nSidenote-Tenant: beta\r\nOrigin: "
	for _, c := range []struct {
		request string
		status  int
	}{
		{named + "https://evil.example", 403}, {named + "https://app.example", 204}, {named + "http://localhost:3000", 204},
		{preflight + "https://evil.example", 403}, {preflight + "https://app.example", 204},
		{strings.Replace(named, "localhost", "evil.example", 1) + "https://app.example", 421},
		{named + "https://evil.example\r\nAuthorization: Bearer k-key", 401}, // of another tenant
		{strings.Replace(named, "beta", "acme", 1) + "https://evil.example\r\nAuthorization: Bearer k-key", 204},
	} {
		if resp := g.raw(t, c.request+"\r\n\r\n"); resp.StatusCode != c.status {
			t.Errorf("%q: %d, want %d", c.request, resp.StatusCode, c.status)
		}
		if c.status == 204 {
			u.next(t)
		} else if len(u.seen) > 0 {
			t.Errorf("%q reached the upstream: %v", c.request, <-u.seen)
		}
	}
}
