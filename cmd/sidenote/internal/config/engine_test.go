package config_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/filter"
)

const (
	onPostgres   = "upstream: https://u.test\nknowledge: {a: {engine: postgres, user: u, url: 'postgres://db.test/docs'"
	onOpenSearch = "upstream: https://u.test\nknowledge: {a: {engine: opensearch, url: 'https://s.test:9200'"
	ofTable      = onPostgres + ", table: t, columns: {id: i, text: t"
	ofIndex      = onOpenSearch + ", index: t, columns: {id: i, text: t"
	withModel    = "\nembeddings: {model: m, dimensions: 8}"
)

// loadEngine loads a configuration with the secret canary.
func loadEngine(text string) (*config.Config, error) {
	return config.Load(disk{"c.yaml": text, "pw": "canary\n", "two": "can\nary"}.source("c.yaml"))
}

// Every conflict of keys is refused at its key with what to write instead.
func TestEngineKeysThatConflict(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{onPostgres + ", api_key: {env: KEY}}}", "a.api_key: does not go with engine postgres; write user and password"},
		{onPostgres + ", index: t}}", "a.index: does not go with engine postgres; write table"},
		{onPostgres + ", upstream: default}}", "a.upstream: does not go with engine postgres; write engine: vector_store"},
		{onOpenSearch + ", table: t}}", "a.table: does not go with engine opensearch; write index"},
		{onOpenSearch + ", tenant_setting: app.tenant}}", "a.tenant_setting: does not go with engine opensearch; write a filter for each tenant, or a user for each base"},
		{"upstream: https://u.test\nknowledge: {a: {path: a, url: 'postgres://db.test/docs'}}", "a.url: is the address at which people read the documents of a base in this process; write it as in https://wiki/{path}, or engine: postgres or opensearch for the URL of an engine"},
		{"upstream: https://u.test\nknowledge: {a: {engine: postgres, user: u, path: a, url: 'https://wiki/{path}'}}", "a.url: is the URL of the engine; write page: for the address at which people read documents"},
		{"upstream: https://u.test\nknowledge: {a: {path: a, table: t}}", "a.table: does not go with engine embedded; write engine: postgres"},
		{"upstream: https://u.test\nknowledge: {a: {engine: vector_store, upstream: default, id: x, url: 'https://s.test'}}", "a.url: does not go with engine vector_store"},
		{"upstream: https://u.test\nknowledge: {a: {engine: postgres, user: u}}", "a.url: is missing; write url: postgres://HOST:5432/DATABASE"},
		{"upstream: https://u.test\nknowledge: {a: {engine: opensearch}}", "a.url: is missing; write url: https://HOST:9200"},
		{onPostgres + ", include: ['*.md']}}", "a.path: is missing"},
		{onOpenSearch + ", password: {file: pw}}}", "a.user: is missing; it is the user of password"},
		{"upstream: https://u.test\nknowledge: {a: {engine: postgres, url: 'postgres://db.test/docs'}}", "a.user: is missing; it is the role that connects"},
		{onOpenSearch + ", user: u}}", "a.password: is missing; it is the password of user"},
		{onOpenSearch + ", user: u, password: {file: pw}, api_key: {file: pw}}}", "a.api_key: takes the place of user and password; keep one"},
		{onPostgres + ", password: canary}}", "a.password: is a secret in plain text; write {env: NAME} or {file: PATH}"},
		{onPostgres + ", password: {file: two}}}", "a.password: holds a line break or other control character"},
		{onPostgres + ", password: {file: none}}}", `a.password.file: "none" cannot be read: file does not exist`},
		{onPostgres + ", namespace: pg_docs}}", `a.namespace: "pg_docs" begins with pg_, which Postgres keeps for itself`},
		{onPostgres + ", namespace: my-docs}}", `a.namespace: "my-docs" has a -, which schemas of Postgres may not have here; use _`},
		{onPostgres + ", namespace: 'a\"b'}}", `a.namespace: "a\"b" is not a namespace; use a-z, 0-9, _ and -, a letter first, at most 40`},
		{onPostgres + ", tenant_setting: role}}", `a.tenant_setting: "role" is not a setting of your own; write it as in app.tenant`},
		{onPostgres + ", connections: 1001}}", "a.connections: 1001 is out of range; use 1 to 1k"},
		{onPostgres + ", connections: 0}}", "a.connections: 0 is out of range; use 1 to 1k"},
		{onPostgres + ", timeout: 0s}}", "a.timeout: 0s is out of range; use 1ms to 10m"},
		{onPostgres + ", tls: {cert: pw}}}", `a.tls.key: is missing; it is the file of the key of cert, "pw"`},
		{onPostgres + ", tls: {ca: pw}}}", `a.tls.ca: "pw" contains no PEM certificate`},
		{onPostgres + ", embed: true}}", "a.embed: goes with embeddings, and there are none; write embeddings: {upstream: NAME, model: MODEL}"},
	} {
		checkRefusal(t, c.file, c.want)
	}
}

// checkRefusal checks that a file is refused with one problem of a base, at its position.
func checkRefusal(t *testing.T, file, want string) {
	t.Helper()
	_, err := loadEngine(file)
	got := fmt.Sprint(err)
	if !strings.HasPrefix(got, "c.yaml:2:") || !strings.Contains(got, ": knowledge."+want) || strings.Count(got, "\n") > 0 || strings.Contains(got, "canary") {
		t.Errorf("%s:\ngot  %s\nwant knowledge.%s", file, got, want)
	}
}

// A mapping is refused if it lacks a column, names one that is not used, or has vectors that
// questions cannot be compared with.
func TestMappingsThatConflict(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{onPostgres + ", table: t}}", "a.columns: is missing; write columns: {id: NAME, text: NAME}"},
		{onPostgres + ", columns: {id: i, text: t}}}", "a.table: is missing; it is what has the columns"},
		{onOpenSearch + ", columns: {id: i, text: t}}}", "a.index: is missing; it is what has the columns"},
		{onPostgres + ", table: t, columns: {id: i}}}", "a.columns.text: is missing"},
		{onPostgres + ", table: t, columns: {text: i}}}", "a.columns.id: is missing"},
		{ofTable + "}, path: a}}", "a.path: does not go with table, which is only read"},
		{ofTable + "}, attributes: {x: y}}}", "a.attributes: does not go with table, which is only read"},
		{ofIndex + "}, embed: true}}" + withModel, "a.embed: does not go with index, which is only read; name columns.vector and columns.model"},
		{ofTable + ", document: d}}}", "a.columns.ordinal: is missing; it goes with document, of tables with several rows for a document"},
		{ofTable + ", ordinal: o}}}", "a.columns.document: is missing; it goes with ordinal, of tables with several rows for a document"},
		{ofIndex + ", language: english}}}", "a.columns.language: does not go with engine opensearch, where the field has an analyzer"},
		{ofTable + ", generation: g, ttl: 1m}}}", `a.columns.ttl: is not used, as generation "g" tells of changes; keep one`},
		{ofTable + ", url: u, attribute_columns: {url: v}}}}", "a.columns.attribute_columns.url: is also columns.url; keep one"},
		{ofTable + ", model: m}}}" + withModel, "a.columns.model: goes with vector, the column of the vectors"},
		{ofTable + ", dimensions: 8}}}" + withModel, "a.columns.dimensions: goes with vector, the column of the vectors"},
		{ofTable + ", vector: v, model: m}}}", "a.columns.vector: goes with embeddings, which embed the questions, and there are none; write embeddings: {upstream: NAME, model: MODEL}"},
		{ofTable + ", vector: v}}}" + withModel, "a.columns.model: is missing; name the model of the vectors, as in embeddings.model"},
		{ofTable + ", vector: v, model: n}}}" + withModel, `a.columns.model: "n" is not embeddings.model, "m", which embeds the questions; vectors of two models cannot be compared`},
		{ofTable + ", vector: v, model: m, dimensions: 9}}}" + withModel, "a.columns.dimensions: 9 are not those of embeddings.dimensions, 8, which questions have"},
		{ofTable + ", title: 'a\"b'}}}", `a.columns.title: "a\"b" is not a name; it has at most 63 bytes, and no quotes or control characters`},
		{ofTable + ", title: \"a\\nb\"}}}", `a.columns.title: "a\nb" is not a name; it has at most 63 bytes, and no quotes or control characters`},
		{onPostgres + ", table: a.b.c, columns: {id: i, text: t}}}", `a.table: "a.b.c" has more than one dot; write NAME or SCHEMA.NAME`},
		{onPostgres + ", table: 'a.', columns: {id: i, text: t}}}", `a.table: "" is not a name; it has at most 63 bytes, and no quotes or control characters`},
		{onOpenSearch + ", index: 'docs-*', columns: {id: i, text: t}}}", `a.index: "docs-*" is not the name of an index or alias; it is in lower case, without patterns, and begins with a letter or digit`},
	} {
		checkRefusal(t, c.file, c.want)
	}
}

// URLs are refused if they hold credentials, which no error repeats, or are not of the engine.
func TestEngineURLsThatAreRefused(t *testing.T) {
	const login = "holds a user or password; write user, and password: {env: NAME} or {file: PATH}"
	for url, want := range map[string]string{
		"postgres://me:canary@db.test/docs":                  login,
		"postgres://canary@db.test/docs":                     login,
		"postgres://me:can%ary@db.test/docs":                 login,
		"postgres://db.test/docs?password=canary":            `"postgres://db.test/docs" has the parameter password; the only one is sslmode`,
		"postgres://db.test/docs?user=canary":                `"postgres://db.test/docs" has the parameter user; the only one is sslmode`,
		"postgres://db.test/docs?sslmode=require":            `"postgres://db.test/docs" has an unknown sslmode; use verify-full, with tls: {ca: FILE} for an authority of your own, or disable`,
		"postgres://db.test/docs?sslmode=disable&sslmode=":   `"postgres://db.test/docs" has the parameter sslmode twice`,
		"postgres://db.test/docs?target_session_attrs=any":   `"postgres://db.test/docs" has the parameter target_session_attrs; the only one is sslmode`,
		"postgres://db.test/docs?a=%zz":                      `"postgres://db.test/docs" has a query behind it that is none`,
		"postgres://db.test":                                 `"postgres://db.test" names no database; write it as in postgres://db.internal:5432/docs`,
		"postgres://db.test/a/b":                             `"postgres://db.test/a/b" names no database; write it as in postgres://db.internal:5432/docs`,
		"postgres://db.test:0/docs":                          `"postgres://db.test:0/docs" has no port between 1 and 65535`,
		"postgres://db.test/docs#x":                          `"postgres://db.test/docs" has a fragment behind it, which no engine gets`,
		"postgres:///docs?host=/run/postgresql":              `"postgres:///docs" is not a URL of one server; write it as in`,
		"postgres://a.test:1,b.test:2/docs?password=canary":  `"postgres://a.test:1,b.test:2/docs" is not a URL of one server; write it as in`,
		"mysql://db.test/docs":                               `"mysql://db.test/docs" has the scheme mysql; use postgres, or https or http`,
		"https://s.test:9200":                                "has the scheme https, and the engine is postgres; write url: postgres://HOST:5432/DATABASE",
		"https://s.test:9200?pretty":                         `"https://s.test:9200" has a query behind it; only scheme, host and path are used`,
		"postgres://a.test/docs', 'postgres://b.test/others": "differs from the first URL in more than host and port, and they are tried in turn for the same",
	} {
		_, err := loadEngine("upstream: https://u.test\nknowledge: {a: {engine: postgres, user: u, url: ['" + url + "']}}")
		if got := fmt.Sprint(err); !strings.HasPrefix(got, "c.yaml:2:50: knowledge.a.url[0]: "+want) && !strings.Contains(got, "knowledge.a.url[1]: "+want) || strings.Contains(got, "canary") {
			t.Errorf("%s:\ngot  %s\nwant %s", url, got, want)
		}
	}
	checkRefusal(t, strings.Replace(onOpenSearch, "https://s.test:9200", "postgres://db.test/docs", 1)+"}}", "a.url: has the scheme postgres, and the engine is opensearch; write url: https://HOST:9200")
	checkRefusal(t, strings.Replace(onOpenSearch, "https://s", "http://s", 1)+", tls: {server_name: x}}}", "a.tls: is not used: url s.test:9200 asks for no TLS; write https")
	checkRefusal(t, strings.Replace(onPostgres, "docs'", "docs?sslmode=disable'", 1)+", tls: {server_name: x}}}", "a.tls: is not used: url db.test/docs asks for no TLS; write sslmode=verify-full")
}

// A connection has the defaults and what is configured; its URLs hold only what the engine gets.
func TestEngineConnection(t *testing.T) {
	cfg, err := loadEngine(strings.Replace(onPostgres, "'postgres://db.test/docs'", "['postgresql://db1.test:5433/docs?sslmode=verify-full', 'postgres://db2.test/docs?sslmode=verify-full']", 1) +
		", password: {file: pw}, connections: 9, timeout: 3s, namespace: team, tenant_setting: app.tenant}, b: {engine: opensearch, url: 'http://localhost:9200', api_key: {env: KEY}}, c: {engine: embedded}}")
	if err != nil {
		t.Fatal(err)
	}
	a := cfg.EngineConnection("a")
	urls := fmt.Sprint(a.URL[0], " ", a.URL[1])
	if urls != "postgres://db1.test:5433/docs postgres://db2.test/docs" {
		t.Errorf("URLs %s", urls)
	}
	if a.User != "u" || a.Password() != "canary" || a.APIKey != nil || a.Most != 9 || a.Timeout != 3*time.Second || a.TenantAs != "app.tenant" || a.Namespace != "team" || a.Dial == nil {
		t.Errorf("connection %+v", a)
	}
	if a.TLS == nil || a.TLS.ServerName != "" || a.TLS.MinVersion < tls.VersionTLS12 || a.TLS.InsecureSkipVerify {
		t.Errorf("TLS %+v", a.TLS)
	}
	b := cfg.EngineConnection("b")
	if b.TLS != nil || b.User != "" || b.Password != nil || b.APIKey() != "sk-canary" || b.Most != 4 || b.Timeout != 10*time.Second || b.Namespace != "sidenote" {
		t.Errorf("connection %+v", b)
	}
	for name, text := range map[config.Name]string{"a": "postgres at db1.test:5433/docs, db2.test/docs, written by others", "b": "opensearch at localhost:9200, written by others"} {
		if got := cfg.EngineText(name); got != text {
			t.Errorf("%s: %s, want %s", name, got, text)
		}
	}
}

// Postgres is reached by TLS beyond this machine, unless the URL says otherwise.
func TestPostgresUsesTLSBeyondThisMachine(t *testing.T) {
	for rest, want := range map[string]bool{
		"postgres://db.test/d'": true, "postgres://db.test/d?sslmode=disable'": false, "postgres://db.test/d?sslmode=verify-full'": true,
		"postgres://127.0.0.1/d'": false, "postgres://[::1]/d'": false, "postgres://localhost/d?sslmode=verify-full'": true, "postgres://localhost/d', tls: {server_name: x.test}": true,
	} {
		cfg, err := loadEngine("upstream: https://u.test\nknowledge: {a: {engine: postgres, user: u, url: '" + rest + "}}")
		if err != nil {
			t.Fatalf("%s: %v", rest, err)
		}
		got := cfg.EngineConnection("a").TLS
		if (got != nil) != want {
			t.Errorf("%s: TLS %v, want %v", rest, got != nil, want)
		}
		if strings.Contains(rest, "server_name") && got.ServerName != "x.test" {
			t.Errorf("%s: server name %q", rest, got.ServerName)
		}
	}
}

// Bases share a server exactly if they are reached in the same way.
func TestBasesShareAnEngine(t *testing.T) {
	const same = "engine: postgres, url: 'postgres://db.test/docs', user: u, password: {file: pw}"
	for rest, shared := range map[string]bool{
		"": true, ", path: a": true, ", description: x": true, ", table: t, columns: {id: i, text: t}": true, ", connections: 4": true, ", namespace: sidenote": true, ", timeout: 10s": true,
		", connections: 5": false, ", namespace: other": false, ", timeout: 9s": false, ", tenant_setting: app.tenant": false, ", tls: {server_name: x}": false,
	} {
		cfg, err := loadEngine("upstream: https://u.test\nknowledge: {a: {" + same + "}, b: {" + same + rest + "}, c: {engine: embedded}}")
		if err != nil {
			t.Fatalf("%s: %v", rest, err)
		}
		a, b := cfg.EngineKey("a"), cfg.EngineKey("b")
		if a == "" || (a == b) != shared || strings.Contains(a, "canary") || cfg.EngineKey("c") != "" {
			t.Errorf("%s: keys %s and %s", rest, a, b)
		}
		if together := slices.Equal(cfg.Engines("a"), []config.Name{"a", "b"}); together != shared {
			t.Errorf("%s: %v share", rest, cfg.Engines("a"))
		}
	}
}

// A mapping has every column and the space of the embedding service.
func TestEngineMapping(t *testing.T) {
	cfg, err := loadEngine(onPostgres + ", table: app.docs, columns: {id: i, text: t, title: ti, section: s, document: d, ordinal: o, url: u, date: da, attributes: at, attribute_columns: {product: p}, " +
		"words: w, language: english, vector: v, model: m, generation: g}}, b: {engine: opensearch, url: 'https://s.test', index: docs, columns: {id: _id, text: body.en}}, c: {engine: embedded}}" + withModel)
	if err != nil {
		t.Fatal(err)
	}
	want := engine.Mapping{
		Table: "app.docs", ID: "i", Text: "t", Title: "ti", Section: "s", Document: "d", Ordinal: "o", URL: "u", Date: "da", Attributes: "at",
		AttributeColumns: map[string]string{"product": "p"}, Lexemes: "w", Language: "english", Vector: "v", Space: "m/8", Dimensions: 8, Generation: "g",
	}
	if got, ok := cfg.EngineMapping("a"); !ok || !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	want = engine.Mapping{Table: "docs", ID: "_id", Text: "body.en", TTL: time.Minute}
	if got, ok := cfg.EngineMapping("b"); !ok || !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	if _, ok := cfg.EngineMapping("c"); ok {
		t.Error("an embedded base has a mapping")
	}
	if got := config.QuestionsEmbedded(cfg); !slices.Equal(got, []config.Name{"a"}) {
		t.Errorf("questions to %v are embedded", got)
	}
}

// A password in a file is read for each connection. While the file is missing or empty, the last
// good one is used.
func TestEnginePasswordIsReadAgain(t *testing.T) {
	files := disk{"c.yaml": onPostgres + ", password: {file: pw}}}", "pw": "one\n"}
	cfg, err := config.Load(files.source("c.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	password := cfg.EngineConnection("a").Password
	for _, step := range []struct{ file, want string }{{"one\n", "one"}, {"two\n", "two"}, {"", "one"}, {"a\nb", "one"}, {"three", "three"}} {
		files["pw"] = step.file
		if got := password(); got != step.want {
			t.Errorf("the file holds %q, the password is %q, want %q", step.file, got, step.want)
		}
	}
	delete(files, "pw")
	if got := password(); got != "one" {
		t.Errorf("without the file the password is %q", got)
	}
}

// A new password in the same file needs no restart; another file, URL or base does.
func TestEngineChangesThatNeedARestart(t *testing.T) {
	const old = onPostgres + ", password: {file: pw}}}"
	load := func(text, password string) *config.Config {
		cfg, err := config.Load(disk{"c.yaml": text, "pw": password, "other": password}.source("c.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	before := load(old, "one")
	for _, c := range []struct {
		text, password, key string
		restart             bool
	}{
		{old, "two", "knowledge.a.password", false},
		{strings.Replace(old, "file: pw", "file: other", 1), "one", "knowledge.a.password", true},
		{strings.Replace(old, "db.test", "db2.test", 1), "one", "knowledge.a.url", true},
		{strings.Replace(old, "user: u", "user: v", 1), "one", "knowledge.a.user", true},
	} {
		next := load(c.text, c.password)
		changes := config.CompareConfigs(before, next)
		if len(changes.Keys) != 1 || changes.Keys[0].Key != c.key || changes.Keys[0].Restart != c.restart {
			t.Errorf("%s: changes %+v", c.key, changes.Keys)
		}
		again := config.CompareConfigs(config.Running(before, next), next)
		if (len(again.Keys) == 0) == c.restart {
			t.Errorf("%s: still to be applied %+v", c.key, again.Keys)
		}
	}
}

// An included file names engines only with permission.
func TestEnginesOfIncludedFiles(t *testing.T) {
	for may, want := range map[string]string{
		"":                "team.yaml:1:44: knowledge.a.url: is not for an included file to name; c.yaml:2:11 can allow it, as in {path: team.yaml, may: [stores]}",
		", may: [stores]": "<nil>",
	} {
		_, err := config.Load(disk{
			"c.yaml": "upstream: https://u.test\ninclude: [{path: team.yaml" + may + "}]", "team.yaml": "knowledge: {a: {engine: postgres, user: u, url: 'postgres://db.test/docs'}}",
		}.source("c.yaml"))
		if fmt.Sprint(err) != want {
			t.Errorf("%s:\ngot  %v\nwant %s", may, err, want)
		}
	}
}

// A password that crosses the network in plain text is warned of.
func TestPlainEngines(t *testing.T) {
	for url, want := range map[string]bool{
		"postgres://db.test/d?sslmode=disable": true, "postgres://db.test/d": false, "postgres://127.0.0.1/d": false,
	} {
		cfg, err := loadEngine("upstream: https://u.test\nknowledge: {a: {engine: postgres, user: u, password: {file: pw}, url: '" + url + "'}}")
		if err != nil {
			t.Fatal(err)
		}
		if list := cfg.PlainEngines(); (len(list) == 1) != want || want && (list[0].Key != "knowledge.a.url" || !strings.Contains(list[0].Reason, "use sslmode=verify-full")) {
			t.Errorf("%s: %v", url, list)
		}
	}
}

// A filter that an engine cannot evaluate for a base of a tenant is a problem at its position, once.
func TestFiltersThatAnEngineCannotEvaluate(t *testing.T) {
	cfg, err := loadEngine(onPostgres + "}, b: {engine: embedded}}\npolicies:\n  default: {knowledge: [a, b], filters: [{type: eq, key: x, value: y}]}\ntenants:\n  one: {keys: [" + digest + "], filters: [{type: eq, key: ok, value: y}, {type: in, key: x, value: '${claims.c}'}]}\n  two: {keys: [" + strings.Replace(digest, "5", "6", 1) + "]}")
	if err != nil {
		t.Fatal(err)
	}
	got := cfg.CheckFilters(func(base config.Name, f *filter.Filter) error {
		if base != "a" {
			t.Errorf("asked for base %s", base)
		}
		if f.Key == "x" {
			return errors.New("no column has attribute x")
		}
		return nil
	})
	want := `c.yaml:4:42: policies.default.filters[0]: cannot be evaluated for base "a": no column has attribute x` + "\n" +
		`c.yaml:6:` + "*" + `: tenants.one.filters[1]: cannot be evaluated for base "a": no column has attribute x`
	lines, wanted := strings.Split(fmt.Sprint(got), "\n"), strings.Split(want, "\n")
	for i, line := range wanted {
		start, end, _ := strings.Cut(line, "*")
		if len(lines) != len(wanted) || !strings.HasPrefix(lines[i], start) || !strings.HasSuffix(lines[i], end) {
			t.Fatalf("got %v\nwant %s", got, want)
		}
	}
	if err := cfg.CheckFilters(func(config.Name, *filter.Filter) error { return nil }); err != nil {
		t.Error(err)
	}
}
