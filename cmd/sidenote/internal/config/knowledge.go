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

// The engines of knowledge bases.
const (
	EngineEmbedded    = "embedded"     // indexed in this process
	EngineVectorStore = "vector_store" // a remote vector store
	EnginePostgres    = "postgres"     // a database that others may share
	EngineOpenSearch  = "opensearch"   // a search server that others may share
)

// What happens to the documents of a folder when most of its files are missing.
const (
	deletionsKeep   = "keep"   // they are kept until somebody accepts the deletions
	deletionsAccept = "accept" // they are deleted
)

// Knowledge is a knowledge base: a folder (or a file) of documents, a base that is filled over the
// admin port, a remote vector store, or a base in an engine that others share.
type Knowledge struct {
	Path    string           `yaml:"path"` // in a file: relative to it; "": documents are in the state folder only
	Origins `yaml:",inline"` // or where it is fetched from; then Path is its mirror
	Include []glob           `yaml:"include"`
	Exclude []glob           `yaml:"exclude"`

	Attributes     filterAttributes `yaml:"attributes"` // of all its documents
	AttributesFrom AttributesFrom   `yaml:"attributes_from"`

	// Page is the address at which people read a document: https://wiki/{path}.
	Page string `yaml:"page"`

	// Deletions says what to do when most files of the folder are missing.
	Deletions string `yaml:"deletions" of:"keep|accept"`

	// OCR is a program that prints the text of an image or a scanned PDF file, with its arguments.
	OCR command `yaml:"ocr"`

	// Description says what the base holds, for models that have tools.
	Description Description `yaml:"description"`

	// Embed has the base embedded: its chunks, and questions to it, are sent to the service of
	// Config.Embeddings.
	Embed bool `yaml:"embed"`

	// RelevanceThreshold is the minimum relevance of its sources.
	RelevanceThreshold relevance `yaml:"relevance_threshold"`

	// Synonyms is a list beside that of a policy with this base: a file, as in a policy, or
	// synonymsDefault; "" is none.
	Synonyms string `yaml:"synonyms"`

	Engine   string  `yaml:"engine" of:"embedded|vector_store|postgres|opensearch"`
	Upstream Name    `yaml:"upstream"` // of the vector store
	ID       StoreID `yaml:"id"`       // of the vector store at the upstream

	EngineServer `yaml:",inline"` // of Postgres and OpenSearch
	Mapped       `yaml:",inline"`

	MustExist bool `yaml:"-"` // a flag names the base without a path: the state folder must have it
}

// AttributesFrom says where documents of a folder get attributes from. Knowledge.Attributes take
// precedence, then those of the path, then a document's own.
type AttributesFrom struct {
	Path        string   `yaml:"path"` // a pattern such as {product}/{version}/**
	FrontMatter []string `yaml:"front_matter"`
}

// Folder returns the folder of a base; its Path is "" if it has none.
func (c *Config) Folder(name Name) folder.Folder {
	k := c.Knowledge[name]
	within := ""
	if key := "knowledge." + string(name); !(delegation{c}).may(key, mayPaths) {
		within = filepath.Dir(c.Place(key).File)
	}
	return c.mirror(name, folder.Folder{
		ID: string(name), Path: k.Path, Within: within, Include: Texts(k.Include), Exclude: Texts(k.Exclude),
		Attributes: k.Attributes, PathPattern: k.AttributesFrom.Path, FrontMatter: k.AttributesFrom.FrontMatter,
		OCR: k.OCR, AcceptDeletions: k.Deletions == deletionsAccept,
	})
}

// Thresholds returns the relevance thresholds of the named bases, sorted by id.
func Thresholds(all map[Name]Knowledge, bases []Name) (list []retrieval.Threshold) {
	for _, name := range slices.Sorted(slices.Values(bases)) {
		if r := all[name].RelevanceThreshold; r > 0 {
			list = append(list, retrieval.Threshold{Knowledge: string(name), Relevance: float64(r)})
		}
	}
	return list
}

func (k *Knowledge) SetDefaults() { k.Engine, k.Deletions = EngineEmbedded, deletionsKeep }

// maxDescription limits the description of a base, in characters: each request that offers tools
// contains it once per tool.
const maxDescription = 500

// A Description briefly says what a base holds.
type Description string

// UnmarshalText refuses long descriptions.
func (d *Description) UnmarshalText(text []byte) error {
	if n := utf8.RuneCount(text); n > maxDescription {
		return fmt.Errorf("has %d characters; it has at most %d", n, maxDescription)
	}
	*d = Description(text)
	return nil
}

// ToolBases returns the named bases as tool descriptions show them.
func ToolBases(all map[Name]Knowledge, bases []Name) []tools.Base {
	list := make([]tools.Base, len(bases))
	for i, name := range bases {
		list[i] = tools.Base{ID: string(name), Description: string(all[name].Description)}
	}
	return list
}

// A StoreID is the id of a vector store: visible ASCII without characters special in URL paths.
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

// checkBases refuses a base whose keys do not fit its engine.
func (c checker) checkBases() {
	for _, name := range sortedKeys(c.Knowledge) {
		k, key := c.Knowledge[name], "knowledge."+string(name)
		written := c.writtenKeys(key)
		if m := c.places[key+".engine"]; written("engine") && m.Env == "" && m.Text() != k.Engine {
			continue // reported as an unknown engine
		}
		c.checkEngineKeys(name)
		for _, field := range c.neededKeys(name) {
			if !written(field) {
				c.problem(key+"."+field, "is missing")
			}
		}
		if k.Engine == EngineVectorStore {
			known(c.Config, key+".upstream", "upstream", k.Upstream, c.upstreams())
		}
		c.checkEngine(name)
		c.checkOrigins(name)
		c.checkAttributes(name)
	}
}

// neededKeys lists the keys that a base must have beside those of its engine's server.
func (c checker) neededKeys(name Name) []string {
	k, key := c.Knowledge[name], "knowledge."+string(name)
	written := c.writtenKeys(key)
	ofFolder := !written("engine") || slices.ContainsFunc([]string{"include", "exclude", "attributes", "attributes_from", "page", "deletions", "ocr"}, written)
	switch {
	case k.Engine == EngineVectorStore:
		return []string{"upstream", "id"}
	case k.Path == "" && ofFolder && k.source() == "" && c.Place(key).Line > 0:
		return []string{"path"} // a flag may have given it; a base without a path must say that it is one
	}
	return nil
}

// checkAttributes refuses invalid attribute rules.
func (c checker) checkAttributes(name Name) {
	k, key := c.Folder(name), "knowledge."+string(name)
	for at, rule := range map[string]folder.Folder{
		key + ".attributes":                   {Attributes: k.Attributes},
		key + ".attributes_from.path":         {PathPattern: k.PathPattern},
		key + ".attributes_from.front_matter": {FrontMatter: k.FrontMatter},
		key + "." + c.pageKey(name):           {URL: k.URL},
	} {
		if err := rule.Validate(); err != nil {
			c.problem(at, "%v", err)
		}
	}
}

// pageKey returns the key that has the address of documents.
func (c checker) pageKey(name Name) string {
	if c.Knowledge[name].Page == "" && c.Knowledge[name].pageURL() != "" {
		return "url"
	}
	return "page"
}

// VectorStore returns the options of the vector store of a base, without the callbacks.
func (c *Config) VectorStore(name Name) vectorstore.Options {
	k := c.Knowledge[name]
	u := c.upstreams()[k.Upstream]
	return vectorstore.Options{
		Knowledge: string(name), Store: string(k.ID), BaseURL: u.BaseURL.URL, Key: u.APIKey.Value.Reveal,
		Dial: u.Dial.DialContext, TLS: u.Dial.TLS(u.BaseURL.Hostname()), Others: ServiceBases(u.Others),
	}
}

// OnlyForKnowledge reports whether an upstream is used for vector stores, embeddings, planners,
// rerankers or graders, but for no request.
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

// CheckFolders returns a Problems naming the bases whose path does not exist. It is not part of
// Load because a configuration may be checked on a machine that has none of them. mayBeAway
// reports the bases whose folder may be missing because the state folder holds their documents;
// nil means none.
func (c *Config) CheckFolders(mayBeAway func(Name) bool) error {
	var problems strictyaml.Problems
	for _, name := range c.KnowledgeNames() {
		path := c.Knowledge[name].Path
		if path == "" || c.Knowledge[name].Fetched() || mayBeAway != nil && mayBeAway(name) {
			continue
		}
		info, err := os.Stat(path)
		var reason string
		scheme, _, isURL := strings.Cut(path, ":/") // loading cleaned the path, which makes s3:// s3:/
		scheme = scheme[strings.LastIndexByte(scheme, filepath.Separator)+1:]
		switch {
		case isURL && errors.Is(err, fs.ErrNotExist) && len(scheme) > 1:
			reason = "is a URL of scheme " + scheme + "; only local folders and files are read"
		case errors.Is(err, fs.ErrNotExist):
			reason = "not found"
		case err != nil:
			reason = "cannot be read: " + strictyaml.Cause(err).Error()
		case !info.IsDir() && !info.Mode().IsRegular():
			reason = "is neither a folder nor a file" // opening a pipe would block
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

// Bases are the knowledge bases of a configuration by name. A single folder may be written without
// a name, as in "knowledge: ./docs"; its base gets the same name as with --knowledge.
type Bases map[Name]Knowledge

// PlainName returns the base name for a folder.
func (Bases) PlainName(dir, text string) (string, error) {
	name, err := FolderName(dir, text)
	return string(name), err
}
