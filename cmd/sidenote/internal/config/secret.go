package config

import (
	"maps"
	"slices"
	"strings"

	"sidenote/proxy"
)

// readSecrets fetches the texts of all secrets. No problem ever shows one.
func (c *Config) readSecrets(src Source) {
	c.readSecret(src, "admin.token", &c.Admin.Token)
	c.readSecret(src, "upstream.api_key", &c.Upstream.APIKey)
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		u := c.Upstreams[name]
		c.readSecret(src, "upstreams."+string(name)+".api_key", &u.APIKey)
		c.Upstreams[name] = u
	}
}

func (c *Config) readSecret(src Source, key string, s *Secret) {
	if _, written := c.places[key]; !written {
		return
	}
	var text string
	switch {
	case s.Env != "" && s.File != "":
		c.problem(key, "has both env and file; keep one")
		return
	case s.Env != "":
		value, ok := src.Env(s.Env)
		if !ok || strings.TrimSpace(value) == "" {
			c.problem(key+".env", "%s is not set in the environment", s.Env)
			return
		}
		text = value
	case s.File != "":
		data, err := src.Read(relativeTo(c.Place(key).File, s.File))
		if err != nil {
			c.problem(key+".file", "%q cannot be read: %v", s.File, cause(err))
			return
		}
		if text = string(data); strings.TrimSpace(text) == "" {
			c.problem(key+".file", "%q is empty", s.File)
			return
		}
	default:
		return // what was there instead has been reported
	}
	text = strings.TrimSpace(text)
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		c.problem(key, "holds a space, line break or other byte that no header can carry")
		return
	}
	s.Value = proxy.NewSecret(text)
}
