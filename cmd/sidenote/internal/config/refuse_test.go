package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/strictyaml"
)

// Each case is a file and every line of its error.
func TestRefused(t *testing.T) {
	const up = "upstream: https://u.test\n"
	for _, c := range []struct{ name, file, want string }{
		{"unknown key", up + "polices: {a: {mode: off}}", "c.yaml:2:1: polices: unknown key; did you mean policies?"},
		{"audit to nowhere", up + "audit: stdout", `c.yaml:2:8: audit: "stdout" is not stderr; write {file: PATH} for a file`},
		{"audit without a file", up + "audit: {path: a}", "c.yaml:2:9: audit.path: unknown key"},
		{"key of later", up + "rerank: x", "c.yaml:2:1: rerank: unknown key; it belongs in policies.NAME or policies.NAME.overrides"},
		{"embeddings as one word", up + "embeddings: x", "c.yaml:2:13: embeddings: expected a map, got a value"},
		{"embeddings without model", up + "embeddings: {upstream: default}", "c.yaml:2:13: embeddings.model: is missing"},
		{"embeddings of nobody", up + "embeddings: {upstream: defualt, model: m}", `c.yaml:2:14: embeddings.upstream: no upstream is named "defualt"; did you mean default?`},
		{"embeddings of no upstream", "upstreams: {a: http://a.test}\nembeddings: {model: m}\npolicies: {default: {upstream: a}}", "c.yaml:2:1: embeddings.upstream: is missing; name one of upstreams, or write the base URL of a service without a key"},
		{"embeddings at a URL with a key", up + "embeddings: {upstream: 'http://u:p@e.test', model: m}", "c.yaml:2:24: embeddings.upstream: holds credentials; use api_key"},
		{"embeddings at our address", up + "embeddings: {upstream: 'http://127.0.0.1:8080/v1', model: m}", "c.yaml:2:14: embeddings.upstream: http://127.0.0.1:8080/v1 is Sidenote's own address"},
		{"embeddings of too many dimensions", up + "embeddings: {model: m, dimensions: 5000}", "c.yaml:2:36: embeddings.dimensions: 5000 is out of range; use 1 to 4096"},
		{"a base without embeddings", up + "knowledge: {docs: {path: ., embed: true}}", "c.yaml:2:29: knowledge.docs.embed: goes with embeddings, and there are none; write embeddings: {upstream: NAME, model: MODEL}"},
		{"a store with embeddings", up + "embeddings: {model: m}\nknowledge: {a: {engine: vector_store, upstream: default, id: vs_1, embed: true}}", "c.yaml:3:68: knowledge.a.embed: does not go with engine vector_store"},
		{"no Redis", up + "redis: {prefix: a}", "c.yaml:2:1: redis.url: is missing; write it here or give --redis"},
		{"no Redis for budgets", up + "budgets: {redis: {timeout: 2s}}", "c.yaml:2:11: budgets.redis.url: is missing, as redis names no server for it either; write one of them"},
		{"Redis for budgets that is not used", up + "budgets: {store: process, redis: redis://r.test}", "c.yaml:2:27: budgets.redis: is not used where budgets.store is process"},
		{"Redis for budgets with a password", up + "budgets: {redis: redis://:canary@r.test}", "c.yaml:2:18: budgets.redis.url: holds a password in plain text; write {env: NAME} or {file: PATH}"},
		{"Redis for budgets that never answers", up + "budgets: {redis: {url: redis://r.test, timeout: 0s}}", "c.yaml:2:49: budgets.redis.timeout: 0s is out of range; use 1ms to 1m"},
		{"Redis that is no URL", up + "redis: 127.0.0.1:6379", `c.yaml:2:8: redis.url: is not a URL; write it as in redis://127.0.0.1:6379/0`},
		{"Redis of another scheme", up + "redis: http://r.test", `c.yaml:2:8: redis.url: begins with "http:"; write redis://, rediss:// (TLS) or unix://`},
		{"Redis without a host", up + "redis: {url: 'redis://:6379'}", `c.yaml:2:14: redis.url: has no host and port; write it as in redis://127.0.0.1:6379/0`},
		{"Redis with a password", up + "redis: redis://:canary@r.test", "c.yaml:2:8: redis.url: holds a password in plain text; write {env: NAME} or {file: PATH}"},
		{"Redis by a bad secret", up + "redis: {url: {env: KEY}}", "c.yaml:2:9: redis.url: has no scheme; write it as in redis://127.0.0.1:6379/0"},
		{"Redis with a word of another library", up + "redis: redis://r.test?read_timeout=5s", `c.yaml:2:8: redis.url: has an unknown word "read_timeout"; there are addr, cluster, master_name, sentinel_username, sentinel_password`},
		{"database of a cluster", up + "redis: redis://r.test/3?cluster=true", "c.yaml:2:8: redis.url: names database 3; a cluster has only database 0"},
		{"database of a name", up + "redis: redis://r.test/main", `c.yaml:2:8: redis.url: names database "main"; it is a number, as in redis://127.0.0.1:6379/0`},
		{"prefix", up + "redis: {url: redis://r.test, prefix: 'a{b}'}", `c.yaml:2:38: redis.prefix: "a{b}" is not a prefix; use 1 to 64 of . _ : - a-z A-Z 0-9`},
		{"authority", up + "redis: {url: rediss://r.test, ca: c.yaml}", `c.yaml:2:31: redis.ca: "c.yaml" contains no PEM certificate`},
		{"encryption keys", up + "redis: {url: redis://r.test, encryption_keys: {env: KEY}}", "c.yaml:2:30: redis.encryption_keys: line 1: want an id and a key, has 1 words"},
		{"nested unknown", up + "policies:\n  default:\n    retrieval: {top_kk: 3}", "c.yaml:4:17: policies.default.retrieval.top_kk: unknown key; did you mean top_k?"},
		{"null", up + "knowledge:\n", "c.yaml:2:12: knowledge: is blank; give it a value or leave the key out"},
		{"empty text", "upstream: ''", "c.yaml:1:11: upstream: is blank; give it a value or leave the key out"},
		{"empty map", up + "tenants: {}", "c.yaml:2:10: tenants: is blank; give it a value or leave the key out"},
		{"twice", up + "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2", "c.yaml:3:1: listen: is here twice; the first is at c.yaml:2:1"},
		{"zero", up + "policies: {default: {context_tokens: 0}}", "c.yaml:2:38: policies.default.context_tokens: 0 is out of range; use 1 to 10M"},
		{"negative", up + "concurrency: -5", "c.yaml:2:14: concurrency: -5 is out of range; use 1 to 1M"},
		{"overflow", up + "concurrency: 99999999999999999999M", `c.yaml:2:14: concurrency: "99999999999999999999M" is not a whole number; write it as in 2000 or 200k`},
		{"relevance", up + "knowledge: {docs: {path: ., relevance_threshold: 1}}", `c.yaml:2:50: knowledge.docs.relevance_threshold: "1" is not a relevance; use auto or a number between 0 and 1, such as 0.6`},
		{"weight above 1", up + "policies: {default: {retrieval: {dense_weight: 1.5}}}", `c.yaml:2:48: policies.default.retrieval.dense_weight: "1.5" is not a weight; use auto or a number above 0, up to 1, such as 0.5`},
		{"share without a percent sign", up + "policies: {default: {cache_diagnostics: 0.01}}", `c.yaml:2:41: policies.default.cache_diagnostics: "0.01" is not a share; use a percentage from 0% to 100%, such as 1%`},
		{"share above 100 %", up + "policies: {default: {cache_diagnostics: 101%}}", `c.yaml:2:41: policies.default.cache_diagnostics: "101%" is not a share; use a percentage from 0% to 100%, such as 1%`},
		{"record without a key", up + "policies: {default: {record: {share: 5%}}}", "c.yaml:2:22: policies.default.record.key: is missing; name a file whose lines are an id and 32 bytes in base64"},
		{"record of a share alone", up + "policies: {default: {record: 5%}}", `c.yaml:2:30: policies.default.record: "5%" is not off; write a map with a share and a key`},
		{"record of no share", up + "policies: {default: {record: {share: 0%, key: {env: RECORD}}}}", "c.yaml:2:31: policies.default.record.share: records nothing; write record: off, or a share above 0%"},
		{"record of too much", up + "policies: {default: {record: {share: 120%, key: {env: RECORD}}}}", `c.yaml:2:38: policies.default.record.share: "120%" is not a share; use a percentage from 0% to 100%, such as 1%`},
		{"record of other bodies", up + "policies: {default: {record: {bodies: question, key: {env: RECORD}}}}", `c.yaml:2:39: policies.default.record.bodies: "question" is none of questions, requests; did you mean questions?`},
		{"records kept for a moment", up + "policies: {default: {record: {keep: 59m, key: {env: RECORD}}}}", "c.yaml:2:37: policies.default.record.keep: 59m is out of range; use 1h to 3650d"},
		{"records kept for weeks", up + "policies: {default: {record: {keep: 2w, key: {env: RECORD}}}}", `c.yaml:2:37: policies.default.record.keep: "2w" is not a duration; write 7d or 12h`},
		{"records without room", up + "policies: {default: {record: {max: 15MiB, key: {env: RECORD}}}}", "c.yaml:2:36: policies.default.record.max: 15MiB is out of range; use 16MiB to 1024GiB"},
		{"record key that is none", up + "policies: {default: {record: {key: {env: KEY}}}}", "c.yaml:2:31: policies.default.record.key: line 1: want an id and a key, has 1 words"},
		{"record key that is missing", up + "policies: {default: {record: {key: {file: /no}}}}", `c.yaml:2:37: policies.default.record.key.file: "/no" cannot be read: file does not exist`},
		{"record key in plain text", up + "policies: {default: {record: {key: canary}}}", "c.yaml:2:36: policies.default.record.key: is a secret in plain text; write {env: NAME} or {file: PATH}"},
		{"redaction of what is unknown", up + "policies: {default: {record: {redact: [mails], key: {env: RECORD}}}}", `c.yaml:2:40: policies.default.record.redact[0]: "mails" is none of emails, numbers, none; did you mean emails?`},
		{"redaction of none and some", up + "policies: {default: {record: {redact: [none, emails], key: {env: RECORD}}}}", "c.yaml:2:31: policies.default.record.redact: says none and more; keep one"},
		{"redaction by no pattern", up + "policies: {default: {record: {patterns: ['a('], key: {env: RECORD}}}}", "c.yaml:2:42: policies.default.record.patterns[0]: \"a(\" is not a regular expression: missing closing ): `a(`"},
		{"redaction of everything", up + "policies: {default: {record: {patterns: ['a*'], key: {env: RECORD}}}}", `c.yaml:2:42: policies.default.record.patterns[0]: "a*" matches an empty text, and so every place; write what must be there`},
		{"records in no folder", up + "state: ':memory:'\npolicies: {default: {record: {key: {env: RECORD}}}}", "c.yaml:3:22: policies.default.record: keeps records in the state folder, and state is in memory; name a folder"},
		{"fusion", up + "policies: {default: {retrieval: {fusion: rff}}}", `c.yaml:2:42: policies.default.retrieval.fusion: "rff" is none of distribution, rrf; did you mean rrf?`},
		{"nan", up + "policies: {default: {retrieval: {score_threshold: .nan}}}", `c.yaml:2:51: policies.default.retrieval.score_threshold: ".nan" is not a threshold; use auto or a number above 0`},
		{"no unit", up + "shutdown_grace: 25", `c.yaml:2:17: shutdown_grace: "25" is not a duration; write it as in 300ms, 5s or 10m`},
		{"word", up + "policies: {default: {placement: sytem}}", `c.yaml:2:33: policies.default.placement: "sytem" is none of system, last_user, split, marker, auto; did you mean system?`},
		{"marks within a text", up + "policies: {default: {placement: marker, cache_marks: auto}}", `c.yaml:2:41: policies.default.cache_marks: auto sets a mark behind the application's text, and placement is marker, within it; set placement: auto, split or system, or cache_marks: off`},
		{"priority", up + "policies: {default: {sources: {priority: 101}}}", `c.yaml:2:42: policies.default.sources.priority: "101" is not a priority; use 0 to 100, or critical, high, medium, low, optional`},
		{"bool", up + "policies: {default: {components: [{name: a, text: b, truncatable: yes}]}}", `c.yaml:2:67: policies.default.components[0].truncatable: "yes" is neither true nor false`},
		{"sources is taken", up + "policies: {default: {components: [{name: sources, text: b}]}}", `c.yaml:2:36: policies.default.components[0].name: "sources" is taken`},
		{"name", up + "knowledge: {Docs: ./d}", `c.yaml:2:13: knowledge: "Docs" is not a name; use 1 to 64 of a-z 0-9 _ -`},
		{"plain secret", "upstream: {base_url: https://u.test, api_key: sk-canary}", "c.yaml:1:47: upstream.api_key: is a secret in plain text; write {env: NAME} or {file: PATH}"},
		{"secret not set", "upstream: {base_url: https://u.test, api_key: {env: NOPE}}", "c.yaml:1:48: upstream.api_key.env: NOPE is not set in the environment"},
		{"secret file", "upstream: {base_url: https://u.test, api_key: {file: /no}}", `c.yaml:1:48: upstream.api_key.file: "/no" cannot be read: file does not exist`},
		{"two ways", "upstream: {base_url: https://u.test, api_key: {env: KEY, file: /no}}", "c.yaml:1:38: upstream.api_key: has both env and file; keep one"},
		{"credentials in URL", "upstream: https://me:canary@u.test", "c.yaml:1:11: upstream.base_url: holds credentials; use api_key"},
		{"credentials in no URL", "upstream: 'https://me:can ary@u.test'", "c.yaml:1:11: upstream.base_url: holds credentials; use api_key"},
		{"credentials without scheme", "upstream: me:canary@u.test/v1", "c.yaml:1:11: upstream.base_url: holds credentials; use api_key"},
		{"key in a query", "upstream: https://u.test/v1?key=canary#canary", `c.yaml:1:11: upstream.base_url: "https://u.test/v1" has a query or fragment behind it; only scheme, host and path are used`},
		{"credentials of keys", up + "identity: {jwt: {a: {issuer: a, audience: b, jwks_url: 'https://me:can%zzary@u.test'}}}\ntenants: {a: {jwt: {a: {sub: b}}}}", "c.yaml:2:56: identity.jwt.a.jwks_url: holds credentials; keys are public and need none"},
		{"no upstream", "listen: 127.0.0.1:1", "c.yaml: upstream: is missing; name the API that requests go to, as in --upstream https://api.openai.com"},
		{"store without upstream and id", up + "knowledge: {a: {engine: vector_store}}", "c.yaml:2:13: knowledge.a.upstream: is missing\nc.yaml:2:13: knowledge.a.id: is missing"},
		{"store with a folder", up + "knowledge: {a: {engine: vector_store, upstream: default, id: vs_1, path: ./a, include: ['*']}}", "c.yaml:2:68: knowledge.a.path: does not go with engine vector_store\nc.yaml:2:79: knowledge.a.include: does not go with engine vector_store"},
		{"folder with a store", up + "knowledge: {a: {path: ./a, id: vs_1}}", "c.yaml:2:28: knowledge.a.id: does not go with engine embedded; write engine: vector_store"},
		{"store of nobody", up + "knowledge: {a: {engine: vector_store, upstream: defualt, id: vs_1}}", `c.yaml:2:39: knowledge.a.upstream: no upstream is named "defualt"; did you mean default?`},
		{"store's id", up + "knowledge: {a: {engine: vector_store, upstream: default, id: ../x}}", `c.yaml:2:62: knowledge.a.id: "../x" is not the id of a vector store; write it as in vs_68a1`},
		{"engine", up + "knowledge: {a: {engine: vectorstore}}", `c.yaml:2:25: knowledge.a.engine: "vectorstore" is none of embedded, vector_store, postgres, opensearch; did you mean vector_store?`},
		{"deletions of a store", up + "knowledge: {a: {engine: vector_store, upstream: default, id: vs_1, deletions: accept}}", "c.yaml:2:68: knowledge.a.deletions: does not go with engine vector_store"},
		{"deletions without a folder", up + "knowledge: {a: {engine: embedded, deletions: accept}}", "c.yaml:2:13: knowledge.a.path: is missing"},
		{"key's name twice", up + "tenants: {a: {keys: [{sha256: " + digest + ", name: ci}, {sha256: " + strings.Repeat("0", 63) + "1, name: ci}]}}", `c.yaml:2:183: tenants.a.keys[1].name: "ci" is the name of another key of this tenant`},
		{"key that is never valid", up + "tenants: {a: {keys: [{sha256: " + digest + ", not_before: 2027-02-01, expires: 2027-01-31}]}}", `c.yaml:2:97: tenants.a.keys[0].not_before: 2027-02-01 is after expires, 2027-01-31`},
		{"token of nobody", up + "tenants: {a: {jwt: {corp: {groups: x}}}}", `c.yaml:2:21: tenants.a.jwt.corp: no issuer is named "corp"`},
		{"issuer without keys", issuers("{issuer: i, audience: a}") + "tenants: {a: {jwt: {corp: {groups: x}}}}", "c.yaml:2:18: identity.jwt.corp: has no keys; say where they are, by jwks_url or jwks_file"},
		{"issuer with both keys", issuers("{issuer: i, audience: a, jwks_url: https://i.test, jwks_file: keys.json}") + "tenants: {a: {jwt: {corp: {groups: x}}}}", "c.yaml:2:18: identity.jwt.corp: has both jwks_url and jwks_file; keep one"},
		{"keys by http", issuers("{issuer: i, audience: a, jwks_url: http://i.test/jwks}") + "tenants: {a: {jwt: {corp: {groups: x}}}}", `c.yaml:2:59: identity.jwt.corp.jwks_url: "http://i.test/jwks" is not https, so others on the way could put keys of their own there`},
		{"keys with credentials", issuers("{issuer: i, audience: a, jwks_url: https://me:canary@i.test}") + "tenants: {a: {jwt: {corp: {groups: x}}}}", `c.yaml:2:59: identity.jwt.corp.jwks_url: holds credentials; keys are public and need none`},
		{"no file of keys", issuers("{issuer: i, audience: a, jwks_file: keys.json}") + "tenants: {a: {jwt: {corp: {groups: x}}}}", `c.yaml:2:49: identity.jwt.corp.jwks_file: "keys.json" cannot be read: file does not exist`},
		{"no keys in a file", issuers("{issuer: i, audience: a, jwks_file: c.yaml}") + "tenants: {a: {jwt: {corp: {groups: x}}}}", `c.yaml:2:49: identity.jwt.corp.jwks_file: "c.yaml" is not a JWKS: not JSON in the form of {"keys": [...]}`},
		{"secret algorithm", issuers("{issuer: i, audience: a, jwks_url: https://i.test, algorithms: [HS256]}") + "tenants: {a: {jwt: {corp: {groups: x}}}}", `c.yaml:2:88: identity.jwt.corp.algorithms[0]: "HS256" is none of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA; did you mean RS256?`},
		{"no issuer", issuers("{audience: a, jwks_url: https://i.test}") + "tenants: {a: {jwt: {corp: {groups: x}}}}", "c.yaml:2:24: identity.jwt.corp.issuer: is missing"},
		{"two of one kind", up + "identity: {jwt: {a: {issuer: i, audience: a, jwks_url: https://i.test}, b: {issuer: i, audience: a, jwks_url: https://i.test}}}\ntenants: {a: {jwt: {a: {groups: x}}}}", `c.yaml:2:73: identity.jwt.b: takes the same tokens as "a"`},
		{"tokens without tenants", up + "identity: {jwt: {corp: {issuer: i, audience: a, jwks_url: https://i.test}}}", "c.yaml:2:12: identity.jwt: needs tenants, and there are none"},
		{"one token, two tenants", issuers("{issuer: i, audience: a, jwks_url: https://i.test}") + "tenants:\n  a: {jwt: {corp: {groups: [x], role: y}}}\n  b: {jwt: {corp: {groups: [x, z]}}}", `c.yaml:4:13: tenants.a.jwt.corp: every token that names this tenant names "b" too, and a token that names two is refused`},
		{"claim without a value", issuers("{issuer: i, audience: a, jwks_url: https://i.test}") + "tenants: {a: {jwt: {corp: {groups: ''}}}}", "c.yaml:3:36: tenants.a.jwt.corp.groups: is blank; give it a value or leave the key out"},
		{"every address", up + "identity: {header: {trusted: [0.0.0.0/0]}}\ntenants: {a: {keys: [" + digest + "]}}", `c.yaml:2:31: identity.header.trusted[0]: "0.0.0.0/0" is every address, and so trusts anybody`},
		{"address in a network", up + "identity: {header: {trusted: [10.0.0.1/8]}}\ntenants: {a: {keys: [" + digest + "]}}", `c.yaml:2:31: identity.header.trusted[0]: "10.0.0.1/8" has an address within the network; write 10.0.0.0/8 for the network, or 10.0.0.1`},
		{"name in place of an address", up + "identity: {header: {trusted: [gateway]}}\ntenants: {a: {keys: [" + digest + "]}}", `c.yaml:2:31: identity.header.trusted[0]: "gateway" is not an address or network; write it as in 10.0.0.7 or 10.0.0.0/8`},
		{"missing field", up + "knowledge: {a: {include: ['*']}}", "c.yaml:2:13: knowledge.a.path: is missing"},
		{"rules without a folder", up + "knowledge: {a: {engine: embedded, include: ['*']}}", "c.yaml:2:13: knowledge.a.path: is missing"},
		{"nobody to follow", up + "state: {path: ':memory:', follow: true}", "c.yaml:2:27: state.follow: goes with a folder that another process writes; state is in memory"},
		{"attribute that is none", up + "knowledge: {a: {path: ./a, attributes: {year: {is: 1}}}}", `c.yaml:2:28: knowledge.a.attributes: attribute "year": {"is":1} is an object, which is neither string, number, bool nor list of strings`},
		{"attributes that are none", up + "knowledge: {a: {path: ./a, attributes: staff}}", `c.yaml:2:40: knowledge.a.attributes: expected a map such as {audience: staff}, got a value`},
		{"attribute in mixed list", up + "knowledge: {a: {path: ./a, attributes: {tags: [a, 1]}}}", `c.yaml:2:28: knowledge.a.attributes: attribute "tags": ["a",1] is a list with a number in it; lists are of strings`},
		{"attribute that is not a number", up + "knowledge: {a: {path: ./a, attributes: {year: .nan}}}", `c.yaml:2:47: knowledge.a.attributes.year: ".nan" is neither a plain number nor true or false; put it in quotes to mean a text`},
		{"attributes from a bad path", up + "knowledge: {a: {path: ./a, attributes_from: {path: '{a}/{a}'}}}", `c.yaml:2:46: knowledge.a.attributes_from.path: path pattern "{a}/{a}": segment "{a}": {a} comes twice`},
		{"program without a folder", up + "knowledge: {a: {engine: vector_store, upstream: default, id: vs_1, ocr: x}}", `c.yaml:2:68: knowledge.a.ocr: does not go with engine vector_store`},
		{"attributes without a folder", up + "knowledge: {a: {engine: embedded, attributes: {b: c}}}", `c.yaml:2:13: knowledge.a.path: is missing`},
		{"bad pattern", up + "knowledge: {a: {path: ./a, include: ['[']}}", `c.yaml:2:38: knowledge.a.include[0]: "[" is not a pattern; write it as in **/*.md`},
		{"list wanted", up + "include: x.yaml", "c.yaml:2:10: include: expected a list, as in [a, b], got a value"},
		{"map wanted", up + "timeouts: 5", "c.yaml:2:11: timeouts.connect: \"5\" is not a duration; write it as in 300ms, 5s or 10m"},
		{"value wanted", up + "concurrency: {a: 1}", "c.yaml:2:14: concurrency: expected one value, got a map"},
		{"listed twice", up + "knowledge: {a: ./a}\npolicies: {default: {knowledge: [a, a]}}", `c.yaml:3:37: policies.default.knowledge[1]: "a" is listed twice`},
		{"undefined base", up + "knowledge: {handbook: ./a}\npolicies: {default: {knowledge: [hand-book]}}", `c.yaml:3:34: policies.default.knowledge[0]: no base is named "hand-book"; did you mean handbook?`},
		{"undefined parent", up + "policies: {default: {extends: bass}}", `c.yaml:2:22: policies.default.extends: no policy is named "bass"`},
		{"cycle", up + "policies: {default: {extends: a}, a: {extends: default}}", "c.yaml:2:22: policies.default.extends: goes round in a circle: default → a → default\nc.yaml:2:39: policies.a.extends: goes round in a circle: a → default → a"},
		{"undefined upstream", up + "policies: {default: {upstream: nope}}", `c.yaml:2:22: policies.default.upstream: no upstream is named "nope"`},
		{"no default policy", up + "policies: {base: {mode: off}}", "c.yaml:2:1: policies: none is named default and there are no tenants, so nobody would use them"},
		{"which upstream", "upstreams: {a: http://a.test, b: http://b.test}", `c.yaml: policies.default: policy "default" has no upstream; choose one of a, b`},
		{"tenant without key", up + "tenants: {a: {policy: default}}\npolicies: {default: {mode: off}}", "c.yaml:2:11: tenants.a.keys: is missing: add keys, jwt or a listener; no request can be identified as this tenant"},
		{"tenant without bases", up + "tenants: {a: {keys: [" + digest + "]}}\nknowledge: {x: ./x, y: ./y}", "c.yaml:2:11: tenants.a.knowledge: is missing; list the bases that this tenant may search, of x, y"},
		{"one key, two tenants", up + "tenants: {a: {keys: [" + digest + "]}, b: {keys: [{sha256: " + digest + "}]}}", "c.yaml:2:102: tenants.b.keys[0].sha256: is also a key of tenant \"a\", at c.yaml:2:22"},
		{"key in plain text", up + "tenants: {a: {keys: [sk-canary]}}", "c.yaml:2:22: tenants.a.keys[0].sha256: is not a SHA-256 in 64 hex digits; `sidenote key hash` makes one of a key"},
		{"undefined stranger", up + "tenants: {a: {keys: [" + digest + "]}}\nidentity: {unknown: b}", `c.yaml:3:12: identity.unknown: no tenant is named "b"`},
		{"tenant of a reserved name", up + "tenants: {refuse: {keys: [" + digest + "]}}", "c.yaml:2:11: tenants.refuse: is reserved: identity.unknown uses it to refuse callers; choose another name"},
		{"strangers without tenants", up + "identity: {unknown: refuse}", `c.yaml:2:12: identity.unknown: "refuse" needs tenants, and there are none`},
		{"open to everybody", "upstream: {base_url: https://u.test, api_key: {env: KEY}}\nlisten: :8080", `c.yaml:2:1: listen: :8080 can be reached from other machines and upstream "default" has an api_key, which callers without a key of their own would use; define tenants with keys and identity.unknown: refuse, or listen on 127.0.0.1`},
		{"admin open", up + "admin: {listen: 0.0.0.0:8081}", "c.yaml:2:9: admin.listen: 0.0.0.0:8081 can be reached from other machines, so admin.token must be set"},
		{"own address", "upstream: http://127.0.0.1:8080/v1", "c.yaml:1:11: upstream.base_url: http://127.0.0.1:8080/v1 is Sidenote's own address"},
		{"template", up + "policies: {default: {template: 'a {{CONTEXTS}}'}}", "c.yaml:2:32: policies.default.template: \"{{CONTEXTS}}\" is not a placeholder; use {{CONTEXT}}, {{RULES}} or {{QUERY}}"},
		{"model row twice", up + "models: [{match: a, window: 1k}, {match: a, window: 2k}]", `c.yaml:2:35: models[1].match: "a" is also models[0], which wins`},
		{"idle model row", up + "models: [gpt]", `c.yaml:2:10: models[0]: says nothing of "gpt"; give encoding, window, max_output_tokens, roles, output_field, temperature, reasoning, tools, search_results or prompt_cache`},
		{"filters as one", up + "policies: {default: {filters: {type: eq}}}", "c.yaml:2:31: policies.default.filters: expected a list, as in [a, b], got a map"},
		{"filter of one word", up + "policies: {default: {filters: [public]}}", `c.yaml:2:32: policies.default.filters[0]: "public" is not an object such as {"type": "eq", "key": "audience", "value": "public"}`},
		{"filter's type", up + "policies: {default: {filters: [{type: equals, key: a, value: b}]}}", `c.yaml:2:39: policies.default.filters[0].type: "equals" is none of eq, ne, gt, gte, lt, lte, in, nin, prefix, and, or`},
		{"filter without a key", up + "policies: {default: {filters: [{type: eq, value: b}]}}", "c.yaml:2:32: policies.default.filters[0].key: is missing"},
		{"filter's field", up + "policies: {default: {filters: [{type: eq, key: a, valeu: b}]}}", "c.yaml:2:58: policies.default.filters[0].valeu: unknown field; a filter has type, key and value, or type and filters"},
		{"filter's key twice", up + "policies: {default: {filters: [{type: eq, key: a, key: b, value: c}]}}", "c.yaml:2:51: policies.default.filters[0].key: is here twice; the first is at c.yaml:2:43"},
		{"filter's blank", up + "policies: {default: {filters: [{type: in, key: a, value: []}]}}", "c.yaml:2:58: policies.default.filters[0].value: is blank; give it a value or leave the key out"},
		{"filter that joins nothing", up + "policies: {default: {filters: [{type: and}]}}", "c.yaml:2:32: policies.default.filters[0].filters: what is missing is not a list of at least one filter"},
		{"filter's value", up + "policies: {default: {filters: [{type: gt, key: a, value: true}]}}", "c.yaml:2:58: policies.default.filters[0].value: true has no order; a number or a string has"},
		{"filter's list", up + "policies: {default: {filters: [{type: in, key: a, value: [b, {c: d}]}]}}", `c.yaml:2:58: policies.default.filters[0].value: ["b",{"c":"d"}] is neither a string, a number nor a boolean`},
		{"filter's number", up + "policies: {default: {filters: [{type: eq, key: a, value: 0x10}]}}", `c.yaml:2:58: policies.default.filters[0].value: "0x10" is neither a plain number nor true or false; put it in quotes to mean a text`},
		{"filter's large number", up + "policies: {default: {filters: [{type: eq, key: a, value: 1e999}]}}", `c.yaml:2:58: policies.default.filters[0].value: "1e999" is out of range; put it in quotes to mean a text`},
		{"filter's boolean", up + "policies: {default: {filters: [{type: eq, key: a, value: True}]}}", `c.yaml:2:58: policies.default.filters[0].value: "True" is neither a plain number nor true or false; put it in quotes to mean a text`},
		{"filter's placeholder", up + "policies: {default: {filters: [{type: ne, key: a, value: '${claims.department}'}]}}", `c.yaml:2:58: policies.default.filters[0].value: a claim goes with eq and in, not with ne`},
		{"filter's anchor", up + "policies: {default: {filters: [{type: eq, key: a, value: &x b}]}}", "c.yaml:2:58: policies.default.filters[0].value: anchors, aliases and tags are not read; policies share by extends"},
		{"tenant's filter, deep inside", up + "tenants:\n  a:\n    keys: [" + digest + "]\n    filters:\n      - type: or\n        filters:\n          - type: eq\n            key: a\n            value: b\n          - type: prefix\n            key: c\n            value: 7\n", "c.yaml:13:20: tenants.a.filters[0].filters[1].value: 7 is not a string"},
		{"anchors", "upstream: &a https://u.test", "c.yaml:1:11: upstream: anchors, aliases and tags are not read; policies share by extends"},
		{"not YAML", "upstream: [", "c.yaml:1:11: is not YAML: sequence end token ']' not found"},
		{"empty file", "# nothing\n", "c.yaml:1:1: is empty"},
		{"two documents", up + "---\nlisten: :1", "c.yaml:3:7: holds a second document; use one file for each"},
		{"a list", "- a\n", "c.yaml:1:1: expected a map, got a list"},
		{"include", up + "include: [no.yaml]", `c.yaml:2:11: include[0]: file "no.yaml" not found`},
		{"two at once", "listen: x\nconcurrency: 0", "c.yaml: upstream: is missing; name the API that requests go to, as in --upstream https://api.openai.com\n" +
			`c.yaml:1:9: listen: "x" is not an address; write host:port, as in 127.0.0.1:8080` + "\nc.yaml:2:14: concurrency: 0 is out of range; use 1 to 1M"},
	} {
		_, err := config.Load(disk{"c.yaml": c.file}.source("c.yaml"))
		if got := fmt.Sprint(err); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		} else if strings.Contains(got, "canary") {
			t.Errorf("%s: shows a secret: %s", c.name, got)
		}
	}
}

func TestManyProblemsAreCapped(t *testing.T) {
	var file strings.Builder
	file.WriteString("upstream: http://u.test\nknowledge:\n")
	for i := range 50 {
		fmt.Fprintf(&file, "  k%d: {path: a, bogus: 1}\n", i)
	}
	_, err := config.Load(disk{"c.yaml": file.String()}.source("c.yaml"))
	if all, ok := errors.AsType[strictyaml.Problems](err); !ok || len(all) != 50 {
		t.Fatalf("got %d problems", len(all))
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != strictyaml.MaxProblems+1 || lines[strictyaml.MaxProblems] != "and 30 more" {
		t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
}

// issuers returns a configuration with the issuer corp.
func issuers(corp string) string {
	return "upstream: https://u.test\nidentity: {jwt: {corp: " + corp + "}}\n"
}
