package config

import (
	"errors"
	"slices"
	"strings"
)

// Permissions of an include. Included files may have other authors than the main file, so without
// a permission they may only define models, policies and tenants, and bases of documents in their
// own folder.
const (
	mayUpstreams = "upstreams" // define upstreams
	maySecrets   = "secrets"   // read secrets from the environment and from outside their folder
	mayPaths     = "paths"     // have bases of documents outside their folder
	mayStores    = "stores"    // have bases in vector stores of upstreams of other files, and in engines
	mayEmbed     = "embed"     // have bases whose texts are sent to the embedding service
	mayTokens    = "tokens"    // map tokens to their tenants
	mayAll       = "all"       // everything the main file may
)

// A delegation knows the permissions of included files.
type delegation struct{ *Config }

// may reports whether the file that contains key has a permission. The main file and flags have
// all.
func (c delegation) may(key, what string) bool {
	return c.allows(c.Place(key).File, what)
}

// allows reports whether a file has a permission.
func (c delegation) allows(file, what string) bool {
	i, delegated := c.delegated[file]
	return !delegated || slices.Contains(c.Include[i].May, what) || slices.Contains(c.Include[i].May, mayAll)
}

// forbidden reports that key needs a permission.
func (c delegation) forbidden(key, what, format string, args ...any) {
	i := c.delegated[c.Place(key).File]
	words := append(slices.Clone(c.Include[i].May), what)
	if what == mayAll {
		words = []string{mayAll}
	}
	c.overstep(key, "may: ["+strings.Join(words, ", ")+"]", format, args...)
}

// overstep reports a key that the include does not allow, and how to allow it.
func (c delegation) overstep(key, allow, format string, args ...any) {
	i := c.delegated[c.Place(key).File]
	c.problem(key, format+"; %s can allow it, as in {path: %s, %s}", append(args, c.Place("include["+itoa(i)+"]"), c.Include[i].Path, allow)...)
}

// checkDelegated refuses what included files define without permission.
func (c checker) checkDelegated() {
	for i, inc := range c.Include {
		c.checkKnowledge("include["+itoa(i)+"].knowledge", inc.Knowledge)
	}
	for _, name := range sortedKeys(c.Upstreams) {
		key := "upstreams." + string(name)
		if !c.may(key, mayUpstreams) {
			c.forbidden(key, mayUpstreams, "is not for an included file to define")
		}
		c.checkDefault(key, name)
	}
	for _, name := range sortedKeys(c.Knowledge) {
		c.checkDelegatedBase("knowledge."+string(name), name)
	}
	for _, name := range sortedKeys(c.Policies) {
		key := "policies." + string(name)
		c.checkDefault(key, name)
		c.checkGranted(key+".knowledge", key+".extends", c.Policies[name].Knowledge)
	}
	for _, name := range sortedKeys(c.Tenants) {
		t, key := c.Tenants[name], "tenants."+string(name)
		bases := t.Knowledge
		if policy := "policies." + string(t.policyName()); len(bases) == 0 && c.places[policy].File != c.places[key].File {
			bases = c.policy(t.policyName()).Knowledge // a policy of the same file has been checked
		}
		c.checkGranted(key+".knowledge", key+".policy", bases)
	}
}

// checkDefault refuses the name default in an included file, as it would apply to other files.
func (c delegation) checkDefault(key string, name Name) {
	if name == defaultName && !c.may(key, mayAll) {
		c.forbidden(key, mayAll, "is the default for all tenants; use another name")
	}
}

// checkDelegatedBase refuses a base that an included file defines without permission: with a program
// to run, on an upstream of another file, in the state folder, or in a folder outside its own.
func (c delegation) checkDelegatedBase(key string, name Name) {
	if len(c.Knowledge[name].OCR) > 0 && !c.may(key, mayAll) {
		c.forbidden(key+".ocr", mayAll, "is a program that an included file may not run")
	}
	switch k := c.Knowledge[name]; {
	case c.may(key, mayAll):
	case k.Engine == EngineVectorStore:
		own := c.places["upstreams."+string(k.Upstream)].File == c.Place(key).File
		if _, known := c.upstreams()[k.Upstream]; known && !own && !c.may(key, mayStores) {
			c.forbidden(key+".upstream", mayStores, "upstream %q is not of this file", k.Upstream)
		}
	case k.Remote() && !c.may(key, mayStores):
		c.forbidden(key+".url", mayStores, "is not for an included file to name")
	case k.Path == "" && !k.Remote():
		if !c.granted(key, name) {
			c.overstep(key, "knowledge: ["+string(name)+"]", "has no path, so it is the base of this name in the state folder")
		}
	case k.Path != "" && !k.Fetched() && !c.may(key, mayPaths):
		if err := statWithin(c.Place(key).File, k.Path); errors.Is(err, errOutside) {
			written := c.places[key+".path"].Text()
			c.forbidden(key+".path", mayPaths, "%q %v", written, err)
		}
	}
}

// checkGranted refuses bases of other files that an included file uses without permission,
// directly or through a policy.
func (c delegation) checkGranted(list, reference string, bases []Name) {
	for i, base := range bases {
		key, format := list+"["+itoa(i)+"]", "base %q is not of this file"
		if _, written := c.places[key]; !written {
			key, format = reference, "brings base %q, which is not of this file"
		}
		_, known := c.Knowledge[base]
		if own := c.places["knowledge."+string(base)].File == c.Place(key).File; known && !own && !c.granted(key, base) {
			c.overstep(key, "knowledge: ["+string(base)+"]", format, base)
		}
	}
}

// granted reports whether the file that contains key may use a base of another file.
func (c delegation) granted(key string, base Name) bool {
	i, delegated := c.delegated[c.Place(key).File]
	return c.may(key, mayAll) || delegated && slices.Contains(c.Include[i].Knowledge, base)
}
