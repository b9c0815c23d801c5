package config

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/retrieval"
	"sidenote/retrieval/synonyms"
)

// synonymsDefault is the default of Retrieval.Synonyms: the built-in list.
const synonymsDefault = "default"

// readSynonyms reads the files of policies' synonyms.
func (c loader) readSynonyms(src Source) {
	c.synonyms = map[string]*retrieval.Synonyms{synonymsDefault: synonyms.Default()}
	from := map[string]string{} // by value: the file
	for _, key := range slices.Sorted(maps.Keys(c.places)) {
		m := c.places[key]
		value := m.Text()
		if !takesSynonyms(key) || value == synonymsDefault || value == Off {
			continue
		}
		if value == "" {
			c.problem(key, "is not a file; write its path, or default, or off")
			continue
		}
		path := c.locate(key, value)
		if other, ok := from[value]; ok {
			if other != path {
				c.problem(key, "%q is another file in another folder, %q; write the whole path", value, other)
			}
			continue
		}
		from[value] = path
		c.readSynonymsFile(src, key, path, value)
	}
}

// takesSynonyms reports whether the value of a key is a list of synonyms.
func takesSynonyms(key string) bool {
	return strings.HasPrefix(key, "policies.") && strings.HasSuffix(key, ".retrieval.synonyms") ||
		strings.HasPrefix(key, "knowledge.") && strings.HasSuffix(key, ".synonyms") && strings.Count(key, ".") == 2
}

// synonymsOf returns the synonyms of a policy and of its bases.
func (c *Config) synonymsOf(p Policy) *retrieval.Synonyms {
	values := []string{p.Retrieval.Synonyms}
	for _, base := range slices.Sorted(slices.Values(p.Knowledge)) {
		if value := c.Knowledge[base].Synonyms; !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	lists := make([]*retrieval.Synonyms, len(values))
	for i, value := range values {
		lists[i] = c.synonyms[value]
	}
	return synonyms.Join(lists...)
}

func (c loader) readSynonymsFile(src Source, key, path, value string) {
	read := src.Read
	if !c.may(key, mayPaths) {
		read = func(path string) ([]byte, error) { return src.readWithin(c.Place(key).File, path) }
	}
	data, err := read(path)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && src.NoSecrets:
		return // it may exist only on the machine that serves
	case missing:
		c.problem(key, "file %q not found", path)
		return
	case err != nil:
		c.problem(key, "%q cannot be read: %v", path, strictyaml.Cause(err))
		return
	}
	list, err := synonyms.Parse(data)
	if wrong, ok := errors.AsType[*synonyms.Error](err); ok {
		place := strictyaml.Place{File: path, Line: wrong.Line, Column: wrong.Column}
		c.problems = append(c.problems, strictyaml.Problem{Place: place, Key: key, Reason: wrong.Reason})
		return
	}
	c.synonyms[value] = list
}
