package config

import "sidenote/cmd/sidenote/internal/strictyaml"

// variablesOf returns the environment variables that a file may use. An included file needs the
// permission to read secrets, because the environment holds them.
func (c delegation) variablesOf(file string) strictyaml.Variables {
	v := strictyaml.Variables{Lookup: c.env}
	if !c.allows(file, maySecrets) {
		v.Refuse = func(key string) { c.forbidden(key, maySecrets, "is not for an included file to read") }
	}
	return v
}

// Written returns the position of a key's value and the variable that supplied it, if any; ok is
// false if the key is not written.
func Written(c *Config, key string) (at strictyaml.Place, env string, ok bool) {
	m, ok := c.places[key]
	return m.Place, m.Env, ok
}
