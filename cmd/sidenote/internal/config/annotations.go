package config

// checkAnnotations refuses settings without effect.
func checkAnnotations(c checker, key string, a annotations) {
	_, written := c.places[key]
	if _, named := c.places[key+".add"]; a.Add == Off && written && !named {
		c.problem(key+".add", "is missing; say on")
	}
}
