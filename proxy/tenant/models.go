package tenant

import (
	"fmt"
	"strings"

	"sidenote/proxy/report"
)

// Models lists the models that requests may name: each by its name, or many by a prefix
// that ends in '*'. Letter case counts. A nil list allows every model, an empty one none.
type Models []string

// Has tells whether the list allows a model.
func (m Models) Has(name string) bool {
	if m == nil {
		return true
	}
	for _, pattern := range m {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasPrefix(name, prefix) || name == pattern {
			return true
		}
	}
	return false
}

// Allow returns an *APIError for the first of names that the list does not have: the one with
// which OpenAI refuses models that do not exist.
func (m Models) Allow(names ...string) error {
	for _, name := range names {
		if !m.Has(name) {
			return modelError("The model `%s` does not exist or you do not have access to it.", Shortened(name))
		}
	}
	return nil
}

// maxShownModel is how many bytes of a model's name an error shows: a body may hold a
// long one.
const maxShownModel = 128

// Shortened is the name of a model as an error shows it.
func Shortened(name string) string {
	if len(name) <= maxShownModel {
		return name
	}
	return strings.ToValidUTF8(name[:maxShownModel], "") + "…"
}

func modelError(format string, args ...any) *APIError {
	return &APIError{Reason: report.ReasonModel, Message: fmt.Sprintf(format, args...)}
}

// ReadsBodies tells whether a request whose body cannot be read is refused rather than
// relayed.
func (p *Policy) ReadsBodies() bool { return p.Models != nil || p.Strict() }
