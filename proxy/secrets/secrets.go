// Package secrets finds API keys in texts that are shown or kept, and masks them.
package secrets

import "strings"

// Mask replaces everything that looks like a key by "(a key)": keys of OpenAI's form, including
// Sidenote's, what follows "bearer", and values of members with names such as api_key. It reads
// the text once, since a request may have a megabyte of it.
func Mask(text string) string {
	var masked strings.Builder
	written := 0
	for i := 0; i < len(text); {
		from, to, next := keyAt(text, i)
		if to > 0 {
			masked.WriteString(text[written:from])
			masked.WriteString("(a key)")
			written = to
		}
		i = next
	}
	if written == 0 {
		return text
	}
	masked.WriteString(text[written:])
	return masked.String()
}

// keyAt returns the range of a key that is recognised at i, and where to continue. to is 0 if
// there is none.
func keyAt(text string, i int) (from, to, next int) {
	switch text[i] {
	case 's', 'S', 'b', 'B':
		if to = endOfKey(text, i); to > 0 {
			return i, to, to
		}
	case '"':
		if from, to = secretValue(text, i); from > 0 {
			return from, to, min(to+len(`"`), len(text))
		}
	}
	return 0, 0, i + 1
}

// endOfKey returns the end of the key, or of the word bearer with a key, that begins at i; 0 if
// there is none.
func endOfKey(text string, i int) int {
	const least = 8 // minimum bytes of a key
	if i > 0 && (text[i-1] == '_' || isAlphanumeric(text[i-1])) {
		return 0
	}
	start, marks := i, "_-"
	switch {
	case hasPrefixFold(text[i:], "sk-"):
		start += len("sk-")
	case hasPrefixFold(text[i:], "bearer "):
		start += len("bearer ")
		start += len(text[start:]) - len(strings.TrimLeft(text[start:], " "))
		marks = "._~+/=-"
	default:
		return 0
	}
	end := start
	for end < len(text) && (isAlphanumeric(text[end]) || strings.IndexByte(marks, text[end]) >= 0) {
		end++
	}
	if end-start < least {
		return 0
	}
	return end
}

// secretValue returns the range of the value of a secret member whose name begins at i; from is 0
// if there is none.
func secretValue(text string, i int) (from, to int) {
	end := i + 1
	for end < len(text) && (text[end] == '_' || text[end] == '-' || isAlphanumeric(text[end]) && text[end] > '9') {
		end++
	}
	rest, named := strings.CutPrefix(text[end:], `"`)
	if !named || !IsName(text[i+1:end]) {
		return 0, 0
	}
	const space = " \t\r\n\f"
	rest, colon := strings.CutPrefix(strings.TrimLeft(rest, space), ":")
	rest, quote := strings.CutPrefix(strings.TrimLeft(rest, space), `"`)
	if !colon || !quote {
		return 0, 0
	}
	from = len(text) - len(rest)
	for to = from; to < len(text) && text[to] != '"'; to++ {
		if text[to] == '\\' {
			to++
		}
	}
	return from, min(to, len(text))
}

// secretNames are suffixes of the names of secret members. The names key and token are secret,
// too.
var secretNames = [...]string{
	"apikey", "api_key", "api-key", "accesstoken", "access_token", "access-token", "connectionstring", "connection_string", "connection-string",
	"authorization", "password", "secret",
}

// IsName reports whether a member of that name holds a key.
func IsName(name string) bool {
	if strings.EqualFold(name, "key") || strings.EqualFold(name, "token") {
		return true
	}
	for _, end := range secretNames {
		if n := len(name) - len(end); n >= 0 && strings.EqualFold(name[n:], end) {
			return true
		}
	}
	return false
}

func isAlphanumeric(b byte) bool { return b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z' }

func hasPrefixFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}
