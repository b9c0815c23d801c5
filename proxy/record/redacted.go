package record

import "strings"

// IsRedacted reports whether something was removed from a text by a Redactor.
func IsRedacted(text string) bool {
	for _, mark := range [...]string{anEmail, aNumber, aKey, aRedacted} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return false
}
