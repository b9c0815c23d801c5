package tenant

import (
	"fmt"
	"strings"

	"sidenote/proxy/report"
)

// Models lists the models that requests may name, by exact name or by a prefix that ends in '*'.
// Letter case matters. A nil list allows every model, an empty one none.
type Models []string

// Allows reports whether the list allows a model.
func (m Models) Allows(name string) bool {
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

// Allow returns an *APIError for the first name that the list does not allow. It is OpenAI's error
// for a model that does not exist.
func (m Models) Allow(names ...string) error {
	for _, name := range names {
		if !m.Allows(name) {
			return modelError("The model `%s` does not exist or you do not have access to it.", Shortened(name))
		}
	}
	return nil
}

// maxShownModel limits the bytes of a model's name in an error.
const maxShownModel = 128

// Shortened returns a model's name cut to the length for error messages.
func Shortened(name string) string {
	if len(name) <= maxShownModel {
		return name
	}
	return strings.ToValidUTF8(name[:maxShownModel], "") + "…"
}

func modelError(format string, args ...any) *APIError {
	return &APIError{Reason: report.ReasonModel, Message: fmt.Sprintf(format, args...)}
}

// ReadsBodies reports whether a request with an unreadable body is refused rather than relayed.
func (p *Policy) ReadsBodies() bool { return p.Models != nil || p.Strict() }
