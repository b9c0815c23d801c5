package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/tools"
	"sidenote/retrieval/vectorstore"
)

// The engines that a knowledge base may have.
const (
	EngineEmbedded    = "embedded"     // indexed in this process
	EngineVectorStore = "vector_store" // a vector store elsewhere
)

// What happens to the documents of a folder when most of its files are gone.
const (
	deletionsKeep   = "keep"   // they stay until somebody accepts the deletions
	deletionsAccept = "accept" // they go
)

// Knowledge is a folder (or a file) of documents, a base that is filled over the
// admin port, or a vector store elsewhere.
type Knowledge struct {
	Path    string `yaml:"path"` // in a file: relative to it; without one the state folder is all there is
	Include []glob `yaml:"include"`
	Exclude []glob `yaml:"exclude"`

	Attributes     filterAttributes `yaml:"attributes"` // of all its documents
	AttributesFrom AttributesFrom   `yaml:"attributes_from"`

	// Deletions says what to do where most files of the folder are gone.
	Deletions string `yaml:"deletions" of:"keep|accept"`

	// Description says what it holds, to models that have tools.
	Description Description `yaml:"description"`

	// Embed has its chunks embedded: its texts, and questions to it, go to the service of
	// Config.Embeddings.
	Embed bool `yaml:"embed"`

	// RelevanceThreshold is the least relevance of its sources.
	RelevanceThreshold relevance `yaml:"relevance_threshold"`

	Engine   string  `yaml:"engine" of:"embedded|vector_store"`
	Upstream Name    `yaml:"upstream"` // that has the vector store
	ID       StoreID `yaml:"id"`       // of the vector store there

	MustExist bool `yaml:"-"` // a flag names it without a path: the state folder must have it
}

// AttributesFrom says from where documents of a folder get attributes. Those of
// Knowledge.Attributes win over these, and those of the path over a document's own.
type AttributesFrom struct {
	Path        string   `yaml:"path"` // such as {product}/{version}/**
	FrontMatter []string `yaml:"front_matter"`
}

// Folder is what a base is read from; its Path is "" where it is read from no folder.
func (c *Config) Folder(name Name) folder.Folder {
	k := c.Knowledge[name]
	within := ""
	if key := "knowledge." + string(name); !(delegation{c}).may(key, mayPaths) {
		within = filepath.Dir(c.Place(key).File)
	}
	return folder.Folder{
		ID: string(name), Path: k.Path, Within: within, Include: Texts(k.Include), Exclude: Texts(k.Exclude),
		Attributes: k.Attributes, PathPattern: k.AttributesFrom.Path, FrontMatter: k.AttributesFrom.FrontMatter,
		AcceptDeletions: k.Deletions == deletionsAccept,
	}
}

// Thresholds are those of some of all bases, by id.
func Thresholds(all map[Name]Knowledge, bases []Name) (list []retrieval.Threshold) {
	for _, name := range slices.Sorted(slices.Values(bases)) {
		if r := all[name].RelevanceThreshold; r > 0 {
			list = append(list, retrieval.Threshold{Knowledge: string(name), Relevance: float64(r)})
		}
	}
	return list
}

func (k *Knowledge) SetDefaults() { k.Engine, k.Deletions = EngineEmbedded, deletionsKeep }

// maxDescription is how many characters the description of a base has at most: it is a part of
// each request that offers tools, once for each tool.
const maxDescription = 500

// A Description says in a few words what a base holds.
type Description string

// UnmarshalText refuses what is too long.
func (d *Description) UnmarshalText(text []byte) error {
	if n := utf8.RuneCount(text); n > maxDescription {
		return fmt.Errorf("has %d characters; it has at most %d", n, maxDescription)
	}
	*d = Description(text)
	return nil
}

// ToolBases are some of all bases, as descriptions of tools name them.
func ToolBases(all map[Name]Knowledge, bases []Name) []tools.Base {
	list := make([]tools.Base, len(bases))
	for i, name := range bases {
		list[i] = tools.Base{ID: string(name), Description: string(all[name].Description)}
	}
	return list
}

// A StoreID is the id of a vector store: visible ASCII that is one segment of a path.
type StoreID string

// UnmarshalText refuses what cannot be the id of a store.
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
func (c checker) checkBases() {
	for _, name := range sortedKeys(c.Knowledge) {
		k, key := c.Knowledge[name], "knowledge."+string(name)
		written := func(field string) bool { _, ok := c.places[key+"."+field]; return ok }
		if m := c.places[key+".engine"]; written("engine") && m.Env == "" && m.Text() != k.Engine {
			continue // reported as no engine at all
		}
		var need []string
		other, hint := []string{"upstream", "id"}, "; write engine: "+EngineVectorStore
		if k.Path == "" && (!written("engine") || written("include") || written("exclude") || written("attributes") || written("attributes_from") || written("deletions")) && c.Place(key).Line > 0 {
			need = []string{"path"} // a flag has given it, and a base without says that it is one
		}
		if k.Engine == EngineVectorStore {
			need, other, hint = []string{"upstream", "id"}, []string{"path", "include", "exclude", "attributes", "attributes_from", "deletions", "embed"}, ""
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
			known(c.Config, key+".upstream", "upstream", k.Upstream, c.upstreams())
		}
		c.checkAttributes(name)
	}
}

// checkAttributes refuses rules that no folder could be read by.
func (c checker) checkAttributes(name Name) {
	k, key := c.Folder(name), "knowledge."+string(name)
	for at, rule := range map[string]folder.Folder{
		key + ".attributes":                   {Attributes: k.Attributes},
		key + ".attributes_from.path":         {PathPattern: k.PathPattern},
		key + ".attributes_from.front_matter": {FrontMatter: k.FrontMatter},
	} {
		if err := rule.Validate(); err != nil {
			c.problem(at, "%v", err)
		}
	}
}

// VectorStore has the options for the store of a base of that engine, without the
// callbacks.
func (c *Config) VectorStore(name Name) vectorstore.Options {
	k := c.Knowledge[name]
	u := c.upstreams()[k.Upstream]
	return vectorstore.Options{
		Knowledge: string(name), Store: string(k.ID), BaseURL: u.BaseURL.URL, Key: u.APIKey.Value.Reveal,
		Dial: u.Dial.Context, TLS: u.Dial.TLS(u.BaseURL.Hostname()),
	}
}

// OnlyForKnowledge tells whether an upstream is used for vector stores of bases, for embeddings,
// by planners, rerankers or graders, and for no request.
func (c *Config) OnlyForKnowledge(upstream Name) bool {
	for _, p := range c.tenants {
		if p.Upstream == string(upstream) {
			return false
		}
	}
	for _, k := range c.Knowledge {
		if k.Engine == EngineVectorStore && k.Upstream == upstream {
			return true
		}
	}
	service, embeds := EmbeddingsUpstream(c)
	for s := range RerankServices(c) {
		if s.Upstream == string(upstream) {
			return true
		}
	}
	return embeds && service == string(upstream) || PlannerUpstreams(c)[string(upstream)] || GradeUpstreams(c)[string(upstream)]
}

// CheckFolders returns a Problems naming the bases whose path is not there. It
// is not part of Load because a configuration may be checked on a machine that
// has none of them. mayBeAway tells which may be missing because the state folder holds
// their documents; nil: none.
func (c *Config) CheckFolders(mayBeAway func(Name) bool) error {
	var problems strictyaml.Problems
	for _, name := range c.KnowledgeNames() {
		path := c.Knowledge[name].Path
		if path == "" || mayBeAway != nil && mayBeAway(name) {
			continue
		}
		info, err := os.Stat(path)
		var reason string
		scheme, _, isURL := strings.Cut(path, ":/") // loading has cleaned the path, which makes s3:// s3:/
		scheme = scheme[strings.LastIndexByte(scheme, filepath.Separator)+1:]
		switch {
		case isURL && errors.Is(err, fs.ErrNotExist) && len(scheme) > 1:
			reason = "is a URL of scheme " + scheme + "; only local folders and files are read"
		case errors.Is(err, fs.ErrNotExist):
			reason = "not found"
		case err != nil:
			reason = "cannot be read: " + strictyaml.Cause(err).Error()
		case !info.IsDir() && !info.Mode().IsRegular():
			reason = "is neither a folder nor a file" // opening a pipe would wait for ever
		default:
			continue
		}
		key := "knowledge." + string(name) + ".path"
		if c.Place(key).Line == 0 && strings.Contains(path, ",") {
			reason += "; several folders have a --knowledge each"
		}
		problems = append(problems, strictyaml.Problem{Place: c.Place(key), Key: key, Reason: "folder " + strconv.Quote(path) + " " + reason})
	}
	if len(problems) > 0 {
		return problems.Sorted(c.files)
	}
	return nil
}

// Bases are the knowledge bases of a configuration by name. A single folder may be written without a
// name, as in "knowledge: ./docs"; its base is named as --knowledge names it.
type Bases map[Name]Knowledge

// PlainName returns the name of the base of a folder.
func (Bases) PlainName(dir, text string) (string, error) {
	name, err := FolderName(dir, text)
	return string(name), err
}
