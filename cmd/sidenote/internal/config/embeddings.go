package config

import (
	"cmp"
	"strings"

	"sidenote/retrieval/services"
)

// Embeddings configures the service that embeds texts. Only texts of bases with embed: true, and
// questions to them, are sent to it.
type Embeddings struct {
	Upstream   Service `yaml:"upstream"` // "default" if absent
	Model      string  `yaml:"model" need:"true"`
	Dimensions Count   `yaml:"dimensions" min:"1" max:"4096"` // requested; absent: the model's own

	QueryPrefix   InputPrefix `yaml:"query_prefix"`
	PassagePrefix InputPrefix `yaml:"passage_prefix"`
	InputTokens   Count       `yaml:"input_tokens" min:"1" max:"100k"`       // absent: what the model accepts
	Batch         Count       `yaml:"batch" min:"1" max:"2048"`              // passages per request
	TokensPerDay  Count       `yaml:"tokens_per_day" min:"1" max:"1000000M"` // of passages; absent: no limit
}

// A Service is the name of an upstream, or the base URL of one that needs no key.
type Service struct {
	Name Name
	URL  baseURL
}

// UnmarshalText takes a text with a colon for a URL.
func (s *Service) UnmarshalText(text []byte) error {
	if strings.Contains(string(text), ":") {
		return s.URL.UnmarshalText(text)
	}
	return s.Name.UnmarshalText(text)
}

// MarshalText is the inverse of UnmarshalText.
func (s Service) MarshalText() ([]byte, error) {
	if s.URL.URL != nil {
		return s.URL.MarshalText()
	}
	return []byte(s.Name), nil
}

// An InputPrefix is put before texts to embed.
type InputPrefix string

// The prefixes with a special meaning.
const (
	prefixAuto = InputPrefix("auto") // the one the model was trained with
	prefixNone = InputPrefix("none")
)

// text returns the prefix, or nil for that of the model.
func (p InputPrefix) text() *string {
	if p == prefixAuto {
		return nil
	}
	text := string(p)
	if p == prefixNone {
		text = ""
	}
	return &text
}

const embeddingsKey = "embeddings"

// embeds reports whether the configuration has an embedding service.
func embeds(c *Config) bool {
	_, written := c.places[embeddingsKey]
	return written
}

// readEmbeddings reads the connection settings of a service that is given by its URL.
func (c loader) readEmbeddings(src Source) {
	if c.Embeddings.Upstream.URL.URL != nil {
		c.service.BaseURL = baseURLs{baseURL: c.Embeddings.Upstream.URL}
		c.readUpstream(src, embeddingsKey+".upstream", &c.service)
	}
}

// checkEmbeddings refuses an undefined service, and embedded bases without a service.
func (c checker) checkEmbeddings() {
	key := embeddingsKey + ".upstream"
	switch {
	case !embeds(c.Config):
	case c.service.BaseURL.URL != nil:
		c.checkOwnAddress(key, c.service)
	default:
		name := cmp.Or(c.Embeddings.Upstream.Name, defaultName)
		if _, ok := c.upstreams()[name]; !ok && c.Embeddings.Upstream.Name == "" {
			c.problem(key, "is missing; name one of upstreams, or write the base URL of a service without a key")
		} else {
			known(c.Config, key, "upstream", name, c.upstreams())
		}
	}
	for _, name := range sortedKeys(c.Knowledge) {
		key := "knowledge." + string(name) + ".embed"
		if !c.Knowledge[name].Embed || c.Knowledge[name].Engine == EngineVectorStore {
			continue
		}
		if !embeds(c.Config) {
			c.problem(key, "goes with embeddings, and there are none; write embeddings: {upstream: NAME, model: MODEL}")
		}
		if !c.may(key, mayEmbed) {
			c.forbidden(key, mayEmbed, "its texts would go to the service of %s", c.Place(embeddingsKey).File)
		}
	}
}

// EmbeddingsUpstream returns the name or URL of the embedding service, for people, and whether
// there is one.
func EmbeddingsUpstream(c *Config) (shown string, ok bool) {
	if c.service.BaseURL.URL != nil {
		return c.service.BaseURL.String(), embeds(c)
	}
	return string(cmp.Or(c.Embeddings.Upstream.Name, defaultName)), embeds(c)
}

// Embedded lists the bases whose vectors are in the state folder, sorted by name.
func Embedded(c *Config) (names []Name) {
	for _, name := range sortedKeys(c.Knowledge) {
		if k := c.Knowledge[name]; k.Embed && !k.Remote() && embeds(c) {
			names = append(names, name)
		}
	}
	return names
}

// EmbeddedElsewhere lists the bases in engines whose folders are embedded here, sorted by name.
func EmbeddedElsewhere(c *Config) (names []Name) {
	for _, name := range sortedKeys(c.Knowledge) {
		if k := c.Knowledge[name]; k.Embed && k.Remote() && k.Path != "" && embeds(c) {
			names = append(names, name)
		}
	}
	return names
}

// Embedder returns the options of the embedding client, without the counter and the callbacks. Its
// BaseURL is nil if there is no service.
func Embedder(c *Config) services.EmbedOptions {
	if !embeds(c) {
		return services.EmbedOptions{}
	}
	e, u := c.Embeddings, c.service
	if u.BaseURL.URL == nil {
		u = c.upstreams()[cmp.Or(e.Upstream.Name, defaultName)]
	}
	return services.EmbedOptions{
		BaseURL: u.BaseURL.URL, Key: u.APIKey.Value.Reveal, Dial: u.Dial.DialContext, TLS: u.Dial.TLS(u.BaseURL.Hostname()), Others: ServiceBases(u.Others),
		Model: e.Model, Dimensions: int(e.Dimensions), QueryPrefix: e.QueryPrefix.text(), PassagePrefix: e.PassagePrefix.text(),
		InputTokens: int(e.InputTokens), Batch: int(e.Batch),
	}
}
