// Package config reads and checks the configuration: its files, defaults, flags, policies, keys of
// callers and secrets. It compares two configurations, and describes all keys as JSON Schema and as
// the page CONFIG.md.
package config

import (
	"crypto/tls"
	"fmt"
	"slices"
	"time"

	"sidenote/cache/redis"
	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy"
	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/retrieval"
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
	Proxies       []network     `yaml:"trusted_proxies"` // peers whose X-Forwarded-For names the client in the log
	State         State         `yaml:"state"`
	Cache         Cache         `yaml:"cache"`
	Explain       Explain       `yaml:"explain"`
	Audit         Audit         `yaml:"audit"`
	Redis         Redis         `yaml:"redis"`
	Embeddings    Embeddings    `yaml:"embeddings"`
	Budgets       Budgets       `yaml:"budgets"`
	ModelsFile    File          `yaml:"models_file"` // rows between models and the built-in ones
	Prices        []priceRow    `yaml:"prices"`      // first match wins; none are built in
	Concurrency   Count         `yaml:"concurrency" min:"1" max:"1M"`
	Connections   Count         `yaml:"connections" min:"1" max:"1M"`                 // from clients; absent: what the limit of open files allows, at most 16k
	PerAddress    Count         `yaml:"max_connections_per_address" min:"1" max:"1M"` // per client address, on the data ports and the MCP port; absent: no limit
	Timeouts      Timeouts      `yaml:"timeouts"`
	Ready         string        `yaml:"ready" of:"listening|knowledge"` // when /readyz first answers 200
	ShutdownGrace time.Duration `yaml:"shutdown_grace" min:"1ms" max:"1h"`
	ShutdownDelay time.Duration `yaml:"shutdown_delay" min:"0s" max:"1h"` // part of the grace, before the port closes
	Include       []Include     `yaml:"include"`
	Catalog

	tenants    map[Name]*tenant.Policy // their resolved policies; without configured tenants there is one, "default"
	unknown    *tenant.Policy          // policy of callers without a known key; nil: they are refused
	places     strictyaml.Marks
	delegated  map[string]int // index of the include that brought a file
	problems   strictyaml.Problems
	files      []string                       // in reading order
	recordKeys map[Name]Secret                // of records, by the policy that names them
	synonyms   map[string]*retrieval.Synonyms // by the value of Retrieval.Synonyms or Knowledge.Synonyms
	env        func(name string) (string, bool)
	home       string // the user's home; "" if unknown
	fields     strictyaml.Cache
	service    Upstream                     // of Embeddings, if given as a URL
	served     map[string][]tls.Certificate // certificates of ports, by their keys in the configuration
}

// Catalog is the part that included files may add to.
type Catalog struct {
	Upstreams map[Name]Upstream `yaml:"upstreams"`
	Models    []ModelRow        `yaml:"models"`
	Knowledge Bases             `yaml:"knowledge"`
	Policies  map[Name]Policy   `yaml:"policies"` // with what they extend
	Tenants   map[Name]Tenant   `yaml:"tenants"`
}

// State is the folder that keeps the embedded bases.
type State struct {
	Path   string `yaml:"path"`   // in a file: relative to it; StateMemory: bases are not kept
	Follow bool   `yaml:"follow"` // another process writes it; this one only reads

	// Default says that Path was not configured: if it cannot be created, memory is used.
	Default bool `yaml:"-"`
}

// StateMemory is the State.Path of a state in memory, which is lost at the end of the process.
const StateMemory = ":memory:"

// Admin is the listener for operators.
type Admin struct {
	Listen    Address      `yaml:"listen"`
	TLS       TLS          `yaml:"tls"`
	Token     Secret       `yaml:"token"`
	ReadToken Secret       `yaml:"read_token"` // for everything that changes nothing
	Tokens    []AdminToken `yaml:"tokens"`
}

// Audit says where a line is written for each change; the zero Audit writes none.
type Audit struct {
	File   string `yaml:"file"`
	Stderr bool   `yaml:"-"` // with the log
}

// auditStderr is the text of an Audit to the log.
const auditStderr = "stderr"

// SetPlain sets an Audit that is one word.
func (a *Audit) SetPlain(text string) error {
	if text != auditStderr {
		return fmt.Errorf("%q is not %s; write {file: PATH} for a file", text, auditStderr)
	}
	a.Stderr = true
	return nil
}

// Shown returns where lines are written, "" for nowhere.
func (a Audit) Shown() string {
	if a.Stderr {
		return auditStderr
	}
	return a.File
}

// Telemetry configures metrics, probes and the log.
type Telemetry struct {
	Listen Address `yaml:"listen"`
	TLS    TLS     `yaml:"tls"`
	Log    Log     `yaml:"log"`
	Traces Traces  `yaml:"traces"`

	Tenants          TenantSeries `yaml:"tenants"`
	NativeHistograms bool         `yaml:"native_histograms"`
}

// TenantSeries says which tenants have metrics of their own: all, none, or the busiest.
type TenantSeries struct {
	Series string `yaml:"series" of:"all|off"`
	Top    Count  `yaml:"top" min:"1" max:"100k"`
}

// MCP is the listener for clients of the Model Context Protocol.
type MCP struct {
	Listen Address `yaml:"listen"`
	Tenant Name    `yaml:"tenant"` // of every caller on this port, whatever it sends; absent: as identity says
	TLS    TLS     `yaml:"tls"`
}

// Port returns the listener with its settings.
func (m MCP) Port() Listener { return Listener{Address: m.Listen, Tenant: m.Tenant, TLS: m.TLS} }

// CallerPorts returns the ports whose callers are tenants: the data ports and the MCP port.
func (c *Config) CallerPorts() Ports {
	if c.MCP.Listen == Off {
		return c.Listen
	}
	return append(slices.Clone(c.Listen), c.MCP.Port())
}

// Log configures the log.
type Log struct {
	Format   string `yaml:"format" of:"auto|text|json"`
	Requests string `yaml:"requests" of:"all|errors|none"`
}

// Traces configures the spans of requests, which are sent where the environment says.
type Traces struct {
	Texts bool `yaml:"texts"` // spans hold questions, prompts, answers and sources
}

// An Upstream is an OpenAI-style API.
type Upstream struct {
	BaseURL   baseURLs `yaml:"base_url" need:"true"`
	APIKey    Secret   `yaml:"api_key"`
	KeyHeader string   `yaml:"key_header" of:"auto|authorization|api-key|x-api-key"` // that has APIKey
	CA        string   `yaml:"ca"`                                                   // file with the certificates that are trusted instead of the system's
	Cert      string   `yaml:"cert"`                                                 // file: the client certificate
	Key       string   `yaml:"key"`                                                  // file: the private key of Cert
	Proxy     ProxyURL `yaml:"proxy"`                                                // through which it is reached; absent: as HTTPS_PROXY says

	Calibrate    string `yaml:"calibrate" of:"usage|count_tokens"` // what token counts are compared with
	IncludeUsage string `yaml:"include_usage" of:"auto|off"`       // whether metered streams ask for their usage; off: the upstream refuses stream_options

	PromptCache string `yaml:"prompt_cache" of:"auto|none|prefix|breakpoints|cache_control"` // how it caches prompts; auto: as it is known of the model

	Timeouts UpstreamTimeouts `yaml:"timeouts"`

	// Built from the above.
	Dial   transport.OutboundOptions `yaml:"-"` // of the first base URL
	Others []proxy.UpstreamBase      `yaml:"-"`
}

// UpstreamTimeouts replace those of Timeouts for one upstream; 0 does not.
type UpstreamTimeouts struct {
	Connect   time.Duration `yaml:"connect" min:"1ms" max:"1h"`
	FirstByte time.Duration `yaml:"first_byte" min:"1ms" max:"24h"`
	Idle      time.Duration `yaml:"idle" min:"1ms" max:"24h"`
}

// A Secret names the variable or file that holds a secret; a configuration never contains secrets.
type Secret struct {
	Env  string `yaml:"env"`
	File string `yaml:"file"`

	// Value is the secret. It is exported because fmt honours the formatting methods of exported
	// fields only.
	Value proxy.Secret `yaml:"-"`
}

// Identity says which callers are accepted, and as which tenant.
type Identity struct {
	Unknown Name     `yaml:"unknown"` // "refuse", or the tenant of callers without a known key
	Origins []origin `yaml:"origins"` // web pages that may send requests without a key
	Hosts   []host   `yaml:"hosts"`   // names by which callers without a key may address this machine
	Open    bool     `yaml:"open"`    // callers without a key may be on other machines

	JWT    map[Name]Issuer `yaml:"jwt"` // issuers of tokens that name tenants
	Header Header          `yaml:"header"`
}

// refuse is the Identity.Unknown that refuses callers without a known key.
const refuse = Name("refuse")

// A Tenant is a group of callers with one policy.
type Tenant struct {
	Keys      []Key           `yaml:"keys"`
	JWT       map[Name]Claims `yaml:"jwt"`       // by issuer: the claims that name this tenant
	Policy    Name            `yaml:"policy"`    // "default" if absent
	Knowledge []Name          `yaml:"knowledge"` // replaces the policy's

	// Filters are combined with the policy's, so a tenant never sees more than its policy allows.
	// (Between policies, extends replaces filters as it does all lists.)
	Filters []Filter `yaml:"filters"`

	// Models narrow the policy's: both must allow a model.
	Models []modelPattern `yaml:"models"`

	// Limits narrow the policy's: in each window the lower one applies.
	Limits Limits `yaml:"limits"`
}

// A Key is the digest of an API key.
type Key struct {
	SHA256    Digest `yaml:"sha256" need:"true"`
	Name      Name   `yaml:"name"`       // for the log and lists; unique in the tenant
	NotBefore Date   `yaml:"not_before"` // first valid day (UTC)
	Expires   Date   `yaml:"expires"`    // last valid day
}

// Cache is the cache in this process.
type Cache struct {
	Memory   Bytes         `yaml:"memory" min:"1MiB" max:"1024GiB"`
	TTL      time.Duration `yaml:"ttl" min:"1s" max:"720h"`
	EmptyTTL time.Duration `yaml:"empty_ttl" min:"1s" max:"720h"`
}

// Explain says what is kept in memory of the most recent requests.
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
	CA             string        `yaml:"ca"`              // file of certificates; in a file: relative to it
	EncryptionKeys Secret        `yaml:"encryption_keys"` // lines of ID BASE64, see cache.ParseKeys

	CAPEM []byte `yaml:"-"` // content of CA
}

// Budgets says where usage is counted.
type Budgets struct {
	BudgetLimits `yaml:",inline"`
	Redis        BudgetsRedis `yaml:"redis"`
}

// BudgetsRedis is the Redis that counts budgets; without a URL it is that of the cache.
type BudgetsRedis struct {
	URL     RedisURL      `yaml:"url"`
	Timeout time.Duration `yaml:"timeout" min:"1ms" max:"1m"` // of a call, including connecting and a second attempt
}

// A RedisURL is treated as a secret because it may hold a password.
type RedisURL struct{ Secret }

// Timeouts are the configurable fields of proxy.Timeouts.
type Timeouts struct {
	Connect     time.Duration `yaml:"connect" min:"1ms" max:"1h"`
	FirstByte   time.Duration `yaml:"first_byte" min:"1ms" max:"24h"`
	Idle        time.Duration `yaml:"idle" min:"1ms" max:"24h"`
	ClientWrite time.Duration `yaml:"client_write" min:"1ms" max:"24h"`
}

// ReadyKnowledge is the value of Ready with which /readyz answers 503 until every base has been
// open once.
const ReadyKnowledge = "knowledge"

// Default returns the configuration without files and flags. It lacks an upstream, so it does not
// pass Load.
func Default() Config {
	t := proxy.DefaultTimeouts()
	return Config{
		Version:       1,
		Listen:        Ports{{Address: "127.0.0.1:8080"}},
		Admin:         Admin{Listen: "127.0.0.1:8081"},
		Telemetry:     Telemetry{Listen: Off, Log: Log{Format: "auto", Requests: "all"}, Tenants: TenantSeries{Series: "all"}},
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
