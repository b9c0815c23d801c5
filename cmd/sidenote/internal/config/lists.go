package config

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"sidenote/rewrite/tokens"
)

// UpstreamNames lists the upstreams by name.
func (c *Config) UpstreamNames() []Name { return sortedKeys(c.upstreams()) }

// KnowledgeNames lists the bases by name.
func (c *Config) KnowledgeNames() []Name { return sortedKeys(c.Knowledge) }

// ModelTable is the configured rows, then the built-in ones. What a row leaves
// open is filled in from the built-in row that its name matches.
func (c *Config) ModelTable() []tokens.Model {
	builtin := tokens.Builtin()
	table := make([]tokens.Model, 0, len(c.Models)+len(builtin))
	for _, m := range c.Models {
		row, _ := tokens.Lookup(builtin, strings.TrimSuffix(m.Match, "*"))
		row.Match = strings.ToLower(m.Match)
		if m.Encoding != "" {
			row.Encoding, row.Estimated = m.Encoding, false
		}
		row.Estimated = row.Estimated || m.Estimated
		row.Window = cmp.Or(int(m.Window), row.Window)
		row.MaxOutput = cmp.Or(int(m.MaxOutputTokens), row.MaxOutput)
		row.DefaultOutput = cmp.Or(int(m.DefaultOutput), row.DefaultOutput)
		if m.Roles != "" {
			row.NoSystem = m.Roles == noSystem
		}
		table = append(table, row)
	}
	return append(table, builtin...)
}

// noSystem is the Model.Roles of a model that refuses messages of the role system.
const noSystem = "no_system"

// CheckFolders returns a Problems naming the bases whose path is not there. It
// is not part of Load because a configuration may be checked on a machine that
// has none of them. mayBeAway tells which may be missing because the state folder holds
// their documents; nil: none.
func (c *Config) CheckFolders(mayBeAway func(Name) bool) error {
	var problems Problems
	for _, name := range c.KnowledgeNames() {
		path := c.Knowledge[name].Path
		if path == "" || mayBeAway != nil && mayBeAway(name) {
			continue
		}
		info, err := os.Stat(path)
		var reason string
		switch {
		case errors.Is(err, fs.ErrNotExist):
			reason = "not found"
		case err != nil:
			reason = "cannot be read: " + cause(err).Error()
		case !info.IsDir() && !info.Mode().IsRegular():
			reason = "is neither a folder nor a file" // opening a pipe would wait for ever
		default:
			continue
		}
		key := "knowledge." + string(name) + ".path"
		if c.Place(key).Line == 0 && strings.Contains(path, ",") {
			reason += "; several folders have a --knowledge each"
		}
		problems = append(problems, Problem{c.Place(key), key, "folder " + strconv.Quote(path) + " " + reason})
	}
	if len(problems) > 0 {
		return problems.sorted(c.files)
	}
	return nil
}
