package config

import (
	"sidenote/proxy/answer"
)

// What happens to citations of sources that were not given.
const (
	unknownKeep   = "keep"
	unknownRemove = "remove"
)

// annotations say what happens to citations in answers.
type annotations struct {
	Add     string `yaml:"add" of:"off|on"`
	Unknown string `yaml:"unknown" of:"keep|remove"` // citations of ids that were not given
}

// defaultCitations is off.
func defaultCitations() annotations { return annotations{Add: Off, Unknown: unknownKeep} }

// Policy converts the settings for package answer.
func (a annotations) Policy() answer.Policy {
	on := a.Add != Off
	return answer.Policy{Annotate: on, RemoveUnknown: on && a.Unknown == unknownRemove}
}
