package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy"
	"sidenote/proxy/transport"
	"sidenote/retrieval"
	"sidenote/retrieval/engine"
)

// EngineServer says how the engine of a base is reached, if that is a server.
type EngineServer struct {
	URL           engineURLs    `yaml:"url"` // tried in order
	User          Login         `yaml:"user"`
	Password      Secret        `yaml:"password"`
	APIKey        Secret        `yaml:"api_key"`
	TLS           EngineTLS     `yaml:"tls"`
	Connections   Count         `yaml:"connections" min:"1" max:"1k"` // absent: engineConnections
	Timeout       time.Duration `yaml:"timeout" min:"1ms" max:"10m"`  // of a call; absent: engineTimeout
	Namespace     namespace     `yaml:"namespace"`                    // the schema, or the prefix of the indexes
	TenantSetting setting       `yaml:"tenant_setting"`               // that holds the tenant during a search

	reach transport.OutboundOptions // built from TLS

	// These return the current content of the secrets; nil for none.
	password, apiKey func() string
}

// EngineTLS configures TLS connections to an engine.
type EngineTLS struct {
	CA         string `yaml:"ca"`          // file with the certificates that are trusted instead of the system's
	Cert       string `yaml:"cert"`        // file: the client certificate
	Key        string `yaml:"key"`         // file: the private key of Cert
	ServerName string `yaml:"server_name"` // in the server's certificate; absent: the host of the URL
}

// Mapped is a table or an index that others write.
type Mapped struct {
	Table   relation  `yaml:"table"`
	Index   indexName `yaml:"index"`
	Columns Columns   `yaml:"columns"`
}

// Columns are the columns of a table or the fields of an index, see engine.Mapping.
type Columns struct {
	ID               column            `yaml:"id" need:"true"`
	Text             column            `yaml:"text" need:"true"`
	Title            column            `yaml:"title"`
	Section          column            `yaml:"section"`
	Document         column            `yaml:"document"`
	Ordinal          column            `yaml:"ordinal"`
	URL              column            `yaml:"url"`
	Date             column            `yaml:"date"`
	Attributes       column            `yaml:"attributes"`
	AttributeColumns map[string]column `yaml:"attribute_columns"` // by attribute
	Words            column            `yaml:"words"`
	Language         relation          `yaml:"language"`
	Vector           column            `yaml:"vector"`
	Model            string            `yaml:"model"` // of the vectors
	Dimensions       Count             `yaml:"dimensions" min:"1" max:"4096"`
	Generation       column            `yaml:"generation"`
	TTL              time.Duration     `yaml:"ttl" min:"1s" max:"24h"` // absent: engineTTL
}

// The defaults of engines.
const (
	engineConnections = 4
	engineTimeout     = 10 * time.Second
	engineTTL         = time.Minute
	engineNamespace   = "sidenote"
)

// Remote reports whether the base is in a search engine elsewhere.
func (k Knowledge) Remote() bool { return k.Engine == EnginePostgres || k.Engine == EngineOpenSearch }

// source returns the table or index that others write; "" for none.
func (m Mapped) source() string { return cmp.Or(string(m.Table), string(m.Index)) }

// A Login is the name of a user, or the secret that holds it.
type Login struct{ Secret }

// SetPlain sets a name that is written in the file itself.
func (l *Login) SetPlain(text string) error {
	if strings.ContainsFunc(text, control) {
		return errors.New("holds a control character")
	}
	l.Value = proxy.NewSecret(text)
	return nil
}

// Shown returns where the name is read from, or the name if it is written in the file.
func (l Login) Shown() string { return cmp.Or(l.Secret.Shown(), l.Value.Reveal()) }

func control(r rune) bool { return r < ' ' || r == 0x7f }

// readEngines reads the secrets and certificates of engines.
func (c loader) readEngines(src Source) {
	for _, name := range sortedKeys(c.Knowledge) {
		k, key := c.Knowledge[name], "knowledge."+string(name)
		if !k.Remote() {
			continue
		}
		if text := c.secretText(src, key+".user", &k.User.Secret); text != "" {
			if err := k.User.SetPlain(text); err != nil {
				c.problem(key+".user", "%v", err)
			}
		}
		k.password = c.engineSecret(src, key+".password", &k.Password)
		k.apiKey = c.engineSecret(src, key+".api_key", &k.APIKey)
		certificates(c, src).Fill(&k.reach, key+".tls", k.TLS.CA, k.TLS.Cert, k.TLS.Key)
		c.Knowledge[name] = k
	}
}

// engineSecret reads a secret. It returns a function that reads its file again, as the secret may
// have been replaced; nil if there is none.
func (c loader) engineSecret(src Source, key string, s *Secret) func() string {
	text := c.secretText(src, key, s)
	if strings.ContainsFunc(text, control) {
		c.problem(key, "holds a line break or other control character")
		return nil
	}
	if text == "" {
		return nil
	}
	s.Value = proxy.NewSecret(text)
	if s.File == "" {
		return s.Value.Reveal
	}
	name := s.File
	return func() string {
		data, err := readAgain(c, src, key+".file", name)
		now := strings.TrimSpace(string(strictyaml.TrimBOM(data)))
		if err != nil || now == "" || strings.ContainsFunc(now, control) {
			return text // it is being replaced, or its host is gone
		}
		return now
	}
}

// EngineConnection returns how the engine of a base is reached. If TLS.ServerName is "", the
// server's certificate must name the host of the URL that is used.
func (c *Config) EngineConnection(name Name) engine.Connection {
	k := c.Knowledge[name]
	out := engine.Connection{
		User: k.User.Value.Reveal(), Password: k.password, APIKey: k.apiKey, Dial: k.reach.DialContext,
		Most: int(cmp.Or(k.Connections, engineConnections)), Timeout: cmp.Or(k.Timeout, engineTimeout),
		TenantAs: string(k.TenantSetting), Namespace: cmp.Or(string(k.Namespace), engineNamespace),
	}
	for _, other := range c.Engines(name) {
		out.Vectors = out.Vectors || c.Knowledge[other].embedsQuestions() && embeds(c)
	}
	var hosts []string
	for _, u := range k.URL {
		out.URL = append(out.URL, u.plain())
		hosts = append(hosts, u.Hostname())
	}
	switch {
	case !k.URL.secure(k.TLS != EngineTLS{}):
	case k.TLS.ServerName != "":
		out.TLS = k.reach.TLS(k.TLS.ServerName)
	default:
		out.TLS = k.reach.TLSAmong(hosts)
	}
	return out
}

// EngineKey identifies the engine of a base and how it is reached: bases with equal keys share one
// engine.Server. It is "" for a base that is in no engine elsewhere.
func (c *Config) EngineKey(name Name) string {
	k := c.Knowledge[name]
	if !k.Remote() {
		return ""
	}
	parts := []string{k.Engine}
	for _, u := range k.URL {
		parts = append(parts, u.String())
	}
	for _, s := range []strictyaml.ShownKey{k.User, k.Password, k.APIKey} {
		parts = append(parts, s.Shown())
	}
	parts = append(parts, k.TLS.CA, k.TLS.Cert, k.TLS.Key, k.TLS.ServerName, strconv.Itoa(int(cmp.Or(k.Connections, engineConnections))),
		cmp.Or(k.Timeout, engineTimeout).String(), cmp.Or(string(k.Namespace), engineNamespace), string(k.TenantSetting))
	return fmt.Sprintf("%q", parts)
}

// EngineMapping returns the mapping of a base that is a table or an index which others write; ok is
// false for other bases.
func (c *Config) EngineMapping(name Name) (m engine.Mapping, ok bool) {
	k := c.Knowledge[name]
	of := k.Columns
	if k.source() == "" {
		return engine.Mapping{}, false
	}
	m = engine.Mapping{
		Table: k.source(), ID: string(of.ID), Text: string(of.Text), Title: string(of.Title), Section: string(of.Section),
		Document: string(of.Document), Ordinal: string(of.Ordinal), URL: string(of.URL), Date: string(of.Date),
		Attributes: string(of.Attributes), Lexemes: string(of.Words), Language: string(of.Language),
		Vector: string(of.Vector), Generation: string(of.Generation),
	}
	for attribute, from := range of.AttributeColumns {
		if m.AttributeColumns == nil {
			m.AttributeColumns = map[string]string{}
		}
		m.AttributeColumns[attribute] = string(from)
	}
	if of.Vector != "" {
		m.Space = retrieval.Space{Model: c.Embeddings.Model, Dimensions: int(c.Embeddings.Dimensions)}.String()
		m.Dimensions = int(cmp.Or(of.Dimensions, c.Embeddings.Dimensions))
	}
	if of.Generation == "" {
		m.TTL = cmp.Or(of.TTL, engineTTL)
	}
	return m, true
}

// EnginePlace describes the engine of a base, for people.
func (c *Config) EnginePlace(name Name) string {
	k := c.Knowledge[name]
	return k.Engine + " at " + strings.Join(k.URL.addresses(), ", ")
}

// EngineText describes where an engine keeps a base and who writes it, for people.
func (c *Config) EngineText(name Name) string {
	k := c.Knowledge[name]
	text := c.EnginePlace(name)
	if from := k.source(); from != "" {
		text = fmt.Sprintf("%s %s of %s", k.sourceKey(), from, text)
	}
	switch {
	case k.source() != "":
		text += ", only read"
	case k.Path == "":
		text += ", written by others"
	default:
		text += ", from " + k.Path
	}
	return text
}

// sourceKey returns the key that names what others write.
func (k Knowledge) sourceKey() string {
	if k.Engine == EngineOpenSearch {
		return "index"
	}
	return "table"
}

// Engines lists the bases that share an engine with a base, itself among them, sorted by name.
func (c *Config) Engines(name Name) []Name {
	key := c.EngineKey(name)
	return slices.DeleteFunc(c.KnowledgeNames(), func(other Name) bool { return key == "" || c.EngineKey(other) != key })
}

// embedsQuestions reports whether questions to a base are to be embedded.
func (k Knowledge) embedsQuestions() bool { return k.Embed || k.Columns.Vector != "" }

// QuestionsEmbedded lists the bases whose questions are sent to the embedding service, sorted by
// name: those with embed, and tables and indexes with vectors.
func QuestionsEmbedded(c *Config) (names []Name) {
	for _, name := range sortedKeys(c.Knowledge) {
		if c.Knowledge[name].embedsQuestions() && embeds(c) {
			names = append(names, name)
		}
	}
	return names
}

// address returns host and path of a URL, for people.
func address(u *url.URL) string { return strings.TrimSuffix(u.Host+u.Path, "/") }
