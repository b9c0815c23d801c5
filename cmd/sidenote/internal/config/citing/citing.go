// Package citing reads what policies say of the citations in answers.
package citing

import (
	"sidenote/cmd/sidenote/internal/config/port"
	"sidenote/proxy/cited"
)

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

// Default is off.
func Default() Annotations { return Annotations{Add: port.Off, Unknown: unknownKeep} }

// Policy is what package cited reads.
func (a Annotations) Policy() cited.Policy {
	on := a.Add != port.Off
	return cited.Policy{Annotate: on, RemoveUnknown: on && a.Unknown == unknownRemove}
}
