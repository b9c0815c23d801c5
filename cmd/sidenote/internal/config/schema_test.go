package config_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/transport/transporttest"
)

const examplePath = "../../../../deploy/sidenote.example.yaml"

// exampleSource returns a source of the example in which all secrets can be read.
func exampleSource(text string) config.Source {
	pair := testPair()
	src := disk{
		"/etc/sidenote/tls.pem": string(pair.Cert), "/etc/sidenote/tls-key.pem": string(pair.Key), "/etc/sidenote/clients-ca.pem": authority,
		"/etc/sidenote/gateway-ca.pem": authority, "/etc/sidenote/gateway.pem": string(pair.Cert), "/etc/sidenote/gateway-key.pem": string(pair.Key),
		"e.yaml": text, "models.yaml": "date: 2026-11-28\nmodels: [{match: house, window: 1k}]", "/run/secrets/sidenote-admin": "secret\n", "/run/secrets/sidenote-viewer": "viewer\n", "/run/secrets/sidenote-search": "other-other-other\n", "/run/secrets/gateway": "secret\n",
		"/etc/sidenote/redis-ca.pem": authority, "/etc/sidenote/ci-keys.json": publicKeys, "/etc/sidenote/engines-ca.pem": authority, "/etc/sidenote/engines.pem": string(pair.Cert), "/etc/sidenote/engines-key.pem": string(pair.Key), "/run/secrets/postgres": "secret\n",
		"/run/secrets/deploy-key": "key\nof lines\n", "/etc/sidenote/known_hosts": "git.example.com ssh-ed25519 AAAA\n", "/run/secrets/s3-token": "token\n",
		"/run/secrets/sidenote-redis": "one " + strings.Repeat("A", 43) + "=\n", "/run/secrets/sidenote-records": recordKey,
	}.source("e.yaml")
	src.Env = env(map[string]string{"OPENAI_API_KEY": "sk-x", "REDIS_URL": "rediss://:pw@redis.test", "SEARCH_API_KEY": "secret", "GIT_TOKEN": "secret", "GIT_WEBHOOK_SECRET": "secret", "S3_ACCESS_KEY": "key", "S3_SECRET_KEY": "secret"})
	return src
}

// testPair returns a certificate with its key.
var testPair = sync.OnceValue(func() transporttest.Pair {
	return transporttest.NewAuthority().Issue(time.Now().Add(24 * time.Hour))
})

// authority is a certificate that nobody trusts.
const authority = `-----BEGIN CERTIFICATE-----
MIIBeTCCAR+gAwIBAgIUTylgrJXhnfBVxY/pbmIwt7hKE+AwCgYIKoZIzj0EAwIw
ETEPMA0GA1UEAwwGbm9ib2R5MCAXDTI2MTEyMTA4MTYxN1oYDzIxMjYxMDI4MDgx
NjE3WjARMQ8wDQYDVQQDDAZub2JvZHkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AARaKjVaQFwJKgyyVFiQr64R/kfvE0CCUankNzqDYnKszIXVRn0NN3xguzGa/VMP
bDjWgD4N8znYTee1Kxh05gJWo1MwUTAdBgNVHQ4EFgQUia7Bq1tnrpTmyhT1PXCC
FgX/kwQwHwYDVR0jBBgwFoAUia7Bq1tnrpTmyhT1PXCCFgX/kwQwDwYDVR0TAQH/
BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiADmWn5pZo8B69WDjWrOHwn6lajMOao
xFv9A7X1om3kQwIhAKqryJ9glBIFV9Es834c3pE8h9MYhk0IssVgxZ378QaZ
-----END CERTIFICATE-----
`

// publicKeys are the keys of a token issuer whose private key was discarded.
const publicKeys = `{"keys": [{"kty": "EC", "crv": "P-256", "kid": "ci-1", "x": "CK3v1_ZEHQX19zEfVNGsM2vg8blRItRmEyA90dbV4_4", "y": "diKQon9oS3YyufMPi5nXLv3QINESlyltVK6upaKWCHA"}]}`

func example(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestExampleLoads(t *testing.T) {
	c, err := config.Load(exampleSource(example(t)))
	if err != nil {
		t.Fatal(err)
	}
	if p, _ := c.Tenant("support"); !p.Rewrite.RefuseOnFailure || p.Rewrite.ContextTokens != 2000 {
		t.Errorf("tenant support gets %+v", p)
	}
}

// The example contains each key of the schema, so that no new key is undocumented.
func TestExampleHasEveryKey(t *testing.T) {
	written := map[string]bool{}
	for _, p := range paths(t, example(t)) {
		written[p.schema] = true
	}
	for _, key := range []string{"upstream.api_key.env", "upstreams.*.api_key.file"} {
		if !written[key] {
			t.Errorf("%s does not show this way to give a secret: %s", examplePath, key)
		}
	}
	for _, key := range schema(reflect.TypeFor[config.Config](), "") {
		if !written[key] && !written[strings.Replace(key, "upstream.", "upstreams.*.", 1)] { // upstream and upstreams.* have the same keys
			t.Errorf("%s is not in %s", key, examplePath)
		}
	}
}

// schema lists every key; the names in a map are "*".
func schema(t reflect.Type, prefix string) []string {
	if t == reflect.TypeFor[config.Secret]() || t == reflect.TypeFor[config.RedisURL]() || t == reflect.TypeFor[config.ProxyURL]() || t == reflect.TypeFor[config.Login]() {
		return nil // only one of its keys at a time
	}
	switch t.Kind() {
	case reflect.Slice:
		return schema(t.Elem(), prefix)
	case reflect.Map:
		return schema(t.Elem(), prefix+"*.")
	case reflect.Struct:
	default:
		return nil
	}
	var keys []string
	for _, f := range reflect.VisibleFields(t) {
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if t == reflect.TypeFor[config.Override]() && len(f.Index) > 1 {
			continue // a key of the policy itself
		}
		if key != "" && key != "-" {
			keys = append(keys, prefix+key)
			keys = append(keys, schema(f.Type, prefix+key+".")...)
		}
	}
	return keys
}

// A spot is a value in a file.
type spot struct {
	schema string // "policies.*.retrieval.top_k"
	path   *yaml.Path
	text   string // "$.policies.base.retrieval.top_k"
	scalar bool
}

func paths(t *testing.T, text string) []spot {
	t.Helper()
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		t.Fatal(err)
	}
	var spots []spot
	var walk func(n ast.Node, schema, path string)
	walk = func(n ast.Node, schema, path string) {
		switch n := n.(type) {
		case ast.MapNode:
			for it := n.MapRange(); it.Next(); {
				name := it.Key().String()
				key := name
				if slices.Contains([]string{"upstreams", "knowledge", "policies", "tenants", "identity.jwt", "tenants.*.jwt", "tenants.*.jwt.*", "prices.tiers", "knowledge.*.columns.attribute_columns"}, schema) {
					key = "*"
				}
				at, sub := strings.TrimPrefix(schema+"."+key, "."), path+"."+name
				p, err := yaml.PathString(sub)
				if err != nil {
					t.Fatal(err)
				}
				_, isScalar := it.Value().(ast.ScalarNode)
				spots = append(spots, spot{at, p, sub, isScalar})
				walk(it.Value(), at, sub)
			}
		case *ast.SequenceNode:
			for i, item := range n.Values {
				walk(item, schema, fmt.Sprintf("%s[%d]", path, i))
			}
		}
	}
	walk(file.Docs[0].Body, "", "$")
	return spots
}

// replaced returns the example with another value at one spot.
func replaced(t *testing.T, s spot, value string) string {
	t.Helper()
	file, err := parser.ParseBytes([]byte(example(t)), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.path.ReplaceWithReader(file, strings.NewReader(value)); err != nil {
		t.Fatalf("%s: %v", s.text, err)
	}
	return file.String()
}

// P2: a value that is blank, empty, zero, negative or not a number is refused at its own key,
// wherever it is.
func TestEveryValueIsChecked(t *testing.T) {
	text := []string{"empty_answer", "system_prompt", "stop_if", "empty_if", "text", "issuer", "audience", "model", "query_prefix", "passage_prefix", "subtype", "action", "tool", "system_matches", "user_matches", "header", "*"} // keys with free text
	files := []string{"env", "file", "path"}
	for i, s := range paths(t, example(t)) {
		for j, bad := range []string{"null", "''", "{}", "[]", "0", "-1", ".nan", ".inf", "1e400"} {
			if testing.Short() && (i+j)%48 > 0 {
				continue
			}
			last := s.schema[strings.LastIndex(s.schema, ".")+1:]
			number := strings.ContainsAny(bad, "01nN") && bad != "null"
			switch {
			case number && (slices.Contains(text, last) || slices.Contains(files, last)):
				continue
			case number && (last == "match" || last == "name" || last == "model" || last == "prefix" || (last == "priority" || last == "shutdown_delay" || last == "keep" || last == "turns" || last == "input" || last == "cached_input" || last == "cache_write" || last == "cache_write_1h" || last == "output" || last == "temperature" || last == "cache_diagnostics" || strings.HasSuffix(s.schema, ".stages.cache")) && bad == "0" || last == "value" && (bad == "0" || bad == "-1") || strings.HasPrefix(s.schema, "knowledge.*")):
				continue // a valid name, or in range
			case number && strings.Contains(s.schema, ".when.metadata."):
				continue // any value may be compared
			case number && !s.scalar:
				continue // a string instead of a map
			case bad == "{}" && s.schema == "policies.*":
				continue // a policy of defaults
			}
			_, err := config.Load(exampleSource(replaced(t, s, bad)))
			if key := strings.TrimPrefix(s.text, "$."); err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("%s: %s gives %v", s.text, bad, err)
			}
		}
	}
}

// Without any one of its lines a configuration loads or is refused; it is never loaded in part.
func TestEveryKeyMayBeAbsent(t *testing.T) {
	lines := strings.Split(example(t), "\n")
	for i := range lines {
		if testing.Short() && i%8 > 0 {
			continue
		}
		text := strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "\n")
		c, err := config.Load(exampleSource(text))
		if err != nil {
			continue
		}
		for _, name := range c.TenantNames() {
			p, ok := c.Tenant(name)
			s := p.Rewrite.Search
			if !ok || p.Upstream == "" || p.Hash == "" || p.MaxRewriteBytes <= 0 || p.Rewrite.ContextTokens <= 0 ||
				s.TopK <= 0 || s.NumCandidates <= 0 || s.MaxPerDocument <= 0 || s.Deadline <= 0 || s.ScoreThreshold == 0 {
				t.Errorf("without line %q tenant %s gets %+v", lines[i], name, p)
			}
		}
	}
}

func FuzzLoad(f *testing.F) {
	text, err := os.ReadFile(examplePath)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	for _, seed := range []string{
		"", "{", "[[[[[[[[", "a: &a [*a, *a]", "<<: {a: b}", "upstream: !!binary aGk=", "? [a]\n: b", "upstream: |\n  http://u\n",
		"upstream: http://u.test\ninclude: ['*', '[']", "policies: {a: {extends: a}}", "\x00", "\ufeffupstream: http://u.test", "upstream: \"\\ud800\"",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Load(exampleSource(text))
		if err == nil {
			for _, name := range c.TenantNames() {
				p, _ := c.Tenant(name)
				if c.Proxy().Upstreams[p.Upstream].BaseURL == nil {
					t.Errorf("tenant %s has no upstream", name)
				}
			}
			return
		}
		if strings.Contains(err.Error(), "secret\n") || err.Error() == "" {
			t.Errorf("error text: %q", err)
		}
	})
}
