package config

import "sidenote/proxy/cited"

// What becomes of citations of what was never given.
const (
	unknownKeep   = "keep"
	unknownRemove = "remove"
)

// Annotations say what becomes of the citations in answers.
type Annotations struct {
	Add     string `yaml:"add" of:"off|on"`
	Unknown string `yaml:"unknown" of:"keep|remove"` // ids that were never given
}

func (a Annotations) policy() cited.Policy {
	return cited.Policy{Annotate: a.Add != Off, RemoveUnknown: a.Add != Off && a.Unknown == unknownRemove}
}

// checkAnnotations refuses what would have no effect.
func checkAnnotations(c checker, key string, a Annotations) {
	_, written := c.places[key]
	if _, named := c.places[key+".add"]; a.Add == Off && written && !named {
		c.problem(key+".add", "is missing; say on")
	}
}
