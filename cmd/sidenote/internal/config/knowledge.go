package config

import (
	"fmt"
	"strings"

	"sidenote/retrieval/vectorstore"
)

// The engines that a knowledge base may have.
const (
	EngineEmbedded    = "embedded"     // indexed in this process
	EngineVectorStore = "vector_store" // a vector store elsewhere
)

// Knowledge is a folder (or a file) of documents, a base that is filled over the
// admin port, or a vector store elsewhere.
type Knowledge struct {
	Path    string `yaml:"path"` // in a file: relative to it; without one the state folder is all there is
	Include []Glob `yaml:"include"`
	Exclude []Glob `yaml:"exclude"`

	Engine   string  `yaml:"engine" of:"embedded|vector_store"`
	Upstream Name    `yaml:"upstream"` // that has the vector store
	ID       StoreID `yaml:"id"`       // of the vector store there

	Held bool `yaml:"-"` // a flag names it: the state folder must have it
}

func (k *Knowledge) setDefaults() { k.Engine = EngineEmbedded }

// A StoreID is the id of a vector store: visible ASCII that is one segment of a path.
type StoreID string

// UnmarshalText refuses what no store could be called by.
func (s *StoreID) UnmarshalText(text []byte) error {
	id := string(text)
	bad := strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`/\?#%`, r) })
	if bad || id == "" || len(id) > 256 || id == "." || id == ".." {
		return fmt.Errorf("%q is not the id of a vector store; write it as in vs_68a1", id)
	}
	*s = StoreID(id)
	return nil
}

// checkBases refuses a base whose keys do not go with its engine.
func (c *Config) checkBases() {
	for _, name := range sortedKeys(c.Knowledge) {
		k, key := c.Knowledge[name], "knowledge."+string(name)
		written := func(field string) bool { _, ok := c.places[key+"."+field]; return ok }
		if text, _ := scalarText(c.places[key+".engine"].node); written("engine") && text != k.Engine {
			continue // reported as no engine at all
		}
		var need []string
		other, hint := []string{"upstream", "id"}, "; write engine: "+EngineVectorStore
		if k.Path == "" && (!written("engine") || written("include") || written("exclude")) && c.Place(key).Line > 0 {
			need = []string{"path"} // a flag has given it, and a base without says that it is one
		}
		if k.Engine == EngineVectorStore {
			need, other, hint = []string{"upstream", "id"}, []string{"path", "include", "exclude"}, ""
		}
		for _, field := range other {
			if written(field) {
				c.problem(key+"."+field, "does not go with engine %s%s", k.Engine, hint)
			}
		}
		for _, field := range need {
			if !written(field) {
				c.problem(key+"."+field, "is missing")
			}
		}
		if k.Engine == EngineVectorStore {
			known(c, key+".upstream", "upstream", k.Upstream, c.upstreams())
		}
	}
}

// VectorStore is the store that a base of that engine asks. What it does with
// texts, and who hears of it, is left open.
func (c *Config) VectorStore(name Name) vectorstore.Options {
	k := c.Knowledge[name]
	u := c.upstreams()[k.Upstream]
	return vectorstore.Options{Knowledge: string(name), Store: string(k.ID), BaseURL: u.BaseURL.URL, Key: u.APIKey.Value.Reveal}
}

// OnlyForKnowledge tells whether an upstream has vector stores of bases and takes
// no request.
func (c *Config) OnlyForKnowledge(upstream Name) bool {
	for _, p := range c.resolved.tenants {
		if p.Upstream == string(upstream) {
			return false
		}
	}
	for _, k := range c.Knowledge {
		if k.Engine == EngineVectorStore && k.Upstream == upstream {
			return true
		}
	}
	return false
}
