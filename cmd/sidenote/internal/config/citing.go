package config

import (
	"sidenote/proxy/answer"
)

// What becomes of citations of what was never given.
const (
	unknownKeep   = "keep"
	unknownRemove = "remove"
)

// annotations say what becomes of the citations in answers.
type annotations struct {
	Add     string `yaml:"add" of:"off|on"`
	Unknown string `yaml:"unknown" of:"keep|remove"` // ids that were never given
}

// defaultCitations is off.
func defaultCitations() annotations { return annotations{Add: Off, Unknown: unknownKeep} }

// Policy is what package cited reads.
func (a annotations) Policy() answer.Policy {
	on := a.Add != Off
	return answer.Policy{Annotate: on, RemoveUnknown: on && a.Unknown == unknownRemove}
}
