package config

// A section is a part of the key reference: the keys below one key.
type section struct {
	at   string // the key, such as "policies.NAME.overrides[]"; "" for the top level
	text string // what it configures
	keys []about
}

// An about describes a key. Its name is relative to its section.
type about struct {
	name     string
	fallback string // the default, with a literal value in backquotes; "" for none
	text     string // one sentence in Markdown
}

// repeated lists keys that have the descriptions of other keys.
func repeated() [][2]string {
	return [][2]string{
		{"upstreams.NAME.", "upstream."},
		{"admin.tls.", "listen[].tls."}, {"telemetry.tls.", "listen[].tls."}, {"mcp.tls.", "listen[].tls."},
		{"budgets.allowance.", "policies.NAME.limits."}, {"tenants.NAME.limits.", "policies.NAME.limits."},
		{"prices[].tiers.NAME.", "prices[]."}, {"policies.NAME.default_price.", "prices[]."},
		{"policies.NAME.overrides[].", "policies.NAME."},
	}
}

// sections describes every key of the configuration, for the JSON Schema and for CONFIG.md.
func sections() []section {
	return append(append(processSections(), policySections()...), knowledgeSections()...)
}

const (
	followsInput = "that of `input`"
	sameKeys     = " Keys: as in "
)

func processSections() []section {
	return []section{
		{"", "", []about{
			{"version", "1", "Version of this file format."},
			{"listen", "`127.0.0.1:8080`", "Where apps send requests: an address, or a list of addresses and maps with the keys of `listen[]`."},
			{"trusted_proxies", "", "Addresses of proxies whose `X-Forwarded-For` is believed for the client address in the log; `max_connections_per_address` does not count them."},
			{"models_file", "", "YAML file with a newer model table: `date`, `source` and `models`, whose rows come after `models` and before the built-in ones. Read again on reload."},
			{"concurrency", "1024", "Most requests in progress; more get 503."},
			{"connections", "`16k`, at most three eighths of the open-file limit", "Most client connections."},
			{"max_connections_per_address", "unlimited", "Most connections of one client address, on the data ports and the MCP port together; an IPv6 /64 counts as one address."},
			{"ready", "`listening`", "When `/readyz` first answers 200: `listening` at once, `knowledge` after every base was opened once. The image sets `knowledge`."},
			{"shutdown_grace", "`25s`", "How long answers in progress may continue after SIGTERM."},
			{"shutdown_delay", "`0s`", "The part of `shutdown_grace` during which new requests are still served while `/readyz` answers 503. The image sets `5s`."},
		}},
		{"listen[]", "A data port.", []about{
			{"address", "", "`HOST:PORT`, or `unix:/PATH` for a unix socket."},
			{"tenant", "", "The tenant that every caller on this port is treated as."},
			{"proxy_protocol", "", "Addresses of load balancers that start each connection with a PROXY protocol header."},
			{"tls", "no TLS", "Certificate of the port, for TLS 1.2 and later; files are read again when they change."},
			{"tls.cert", "", "PEM file with the certificate."},
			{"tls.key", "", "PEM file with its private key."},
			{"tls.client_ca", "", "PEM file of authorities; clients must present one of their certificates."},
		}},
		{"admin", "The port for operators.", []about{
			{"listen", "`127.0.0.1:8081`", "Address of dry runs, searches, base management, inspector, metrics and probes: `HOST:PORT`, `unix:/PATH` or `off`."},
			{"tls", "no TLS", "Certificate of the port." + sameKeys + "`listen[].tls`."},
			{"token", "", "Token for everything except probes; required beyond loopback. `SIDENOTE_ADMIN_TOKEN` and `--admin-token-file` take precedence."},
			{"read_token", "", "Token for everything that changes nothing: requests of tenants and settings too."},
			{"tokens", "", "More tokens, each with a name and a scope. While a token is replaced, the old and the new one can both be here."},
			{"tokens[].name", "", "Name of the token in messages."},
			{"tokens[].scope", "", "`admin` allows everything; `read` to search and read bases, as other Sidenotes do; `write` that and to change documents; `metrics` to scrape."},
			{"tokens[].file", "", "File with the token, of 16 bytes at least; it is read again when it changes."},
			{"tokens[].sha256", "", "SHA-256 of the token, instead of `file`."},
			{"tokens[].knowledge", "all bases", "Bases that a token of the scopes `read` and `write` is for; others do not exist for it."},
			{"tokens[].expires", "never", "Last day (UTC) on which the token is valid."},
		}},
		{"telemetry", "Metrics and log.", []about{
			{"listen", "`off`", "Port with `/metrics`, `/healthz` and `/readyz` only, without a token. The image sets `0.0.0.0:9464`."},
			{"tls", "no TLS", "Certificate of the port." + sameKeys + "`listen[].tls`."},
			{"log", "", "Format and contents of the log."},
			{"log.format", "`auto`", "`text`, `json`, or `auto`: text on a terminal, else JSON."},
			{"log.requests", "`all`", "Which requests get a log line: `all`, `errors` or `none`."},
			{"tenants", "`all`", "Which tenants have metrics of their own: `all`, `off`, or `{top: N}`; the others are counted as tenant `other`."},
			{"tenants.series", "`all`", "`all` or `off`."},
			{"tenants.top", "", "Only the busiest, at most this many."},
			{"native_histograms", "`false`", "Also keep Prometheus native histograms, for scrapers that ask for them."},
		}},
		{"mcp", "The port for MCP clients, which use the knowledge as tools.", []about{
			{"listen", "`off`", "Address, as in `http://HOST:PORT/mcp`: `HOST:PORT` or `unix:/PATH`."},
			{"tenant", "", "The tenant that every caller on this port is treated as."},
			{"tls", "no TLS", "Certificate of the port." + sameKeys + "`listen[].tls`."},
		}},
		{"upstream", "The API that requests are relayed to; it is the upstream named `default`.", []about{
			{"base_url", "", "Base URL: `http://`, `https://`, or `unix:/SOCKET:/PATH`. A list is tried in order when no connection can be made. `--upstream` takes precedence."},
			{"api_key", "the key of the client", "API key that Sidenote sends; it is only ever sent to this `base_url`."},
			{"timeouts", "", "Time limits of this upstream."},
			{"timeouts.connect", "that of `timeouts`", "To connect, TLS handshake included."},
			{"timeouts.first_byte", "that of `timeouts`", "From the request sent to the first byte of the answer."},
			{"timeouts.idle", "that of `timeouts`", "Between two pieces of an answer."},
			{"key_header", "`auto`", "Header of that key: `authorization` (bearer), `api-key`, `x-api-key`, or `auto`: by the host."},
			{"ca", "those of the system", "PEM file of authorities trusted for an https upstream."},
			{"cert", "", "PEM file of the client certificate presented to the upstream."},
			{"key", "", "PEM file of its private key."},
			{"proxy", "`HTTPS_PROXY` and `NO_PROXY` of the environment", "`http://` or `socks5://` proxy, or `off`."},
			{"calibrate", "`usage`", "What token counts learn from: the `usage` of answers, or `count_tokens` of the Messages API, called for one request in 16."},
			{"include_usage", "`auto`", "Whether metered streams ask for token usage by `stream_options`, hidden from the client; `off` for upstreams that refuse the field."},
			{"prompt_cache", "`auto`", "How it caches prompts: `none`, `prefix` (vLLM), `breakpoints` (OpenAI from GPT-5.6), `cache_control` (Anthropic), or `auto`: as is known of the model."},
		}},
		{"upstreams", "More APIs, by name." + sameKeys + "`upstream`.", nil},
		{"state", "Where embedded bases are stored.", []about{
			{"path", "`$XDG_STATE_HOME/sidenote`", "The state folder; `:memory:` reads all bases again at each start."},
			{"follow", "`false`", "Never write the folder; serve what another process writes there."},
		}},
		{"identity", "How callers are identified.", []about{
			{"unknown", "`refuse`", "With tenants: refuse callers without a known credential, or the tenant to treat them as."},
			{"open", "`false`", "Accept callers without a credential from other machines; required for such a port beyond loopback."},
			{"origins", "", "Web pages that may send requests without a key, such as `https://*.example.com`."},
			{"hosts", "", "Host names, without port, that callers without a key may use for this machine."},
			{"jwt", "", "Issuers of tokens (JWT) that identify tenants, by name."},
			{"jwt.NAME.issuer", "", "The `iss` claim of its tokens."},
			{"jwt.NAME.audience", "", "Value that the `aud` claim must be or contain."},
			{"jwt.NAME.jwks_url", "", "URL of its public keys: https, or on this machine."},
			{"jwt.NAME.jwks_file", "", "File with its public keys, instead of `jwks_url`."},
			{"jwt.NAME.algorithms", "`[RS256]`", "Accepted signature algorithms: `RS256` to `RS512`, `PS256` to `PS512`, `ES256` to `ES512`, `EdDSA`."},
			{"header", "", "Peers that name the tenant in the header `Sidenote-Tenant`."},
			{"header.trusted", "", "Addresses of these peers."},
			{"header.certificates", "", "Names in client certificates of these peers, verified by the port's `client_ca`."},
		}},
		{"timeouts", "How long Sidenote waits for others. None of them limits a whole answer.", []about{
			{"connect", "`5s`", "To connect to an upstream, TLS handshake included."},
			{"first_byte", "`10m`", "From the request sent to the first byte of the answer."},
			{"idle", "`5m`", "Between two pieces of an answer."},
			{"client_write", "`60s`", "For a client that stops reading; at most twice as long in all."},
		}},
		{"cache", "The cache of this process.", []about{
			{"memory", "`64MiB`", "Memory for cached search results."},
			{"ttl", "`10m`", "How long results are cached."},
			{"empty_ttl", "`30s`", "How long empty results are cached."},
		}},
		{"redis", "The Redis that replicas share; without `url` there is none.", []about{
			{"url", "", "`redis://` or `rediss://` URL; a URL with a password must come from a secret."},
			{"timeout", "`50ms`", "Longest that a request waits for the shared cache, all calls together."},
			{"prefix", "`sidenote`", "Prefix of all keys."},
			{"ttl", "`1h`", "How long results are cached there."},
			{"pool_size", "10 per core", "Connections; in a cluster, per node."},
			{"ca", "those of the system", "PEM file of authorities trusted for `rediss://`."},
			{"encryption_keys", "no encryption", "Lines of `ID BASE64`; the first key encrypts, any of them decrypts."},
		}},
		{"explain", "What is kept in memory about recent requests.", []about{
			{"keep", "1000", "How many requests `sidenote explain ID` can show, a few KiB each; 0 for none."},
			{"bodies", "`off`", "What is kept of chat bodies: `off`, `redacted` (lengths instead of texts) or `full` (as in `demo`)."},
		}},
		{"audit", "Where a line of JSON is written for each change of knowledge, modes and settings: `stderr`, or a file.", []about{
			{"file", "none", "File that only its owner may read; it may be moved away at any time."},
		}},
		{"budgets", "Where usage of tenants is counted.", []about{
			{"store", "`auto`", "`auto`: Redis if there is one, else the state folder; `process`: never Redis."},
			{"on_failure", "`fail_closed`", "When usage cannot be counted: `fail_closed` answers 503, `allowance` lets each replica grant `budgets.allowance`."},
			{"allowance", "", "Limits of each tenant, on each replica, while usage cannot be counted." + sameKeys + "`policies.NAME.limits`."},
			{"on_rollback", "`correct`", "When Redis has lost counts, as after restoring an old snapshot: `correct` raises them to what this replica has seen, `refuse` answers 503 for that tenant."},
			{"replicas", "1", "Number of serving processes; limits that several would count separately are refused."},
			{"redis", "", "A separate Redis for counting."},
			{"redis.url", "that of `redis.url`", "Redis that usage is counted in; it should not evict keys. `prefix` and `ca` are those of `redis`."},
			{"redis.timeout", "`1s`", "Longest time for one call, a retry included."},
		}},
		{"prices[]", "What tokens cost, by model. The first match counts; no prices are built in.", []about{
			{"match", "", "Model name, or a prefix ending in `*`."},
			{"input", "", "US dollars per million input tokens."},
			{"output", "", "US dollars per million output tokens."},
			{"cached_input", followsInput, "The same for input read from the upstream's cache."},
			{"cache_write", "1.25 × `input`", "The same for input written to the upstream's cache."},
			{"cache_write_1h", "2 × `input`", "The same for one hour (Anthropic)."},
			{"tiers", "the prices of the row", "Other prices, by the `service_tier` of the answer, such as `priority`." + sameKeys + "`prices[]`, without `match` and `tiers`."},
		}},
		{"models[]", "Model properties. The first match counts: here, then in `models_file`, then in the built-in table. Absent keys keep their value from the next matching row.", []about{
			{"match", "", "Model name, or a prefix ending in `*`."},
			{"encoding", "", "Tokenizer: `o200k_base`, `cl100k_base`, `p50k_base` or `r50k_base`."},
			{"window", "", "Context window in tokens; the window of a model without it is not checked."},
			{"max_output_tokens", "", "Longest answer in tokens."},
			{"default_output_tokens", "", "Tokens reserved for the answer of a request that sets no limit."},
			{"estimated", "`false` with `encoding`", "The encoding is not the model's own, so counts get a safety margin."},
			{"roles", "", "`all`, or `no_system` if the model refuses system messages."},
			{"output_field", "", "Request field that limits output: `max_tokens` or `max_completion_tokens`."},
			{"temperature", "", "`any`, or `fixed` if the model refuses a temperature; then planner, reranker, grader and stages send none."},
			{"reasoning", "", "`none`; `fixed`: reasons before it answers; `effort`: also accepts `reasoning_effort`. Sidenote's own calls then ask for low effort."},
			{"tools", "", "How the model takes tools in mode `tools`: `functions`; `xml`: described in text; `none`: sources are injected instead, unless the policy sets `protocol: xml`."},
			{"search_results", "", "`cited` if the model cites blocks of the type `search_result`, else `none`."},
			{"prompt_cache", "", "How its prompts are cached; see `upstream`."},
		}},
		{"include[]", "Files that add to this one.", []about{
			{"path", "", "Pattern of files, which may define models, bases in their own folder, policies except `default`, and tenants."},
			{"optional", "`false`", "Accept that no file matches."},
			{"may", "nothing more", "What else these files may use: `upstreams`, `secrets`, `paths` (documents elsewhere), `stores` (vector stores and engines), `embed`, `tokens` (JWT tenants), `all`."},
			{"knowledge", "", "Bases of other files that they may name."},
		}},
		{"tenants.NAME", "Groups of callers, by name. Without tenants every caller is tenant `default` with policy `default`.", []about{
			{"keys", "", "API keys of the tenant."},
			{"keys[].sha256", "", "SHA-256 of a key, as `sidenote key new --tenant support` prints it."},
			{"keys[].name", "", "Name of the key in the log and in lists."},
			{"keys[].not_before", "valid at once", "First day (UTC) on which the key is valid."},
			{"keys[].expires", "never", "Last day (UTC) on which the key is valid."},
			{"jwt", "", "By issuer in `identity.jwt`: the claims that a token must have, each with one of the values listed."},
			{"policy", "`default`", "Policy of its requests."},
			{"knowledge", "that of the policy", "Bases that may be searched, instead of the policy's."},
			{"filters", "", "Filters on documents, in addition to the policy's."},
			{"models", "those of the policy", "Models that requests may name; they must be allowed by the policy as well."},
			{"limits", "those of the policy", "Limits of this tenant; of each, the lower of the policy's and this counts." + sameKeys + "`policies.NAME.limits`."},
		}},
	}
}

func knowledgeSections() []section {
	return []section{
		{"knowledge.NAME", "Bases of documents, by name; the path of a single folder (`knowledge: ./docs`) stands for a base named after it.", []about{
			{"path", "", "Folder or file to read; without it, `git`, `http` and `s3`, the base is filled over the admin port."},
			{"git", "", "Repository to fetch, in place of `path`; a shallow clone in the state folder."},
			{"git.url", "", "`https://HOST/OWNER/NAME`, `ssh://git@HOST/PATH` or `git@HOST:PATH`."},
			{"git.ref", "the default branch", "Branch, tag or commit."},
			{"git.path", "the whole repository", "Folder in the repository."},
			{"git.user", "`git`", "User, with `password`."},
			{"git.password", "", "Password or access token of that user; a file is read again for each fetch."},
			{"git.key", "", "Private key for ssh, PEM without a passphrase."},
			{"git.known_hosts", "the key seen first", "File with the keys of the ssh server, as `ssh-keyscan` prints them."},
			{"git.webhook_secret", "", "Secret of a webhook of the forge to `POST /v1/knowledge/NAME/webhook` on the admin port, which fetches at once."},
			{"git.every", "`5m`", "How often it is fetched."},
			{"git.max_bytes", "`2GiB`", "Most bytes of its files, and most bytes received in one fetch."},
			{"git.allow_private", "`false`", "Allow addresses of private networks and of this machine; link-local ones are never connected to."},
			{"http", "", "Pages of a site to fetch, in place of `path`. Its `robots.txt` is obeyed; unchanged pages are not sent again."},
			{"http.urls", "", "Addresses at which to begin, on one host. Links are followed below their folders, or as `include` says."},
			{"http.sitemap", "", "Address of a sitemap, or of an index of sitemaps; its pages are fetched, their links not followed."},
			{"http.include", "below the folders of `urls`", "Patterns of paths to fetch, such as `/docs/**`."},
			{"http.exclude", "", "Patterns of paths not to fetch."},
			{"http.max_pages", "1000", "Most pages."},
			{"http.user_agent", "`Sidenote/1 …`", "The `User-Agent`; `robots.txt` is read for its name up to a slash."},
			{"http.delay", "`200ms`", "Time between requests; `robots.txt` may ask for up to 30 s."},
			{"http.every", "`6h`", "How often it is fetched."},
			{"http.max_bytes", "`2GiB`", "Most bytes of its files, and most bytes received in one fetch."},
			{"http.allow_private", "`false`", "Allow addresses of private networks and of this machine; link-local ones are never connected to."},
			{"s3", "", "Objects of a bucket of S3, or of a store with its API, to fetch, in place of `path`."},
			{"s3.endpoint", "", "`https://HOST:PORT`, such as `https://s3.eu-central-1.amazonaws.com`."},
			{"s3.bucket", "", "Name of the bucket."},
			{"s3.prefix", "", "Beginning of the keys to fetch; the rest of a key is the path of a document."},
			{"s3.region", "asked from the server", "Region of the bucket."},
			{"s3.credentials", "anonymous requests", "Keys of a user that may list the bucket and read its objects."},
			{"s3.credentials.access_key", "", "Access key."},
			{"s3.credentials.secret_key", "", "Secret key; files of keys are read again for each fetch."},
			{"s3.credentials.session_token", "", "Session token of temporary keys."},
			{"s3.every", "`5m`", "How often it is fetched."},
			{"s3.max_bytes", "`2GiB`", "Most bytes of its files, and most bytes received in one fetch."},
			{"s3.allow_private", "`false`", "Allow addresses of private networks and of this machine; link-local ones are never connected to."},
			{"include", "every readable file", "Patterns of files to read, such as `**/*.md`."},
			{"exclude", "", "Patterns of files not to read."},
			{"attributes", "", "Attributes of all its documents."},
			{"attributes_from", "", "Where attributes of documents are read from."},
			{"attributes_from.path", "", "Names of path segments: `{product}/{version}/**`."},
			{"attributes_from.front_matter", "", "Keys to read from the YAML front matter of Markdown files."},
			{"page", "the page at a known forge, or of the site", "Address at which people read a document, as the attribute `url`: `https://wiki/{path}`, with `{ref}` for `git`. For `git`, `{path}` is the path in the repository."},
			{"embed", "`false`", "Send chunks of this base, and questions to it, to the service of `embeddings`."},
			{"description", "", "What the base contains, in at most 500 characters; shown to models with tools."},
			{"deletions", "`keep`", "When most files are gone: `keep` the old contents, or `accept` the deletion."},
			{"ocr", "`off`", "Program that prints the text of the image or scanned PDF whose path is its last argument: words separated by spaces, or a list. It has two minutes a file."},
			{"relevance_threshold", "`auto`", "Least relevance of its sources, between 0 and 1; `auto` is 0.5, the calibrated threshold."},
			{"synonyms", "", "Synonyms for questions to policies with this base, beside theirs; as there."},
			{"engine", "`embedded`", "`embedded`; `vector_store` for a base kept by an upstream; `postgres` or `opensearch` for one in an engine that many Sidenotes share."},
			{"upstream", "", "Upstream that has the vector store."},
			{"id", "", "Id of the vector store."},
			{"url", "", "URL of the engine, `postgres://HOST:PORT/DATABASE` or `https://HOST:PORT`, or a list of them to try in order. Postgres is reached by TLS except on this machine; `sslmode=disable` or `sslmode=verify-full` behind it say otherwise. For a base in this process it is the same as `page`: `https://wiki/{path}`."},
			{"user", "", "User of the engine, required for Postgres."},
			{"password", "", "Password of that user; a file is read again for each connection."},
			{"api_key", "", "API key of an OpenSearch or Elasticsearch, instead of user and password."},
			{"tls", "", "Certificates of the connections to the engine; files are read again when they change."},
			{"tls.ca", "those of the system", "PEM file of trusted authorities."},
			{"tls.cert", "", "PEM file of the client certificate."},
			{"tls.key", "", "PEM file of its private key."},
			{"tls.server_name", "the host of `url`", "Name in the certificate of the engine."},
			{"connections", "4", "Most connections to the engine; bases with the same connection settings share them."},
			{"timeout", "`10s`", "Longest time for one call of the engine."},
			{"namespace", "`sidenote`", "Schema of Postgres, or prefix of the indexes of OpenSearch, that has the bases of Sidenote."},
			{"tenant_setting", "", "Setting of Postgres that holds the name of the tenant during a search, such as `app.tenant`, for row-level security."},
			{"table", "", "Table or view of Postgres that others write: `NAME` or `SCHEMA.NAME`. It is only read."},
			{"index", "", "Index or alias of OpenSearch that others write. It is only read."},
			{"columns", "", "Columns of `table`, or fields of `index`, named as they are there. A row is a document, or with `document` a chunk of one."},
			{"columns.id", "", "Id of the row."},
			{"columns.text", "", "Text that is searched and shown."},
			{"columns.title", "", "Title of the document."},
			{"columns.section", "", "Headings above the text."},
			{"columns.document", "", "Id of the document that the row is a chunk of."},
			{"columns.ordinal", "", "Number of the chunk in its document."},
			{"columns.url", "", "The attribute `url`."},
			{"columns.date", "", "The attribute `date`."},
			{"columns.attributes", "", "A JSON object with more attributes."},
			{"columns.attribute_columns", "", "Columns with one attribute each, by the name of the attribute."},
			{"columns.words", "that of `text`", "What is searched by words: a column of type `tsvector`, or an analyzed field."},
			{"columns.language", "that of the database", "Text search configuration of Postgres, such as `english`."},
			{"columns.vector", "", "Vectors of the texts, for search by meaning; needs `embeddings`."},
			{"columns.model", "", "Model of these vectors, which must be `embeddings.model`."},
			{"columns.dimensions", "those of `embeddings`", "Dimensions of these vectors."},
			{"columns.generation", "", "Column whose greatest value changes with every change, such as `updated_at`; without it the number of rows is compared."},
			{"columns.ttl", "`1m`", "How long results are cached without `generation`."},
		}},
		{"embeddings", "The service that turns texts of bases with `embed` into vectors.", []about{
			{"upstream", "`default`", "Name of an upstream, whose key is sent, or the base URL of a service without a key."},
			{"model", "", "Model name sent to the service."},
			{"dimensions", "those of the model", "Dimensions to request, from services that can shorten vectors."},
			{"query_prefix", "`auto`", "Text before each question: `auto` for what the model was trained with if known, `none`, or a text."},
			{"passage_prefix", "`auto`", "Text before each chunk: `auto`, `none` or a text, as for questions."},
			{"input_tokens", "the limit of the model, or 512", "Longest input; longer chunks are cut."},
			{"batch", "64", "Chunks per request."},
			{"tokens_per_day", "unlimited", "Most tokens of chunks embedded per day (UTC); the rest waits for the next day."},
		}},
	}
}
