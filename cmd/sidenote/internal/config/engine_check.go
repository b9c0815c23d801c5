package config

import (
	"fmt"
	"slices"
	"strings"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/retrieval/filter"
)

// folderKeys lists the keys of a base that is read from a folder, or fetched.
func folderKeys() []string {
	return []string{"path", "git", "http", "s3", "include", "exclude", "attributes", "attributes_from", "page", "deletions", "ocr", "embed"}
}

// baseKeys lists the keys of a base that do not go with every engine.
func baseKeys() map[string][]string {
	folder := folderKeys()
	server := []string{"url", "user", "password", "tls", "connections", "timeout", "namespace", "columns"}
	return map[string][]string{
		EngineEmbedded:    slices.Concat(folder, []string{"url"}), // see pageURL
		EngineVectorStore: {"upstream", "id"},
		EnginePostgres:    slices.Concat(folder, server, []string{"tenant_setting", "table"}),
		EngineOpenSearch:  slices.Concat(folder, server, []string{"api_key", "index"}),
	}
}

// writtenKeys says which keys of a base are in a file.
func (c checker) writtenKeys(base string) func(key string) bool {
	return func(key string) bool { _, ok := c.places[base+"."+key]; return ok }
}

// checkEngineKeys refuses the keys of a base that do not go with its engine.
func (c checker) checkEngineKeys(name Name) {
	all, engine, base := baseKeys(), c.Knowledge[name].Engine, "knowledge."+string(name)
	written := c.writtenKeys(base)
	for _, field := range engineKeys(all) {
		if written(field) && !slices.Contains(all[engine], field) {
			c.problem(base+"."+field, "does not go with engine %s%s", engine, remedy(all, engine, field))
		}
	}
}

// engineKeys lists each key of baseKeys once.
func engineKeys(all map[string][]string) (keys []string) {
	for _, engine := range sortedTexts(all) {
		keys = append(keys, all[engine]...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// remedy says what to write instead of a key, or with it.
func remedy(all map[string][]string, engine, field string) string {
	if engine == EngineVectorStore {
		return ""
	}
	switch engine + " " + field {
	case EnginePostgres + " index":
		return "; write table"
	case EngineOpenSearch + " table":
		return "; write index"
	case EnginePostgres + " api_key":
		return "; write user and password"
	case EngineOpenSearch + " tenant_setting":
		return "; write a filter for each tenant, or a user for each base"
	}
	var with []string
	for _, other := range sortedTexts(all) {
		if slices.Contains(all[other], field) {
			with = append(with, other)
		}
	}
	slices.Reverse(with) // postgres, the more common one, before opensearch
	return "; write engine: " + strings.Join(with, " or ")
}

// checkEngine refuses settings of an engine elsewhere that conflict.
func (c checker) checkEngine(name Name) {
	k, key := c.Knowledge[name], "knowledge."+string(name)
	written := c.writtenKeys(key)
	for i, u := range k.URL {
		if template := u.template != ""; template != (k.Engine == EngineEmbedded) || template && i > 0 {
			c.problem(key+".url", "%s", urlHint(k.Engine))
			return
		}
	}
	if !k.Remote() {
		return
	}
	if !written("url") {
		c.problem(key+".url", "is missing; write %s", exampleURL(k.Engine))
	}
	c.checkEngineURLs(key, k)
	switch {
	case k.Engine == EnginePostgres && !written("user"):
		c.problem(key+".user", "is missing; it is the role that connects")
	case written("password") && !written("user"):
		c.problem(key+".user", "is missing; it is the user of password")
	case k.Engine == EngineOpenSearch && written("user") && written("api_key"):
		c.problem(key+".api_key", "takes the place of user and password; keep one")
	case k.Engine == EngineOpenSearch && written("user") && !written("password"):
		c.problem(key+".password", "is missing; it is the password of user")
	}
	if k.Engine == EnginePostgres && strings.HasPrefix(string(k.Namespace), "pg_") {
		c.problem(key+".namespace", "%q begins with pg_, which Postgres keeps for itself", k.Namespace)
	}
	if k.Engine == EnginePostgres && strings.Contains(string(k.Namespace), "-") {
		c.problem(key+".namespace", "%q has a -, which schemas of Postgres may not have here; use _", k.Namespace)
	}
	c.checkMapped(name)
}

// urlHint says what url is, which depends on the engine.
func urlHint(engine string) string {
	if engine == EngineEmbedded {
		return "is the address at which people read the documents of a base in this process; write it as in https://wiki/{path}, or engine: postgres or opensearch for the URL of an engine"
	}
	return "is the URL of the engine; write page: for the address at which people read documents"
}

func exampleURL(engine string) string {
	if engine == EnginePostgres {
		return "url: postgres://HOST:5432/DATABASE"
	}
	return "url: https://HOST:9200"
}

// checkEngineURLs refuses URLs of another engine, and URLs that are not of the same one.
func (c checker) checkEngineURLs(key string, k Knowledge) {
	for i, u := range k.URL {
		at := key + ".url"
		if _, list := c.places[at+"[0]"]; list {
			at += "[" + itoa(i) + "]"
		}
		switch {
		case u.URL == nil:
			return // was reported
		case (u.Scheme == "postgres") != (k.Engine == EnginePostgres):
			c.problem(at, "has the scheme %s, and the engine is %s; write %s", u.Scheme, k.Engine, exampleURL(k.Engine))
			return
		case u.like() != k.URL[0].like():
			c.problem(at, "differs from the first URL in more than host and port, and they are tried in turn for the same")
		}
	}
	if len(k.URL) > 0 && k.TLS != (EngineTLS{}) && !k.URL.secure(true) {
		c.problem(key+".tls", "is not used: url %s asks for no TLS; write %s", strings.Join(k.URL.addresses(), ", "), secureURL(k.Engine))
	}
}

func secureURL(engine string) string {
	if engine == EnginePostgres {
		return "sslmode=" + sslVerify
	}
	return "https"
}

// checkMapped refuses settings of a table or index that others write.
func (c checker) checkMapped(name Name) {
	k, key := c.Knowledge[name], "knowledge."+string(name)
	written := c.writtenKeys(key)
	if !written(k.sourceKey()) {
		if written("columns") {
			c.problem(key+"."+k.sourceKey(), "is missing; it is what has the columns")
		}
		return
	}
	if !written("columns") {
		c.problem(key+".columns", "is missing; write columns: {id: NAME, text: NAME}")
	}
	for _, field := range folderKeys() {
		if !written(field) {
			continue
		}
		hint := ""
		if field == "embed" {
			hint = "; name columns.vector and columns.model"
		}
		c.problem(key+"."+field, "does not go with %s, which is only read%s", k.sourceKey(), hint)
	}
	c.checkColumns(key+".columns", k)
	c.checkVector(key+".columns", k.Columns)
}

// checkColumns refuses columns that lack another one, or are not used.
func (c checker) checkColumns(key string, k Knowledge) {
	of := k.Columns
	written := c.writtenKeys(key)
	if written("document") != written("ordinal") {
		has, lacks := "document", "ordinal"
		if written(lacks) {
			has, lacks = lacks, has
		}
		c.problem(key+"."+lacks, "is missing; it goes with %s, of tables with several rows for a document", has)
	}
	if written("language") && k.Engine == EngineOpenSearch {
		c.problem(key+".language", "does not go with engine %s, where the field has an analyzer", k.Engine)
	}
	if written("ttl") && of.Generation != "" {
		c.problem(key+".ttl", "is not used, as generation %q tells of changes; keep one", of.Generation)
	}
	for attribute, from := range map[string]column{"url": of.URL, "date": of.Date} {
		if _, twice := of.AttributeColumns[attribute]; twice && from != "" {
			c.problem(key+".attribute_columns."+attribute, "is also %s.%s; keep one", "columns", attribute)
		}
	}
}

// checkVector refuses vectors whose model is unknown or another than that of questions, and what
// describes no vectors.
func (c checker) checkVector(key string, of Columns) {
	written := c.writtenKeys(key)
	if of.Vector == "" {
		for _, field := range []string{"model", "dimensions"} {
			if written(field) {
				c.problem(key+"."+field, "goes with vector, the column of the vectors")
			}
		}
		return
	}
	switch ours := c.Embeddings; {
	case !embeds(c.Config):
		c.problem(key+".vector", "goes with embeddings, which embed the questions, and there are none; write embeddings: {upstream: NAME, model: MODEL}")
	case !written("model"):
		c.problem(key+".model", "is missing; name the model of the vectors, as in embeddings.model")
	case of.Model != ours.Model:
		c.problem(key+".model", "%q is not embeddings.model, %q, which embeds the questions; vectors of two models cannot be compared", of.Model, ours.Model)
	case of.Dimensions > 0 && ours.Dimensions > 0 && of.Dimensions != ours.Dimensions:
		c.problem(key+".dimensions", "%d are not those of embeddings.dimensions, %d, which questions have", of.Dimensions, ours.Dimensions)
	case !c.may(key+".vector", mayEmbed):
		c.forbidden(key+".vector", mayEmbed, "its questions would go to the service of %s", c.Place(embeddingsKey).File)
	}
}

// PlainEngines lists the engines on other machines that are sent a password or key without TLS.
func (c *Config) PlainEngines() (list strictyaml.Problems) {
	for _, name := range c.KnowledgeNames() {
		k, key := c.Knowledge[name], "knowledge."+string(name)+".url"
		secret := k.Password != (Secret{}) || k.APIKey != (Secret{})
		if k.Remote() && secret && !k.URL.loopback() && !k.URL.secure(k.TLS != EngineTLS{}) {
			list = append(list, strictyaml.Problem{Place: c.Place(key), Key: key, Reason: fmt.Sprintf("%s is on another machine and reached without TLS, so whoever is in between can read documents and the password; use %s",
				strings.Join(k.URL.addresses(), ", "), secureURL(k.Engine))})
		}
	}
	return list
}

// CheckFilters returns a Problems naming the filters of policies and tenants that cannot be
// evaluated for a base. filterable is called for the bases in engines elsewhere and returns why a
// filter cannot be evaluated for one, or nil.
func (c *Config) CheckFilters(filterable func(base Name, f *filter.Filter) error) error {
	f := filterCheck{c: c, filterable: filterable, seen: map[string]bool{}}
	for _, name := range c.TenantNames() {
		t := c.Tenants[name]
		p, policy := c.Policy(name), "policies."+string(t.policyName())
		bases := slices.DeleteFunc(slices.Clone(p.Knowledge), func(base Name) bool { return !c.Knowledge[base].Remote() })
		f.all(policy+".filters", c.policy(t.policyName()).Filters, bases)
		f.all("tenants."+string(name)+".filters", t.Filters, bases)
		for i, o := range p.Overrides {
			f.all(policy+".overrides["+itoa(i)+"].filters", o.Filters, bases)
		}
	}
	if len(f.problems) > 0 {
		return f.problems.Sorted(c.files)
	}
	return nil
}

type filterCheck struct {
	c          *Config
	filterable func(base Name, f *filter.Filter) error
	seen       map[string]bool // problems that another tenant of the policy has too
	problems   strictyaml.Problems
}

// all checks the filters in the list at a key for some bases.
func (f *filterCheck) all(key string, filters []Filter, bases []Name) {
	for i, one := range filters {
		for _, base := range bases {
			at := key + "[" + itoa(i) + "]"
			err := f.filterable(base, one.Of.WithClaimNames())
			if err == nil || f.seen[at+" "+string(base)] {
				continue
			}
			f.seen[at+" "+string(base)] = true
			f.problems = append(f.problems, strictyaml.Problem{Place: f.c.Place(at), Key: at, Reason: fmt.Sprintf("cannot be evaluated for base %q: %v", base, err)})
		}
	}
}
