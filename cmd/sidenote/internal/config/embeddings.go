package config

import (
	"cmp"
	"strings"

	"sidenote/retrieval/services"
)

// Embeddings says which service turns texts into vectors. Only texts of bases that say embed
// are sent to it, and questions to those.
type Embeddings struct {
	Upstream   Service `yaml:"upstream"` // "default" where absent
	Model      string  `yaml:"model" need:"true"`
	Dimensions Count   `yaml:"dimensions" min:"1" max:"4096"` // asked for; absent: as many as the model has

	QueryPrefix   InputPrefix `yaml:"query_prefix"`
	PassagePrefix InputPrefix `yaml:"passage_prefix"`
	InputTokens   Count       `yaml:"input_tokens" min:"1" max:"100k"`       // absent: what the model reads
	Batch         Count       `yaml:"batch" min:"1" max:"2048"`              // passages of a request
	TokensPerDay  Count       `yaml:"tokens_per_day" min:"1" max:"1000000M"` // of passages; absent: no limit
}

// A Service is the name of an upstream, or the base URL of one that takes no key.
type Service struct {
	Name Name
	URL  baseURL
}

// UnmarshalText takes what holds a colon for a URL.
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

// An InputPrefix stands before what is embedded.
type InputPrefix string

// The prefixes that are words of their own.
const (
	prefixAuto = InputPrefix("auto") // the one that the model was trained with
	prefixNone = InputPrefix("none")
)

// text is nil for the prefix of the model.
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

// embeds tells whether the configuration has a service for embeddings.
func embeds(c *Config) bool {
	_, written := c.places[embeddingsKey]
	return written
}

// readEmbeddings reads what reaches a service that is no upstream of others.
func (c loader) readEmbeddings(src Source) {
	if c.Embeddings.Upstream.URL.URL != nil {
		c.service.BaseURL = c.Embeddings.Upstream.URL
		c.readUpstream(src, embeddingsKey+".upstream", &c.service)
	}
}

// checkEmbeddings refuses a service that nobody defined, and bases that need one.
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
		if !c.Knowledge[name].Embed || c.Knowledge[name].Engine != EngineEmbedded {
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

// EmbeddingsUpstream returns where texts go to be embedded, as it is shown to people, and
// whether they do.
func EmbeddingsUpstream(c *Config) (shown string, ok bool) {
	if c.service.BaseURL.URL != nil {
		return c.service.BaseURL.String(), embeds(c)
	}
	return string(cmp.Or(c.Embeddings.Upstream.Name, defaultName)), embeds(c)
}

// Embedded lists the bases whose texts are embedded, by name.
func Embedded(c *Config) (names []Name) {
	for _, name := range sortedKeys(c.Knowledge) {
		if c.Knowledge[name].Embed && embeds(c) {
			names = append(names, name)
		}
	}
	return names
}

// Embedder has the options of the client of embeddings, without the counter and the callbacks.
// Its BaseURL is nil where there is none.
func Embedder(c *Config) services.EmbedOptions {
	if !embeds(c) {
		return services.EmbedOptions{}
	}
	e, u := c.Embeddings, c.service
	if u.BaseURL.URL == nil {
		u = c.upstreams()[cmp.Or(e.Upstream.Name, defaultName)]
	}
	return services.EmbedOptions{
		BaseURL: u.BaseURL.URL, Key: u.APIKey.Value.Reveal, Dial: u.Dial.Context, TLS: u.Dial.TLS(u.BaseURL.Hostname()),
		Model: e.Model, Dimensions: int(e.Dimensions), QueryPrefix: e.QueryPrefix.text(), PassagePrefix: e.PassagePrefix.text(),
		InputTokens: int(e.InputTokens), Batch: int(e.Batch),
	}
}
