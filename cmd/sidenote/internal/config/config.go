// Package config reads and checks the configuration: its files, defaults, flags, policies, keys of
// callers and secrets. It compares two configurations, and describes all keys as JSON Schema and as
// the page CONFIG.md.
package config

import (
	"crypto/tls"
	"slices"
	"time"

	"sidenote/cache/redis"
	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy"
	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/retrieval/services"
)

// A Config is a whole configuration, checked, with defaults filled in.
type Config struct {
	Version       int           `yaml:"version" min:"1" max:"1"`
	Listen        Ports         `yaml:"listen"`
	Admin         Admin         `yaml:"admin"`
	Telemetry     Telemetry     `yaml:"telemetry"`
	MCP           MCP           `yaml:"mcp"`
	Upstream      Upstream      `yaml:"upstream"` // the one named "default"
	Identity      Identity      `yaml:"identity"`
	Proxies       []network     `yaml:"trusted_proxies"` // whose X-Forwarded-For tells the addresses of clients, for the log
	State         State         `yaml:"state"`
	Cache         Cache         `yaml:"cache"`
	Explain       Explain       `yaml:"explain"`
	Redis         Redis         `yaml:"redis"`
	Embeddings    Embeddings    `yaml:"embeddings"`
	Budgets       Budgets       `yaml:"budgets"`
	ModelsFile    File          `yaml:"models_file"` // rows between those of models and the built-in ones
	Prices        []priceRow    `yaml:"prices"`      // first match wins; none are built in
	Concurrency   Count         `yaml:"concurrency" min:"1" max:"1M"`
	Connections   Count         `yaml:"connections" min:"1" max:"1M"`                 // of clients; absent: what the limit of open files allows, and at most 16k
	PerAddress    Count         `yaml:"max_connections_per_address" min:"1" max:"1M"` // of clients, on the data ports and that of MCP; absent: any number
	Timeouts      Timeouts      `yaml:"timeouts"`
	Ready         string        `yaml:"ready" of:"listening|knowledge"` // when /readyz begins to answer 200
	ShutdownGrace time.Duration `yaml:"shutdown_grace" min:"1ms" max:"1h"`
	ShutdownDelay time.Duration `yaml:"shutdown_delay" min:"0s" max:"1h"` // of the grace, before the port closes
	Include       []Include     `yaml:"include"`
	Catalog

	tenants   map[Name]*tenant.Policy // what each gets; without any configured there is one, "default"
	unknown   *tenant.Policy          // what callers get that no key names; nil: they are refused
	places    strictyaml.Marks
	delegated map[string]int // by which include a file came
	problems  strictyaml.Problems
	files     []string // in the order in which they were read
	env       func(name string) (string, bool)
	home      string // of the user; "" if nobody knows
	fields    strictyaml.Cache
	service   Upstream                     // of Embeddings, where it is named by its URL
	served    map[string][]tls.Certificate // of ports, by their keys in the configuration
}

// Catalog is the part that included files may add to.
type Catalog struct {
	Upstreams map[Name]Upstream `yaml:"upstreams"`
	Models    []ModelRow        `yaml:"models"`
	Knowledge Bases             `yaml:"knowledge"`
	Policies  map[Name]Policy   `yaml:"policies"` // with what they extend
	Tenants   map[Name]Tenant   `yaml:"tenants"`
}

// State is the folder in which the embedded bases are kept.
type State struct {
	Path   string `yaml:"path"`   // in a file: relative to it; StateMemory: they are not kept
	Follow bool   `yaml:"follow"` // another process writes it; this one answers from what it finds

	// Default says that nobody configured Path: where it cannot be made, memory will do.
	Default bool `yaml:"-"`
}

// StateMemory is the State.Path of a state in memory, which ends with the process.
const StateMemory = ":memory:"

// Admin is the listener for people who run Sidenote.
type Admin struct {
	Listen    Address `yaml:"listen"`
	TLS       TLS     `yaml:"tls"`
	Token     Secret  `yaml:"token"`
	ReadToken Secret  `yaml:"read_token"` // for those who only search, such as replicas
}

// Telemetry is what others may watch.
type Telemetry struct {
	Listen Address `yaml:"listen"`
	TLS    TLS     `yaml:"tls"`
	Log    Log     `yaml:"log"`
}

// MCP is the listener for clients of the Model Context Protocol.
type MCP struct {
	Listen Address `yaml:"listen"`
	Tenant Name    `yaml:"tenant"` // that each caller of this port is, whatever it sends; absent: as identity says
	TLS    TLS     `yaml:"tls"`
}

// Port is the listener with its settings.
func (m MCP) Port() Listener { return Listener{Address: m.Listen, Tenant: m.Tenant, TLS: m.TLS} }

// CallerPorts are the ports whose callers are tenants: the data ports, and that of MCP.
func (c *Config) CallerPorts() Ports {
	if c.MCP.Listen == Off {
		return c.Listen
	}
	return append(slices.Clone(c.Listen), c.MCP.Port())
}

// Log says what is logged, and how.
type Log struct {
	Format   string `yaml:"format" of:"auto|text|json"`
	Requests string `yaml:"requests" of:"all|errors|none"`
}

// An Upstream is an OpenAI-style API.
type Upstream struct {
	BaseURL baseURL  `yaml:"base_url" need:"true"`
	APIKey  Secret   `yaml:"api_key"`
	CA      string   `yaml:"ca"`    // a file of certificates that are trusted instead of the system's
	Cert    string   `yaml:"cert"`  // a file: shown where a certificate is asked for
	Key     string   `yaml:"key"`   // a file: the key of Cert
	Proxy   ProxyURL `yaml:"proxy"` // through which it is reached; absent: as HTTPS_PROXY says

	IncludeUsage string `yaml:"include_usage" of:"auto|off"` // whether metered streams are asked to tell what they used; off: it refuses stream_options

	Dial transport.OutboundOptions `yaml:"-"` // made of the above
}

// A Secret names the variable or file that holds a secret; a configuration never holds its
// text.
type Secret struct {
	Env  string `yaml:"env"`
	File string `yaml:"file"`

	// Value is what was read there. It is exported because fmt asks only
	// exported fields how they want to be printed.
	Value proxy.Secret `yaml:"-"`
}

// Identity says which callers are let in, and as which tenant.
type Identity struct {
	Unknown Name     `yaml:"unknown"` // "refuse", or the tenant of callers that no key names
	Origins []origin `yaml:"origins"` // of web pages that may ask without a key
	Hosts   []host   `yaml:"hosts"`   // by which callers without a key may call this machine
	Open    bool     `yaml:"open"`    // callers without a key may come from other machines

	JWT    map[Name]Issuer `yaml:"jwt"` // of tokens that name tenants
	Header Header          `yaml:"header"`
}

// refuse is the Identity.Unknown that lets nobody in without a key.
const refuse = Name("refuse")

// A Tenant is a group of callers with one policy.
type Tenant struct {
	Keys      []Key           `yaml:"keys"`
	JWT       map[Name]Claims `yaml:"jwt"`       // by issuer: the claims of its tokens that name this tenant
	Policy    Name            `yaml:"policy"`    // "default" when absent
	Knowledge []Name          `yaml:"knowledge"` // instead of the policy's

	// Filters are added to the policy's, so a tenant never sees more than its policy shows.
	// (Between policies, extends replaces filters as it does all lists.)
	Filters []Filter `yaml:"filters"`

	// Models narrow the policy's: a request may name what both allow.
	Models []modelPattern `yaml:"models"`

	// Limits narrow the policy's: of each window the lower one counts.
	Limits Limits `yaml:"limits"`
}

// A Key is the digest of an API key.
type Key struct {
	SHA256    Digest `yaml:"sha256" need:"true"`
	Name      Name   `yaml:"name"`       // for the log and lists; of this tenant
	NotBefore Date   `yaml:"not_before"` // the first day (UTC) on which it is valid
	Expires   Date   `yaml:"expires"`    // the last
}

// Cache is the cache in this process.
type Cache struct {
	Memory   Bytes         `yaml:"memory" min:"1MiB" max:"1024GiB"`
	TTL      time.Duration `yaml:"ttl" min:"1s" max:"720h"`
	EmptyTTL time.Duration `yaml:"empty_ttl" min:"1s" max:"720h"`
}

// Explain says what is kept in memory of the last requests.
type Explain struct {
	Keep   Count          `yaml:"keep" min:"0" max:"100k"` // reports
	Bodies explain.Bodies `yaml:"bodies" of:"off|redacted|full"`
}

// Redis is the cache that replicas share; without a URL there is none.
type Redis struct {
	URL            RedisURL      `yaml:"url"`
	Timeout        time.Duration `yaml:"timeout" min:"1ms" max:"10s"`
	Prefix         Prefix        `yaml:"prefix"`
	TTL            time.Duration `yaml:"ttl" min:"1s" max:"720h"`
	PoolSize       Count         `yaml:"pool_size" min:"1" max:"10k"`
	CA             string        `yaml:"ca"`              // a file of certificates; in a file: relative to it
	EncryptionKeys Secret        `yaml:"encryption_keys"` // lines of ID BASE64, see cache.ParseKeys

	CAPEM []byte `yaml:"-"` // what was read from CA
}

// Budgets says where it is counted what tenants use.
type Budgets struct {
	BudgetLimits `yaml:",inline"`
	Redis        BudgetsRedis `yaml:"redis"`
}

// BudgetsRedis is the Redis that budgets are counted in: without a URL that of the cache.
type BudgetsRedis struct {
	URL     RedisURL      `yaml:"url"`
	Timeout time.Duration `yaml:"timeout" min:"1ms" max:"1m"` // of a call, connecting and a second attempt included
}

// A RedisURL may hold a password, and is a secret then.
type RedisURL struct{ Secret }

// Timeouts are those of proxy.Timeouts that people may set.
type Timeouts struct {
	Connect     time.Duration `yaml:"connect" min:"1ms" max:"1h"`
	FirstByte   time.Duration `yaml:"first_byte" min:"1ms" max:"24h"`
	Idle        time.Duration `yaml:"idle" min:"1ms" max:"24h"`
	ClientWrite time.Duration `yaml:"client_write" min:"1ms" max:"24h"`
}

// ReadyKnowledge is the value of Ready with which /readyz answers 503 until every base was opened
// once.
const ReadyKnowledge = "knowledge"

// Default is the configuration without any file or flag. It lacks an upstream, so it does
// not pass Load.
func Default() Config {
	t := proxy.DefaultTimeouts()
	return Config{
		Version:       1,
		Listen:        Ports{{Address: "127.0.0.1:8080"}},
		Admin:         Admin{Listen: "127.0.0.1:8081"},
		Telemetry:     Telemetry{Listen: Off, Log: Log{Format: "auto", Requests: "all"}},
		MCP:           MCP{Listen: Off},
		Cache:         Cache{Memory: 64 << 20, TTL: 10 * time.Minute, EmptyTTL: 30 * time.Second},
		Explain:       Explain{Keep: 1000, Bodies: explain.BodiesOff},
		Embeddings:    Embeddings{QueryPrefix: prefixAuto, PassagePrefix: prefixAuto, Batch: services.DefaultEmbedBatch},
		Redis:         Redis{Timeout: redis.DefaultTimeout, Prefix: redis.DefaultPrefix, TTL: time.Hour},
		Budgets:       Budgets{BudgetLimits: BudgetLimits{Store: "auto", OnFailure: "fail_closed", OnRollback: "correct", Replicas: 1}, Redis: BudgetsRedis{Timeout: time.Second}},
		Concurrency:   1024,
		Timeouts:      Timeouts{Connect: t.Connect, FirstByte: t.FirstByte, Idle: t.Idle, ClientWrite: t.ClientWrite},
		Ready:         "listening",
		ShutdownGrace: 25 * time.Second,
	}
}
