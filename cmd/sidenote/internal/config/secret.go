package config

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"

	"sidenote/proxy"
)

// readSecrets fetches the texts of all secrets. No problem ever shows one.
func (c *Config) readSecrets(src Source) {
	c.readSecret(src, "admin.token", &c.Admin.Token)
	c.readSecret(src, "upstream.api_key", &c.Upstream.APIKey)
	c.readRedis(src)
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		u := c.Upstreams[name]
		c.readSecret(src, "upstreams."+string(name)+".api_key", &u.APIKey)
		c.Upstreams[name] = u
	}
}

// setPlain refuses a secret that stands in the file itself.
func (s *Secret) setPlain(string) error {
	return errors.New("is a secret in plain text; write {env: NAME} or {file: PATH}")
}

// readSecret reads a secret that is one word.
func (c *Config) readSecret(src Source, key string, s *Secret) {
	text := c.secretText(src, key, s)
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		c.problem(key, "holds a space, line break or other byte that no header can carry")
		return
	}
	if text != "" {
		s.Value = proxy.NewSecret(text)
	}
}

// secretText returns what stands where s says, trimmed; "" where there is
// nothing, which has been reported if it is wrong.
func (c *Config) secretText(src Source, key string, s *Secret) string {
	if _, written := c.places[key]; !written {
		return ""
	}
	switch {
	case s.Env != "" && s.File != "":
		c.problem(key, "has both env and file; keep one")
	case s.Env != "":
		value, ok := src.Env(s.Env)
		if !ok || strings.TrimSpace(value) == "" {
			c.problem(key+".env", "%s is not set in the environment", s.Env)
		}
		return strings.TrimSpace(value)
	case s.File != "":
		data, err := src.Read(relativeTo(c.Place(key).File, s.File))
		if err != nil {
			c.problem(key+".file", "%q cannot be read: %v", s.File, cause(err))
		} else if len(bytes.TrimSpace(data)) == 0 {
			c.problem(key+".file", "%q is empty", s.File)
		}
		return string(bytes.TrimSpace(data))
	}
	return ""
}
