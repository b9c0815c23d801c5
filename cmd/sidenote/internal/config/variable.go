package config

import "sidenote/cmd/sidenote/internal/strictyaml"

// variablesOf returns the variables of a file. An included file may only use them where it
// may read secrets, because the environment holds these.
func (c delegation) variablesOf(file string) strictyaml.Variables {
	v := strictyaml.Variables{Lookup: c.env}
	if !c.allows(file, maySecrets) {
		v.Refuse = func(key string) { c.forbidden(key, maySecrets, "is not for an included file to read") }
	}
	return v
}

// Written returns where the value of a key stands, and the variable that it was read from,
// if any; false where nobody wrote it.
func Written(c *Config, key string) (at strictyaml.Place, env string, ok bool) {
	m, ok := c.places[key]
	return m.Place, m.Env, ok
}
