package config_test

import (
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// The key of an upstream is only sent to its own address, and a service given by its URL gets no
// key. Without the section there is no service, and no texts are sent.
func TestEmbedder(t *testing.T) {
	const upstreams = "upstream: {base_url: https://default.test/v1, api_key: {env: DEFAULT}}\nupstreams: {other: {base_url: http://other.test, api_key: {env: OTHER}}}\n"
	for name, c := range map[string]struct{ file, url, key, shown string }{
		"none":    {"", "", "", ""},
		"default": {"embeddings: {model: m}", "https://default.test/v1", "sk-default", "default"},
		"named":   {"embeddings: {upstream: other, model: m}", "http://other.test", "sk-other", "other"},
		"by URL":  {"embeddings: {upstream: 'http://127.0.0.1:11434/v1', model: m}", "http://127.0.0.1:11434/v1", "", "http://127.0.0.1:11434/v1"},
		"socket":  {"embeddings: {upstream: 'unix:/run/e.sock:/v1', model: m}", "http://localhost/v1", "", "unix:/run/e.sock:/v1"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := config.Load(config.Source{
				Path: "c.yaml",
				Read: func(string) ([]byte, error) { return []byte(upstreams + c.file), nil },
				Env: func(name string) (string, bool) {
					v, ok := map[string]string{"DEFAULT": "sk-default", "OTHER": "sk-other"}[name]
					return v, ok
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			o := config.Embedder(cfg)
			if o.BaseURL == nil {
				if c.url != "" || len(config.Embedded(cfg)) > 0 {
					t.Errorf("no service, bases %v", config.Embedded(cfg))
				}
				return
			}
			shown, _ := config.EmbeddingsUpstream(cfg)
			if o.BaseURL.String() != c.url || o.Key() != c.key || shown != c.shown || o.Batch != 64 || o.QueryPrefix != nil {
				t.Errorf("%s with key %q, shown %q, batch %d, prefix %v", o.BaseURL, o.Key(), shown, o.Batch, o.QueryPrefix)
			}
		})
	}
}

// A prefix is the model's own, none, or a text including its spaces.
func TestInputPrefixes(t *testing.T) {
	cfg, err := config.Load(config.Source{Path: "c.yaml", Read: func(string) ([]byte, error) {
		return []byte("upstream: http://u.test\nembeddings: {model: e5, query_prefix: none, passage_prefix: 'text: '}\nknowledge: {docs: {path: ., embed: true}, other: .}"), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	o := config.Embedder(cfg)
	if o.QueryPrefix == nil || *o.QueryPrefix != "" || o.PassagePrefix == nil || *o.PassagePrefix != "text: " {
		t.Errorf("%v, %v", o.QueryPrefix, o.PassagePrefix)
	}
	if got := config.Texts(config.Embedded(cfg)); len(got) != 1 || got[0] != "docs" {
		t.Errorf("embedded %q", got)
	}
}
