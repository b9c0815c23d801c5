package extract

import (
	"regexp"
	"strings"
)

// maxSignature is how many bytes of a line are searched for a name.
const maxSignature = 400

// These patterns are matched only after a cheap check of the line, because a match takes
// microseconds and files have up to a hundred thousand lines.
var (
	// bound matches functions assigned to a name.
	bound = regexp.MustCompile(`^\s*(?:export\s+)?(?:default\s+)?(?:const|let|var|val|local)\s+([\w$]+)\s*(?::[^=]*)?=`)
	// called matches declarations by type and name, as in C and Java.
	called = regexp.MustCompile(`^\s*(?:[\w:*&<>\[\],~@?]+\s+)+[*&]*([\w:~$]+)\s*\([^;]*$`)
	// created matches declarations in SQL.
	created = regexp.MustCompile(`(?i)^\s*(?:create|alter)\s+(?:or\s+replace\s+)?(?:\w+\s+){0,3}?(?:table|view|function|procedure|index|trigger|type|schema)\s+(?:if\s+not\s+exists\s+)?["'\x60\[]?([\w.]+)`)
	// targets matches declarations in shell scripts and makefiles.
	targets = regexp.MustCompile(`^(?:function\s+)?([\w.%/-]+)\s*(?:\(\)|::?(?:[^=]|$))`)
	// methods matches methods in JavaScript.
	methods = regexp.MustCompile(`^\s*(?:(?:async|static|get|set|public|private|protected|readonly|override)\s+)*([\w$#]+)\s*\([^;]*\{\s*$`)
)

// nameOf returns the name that a line declares; "" if it declares nothing.
func nameOf(lang, text string) string {
	text = strings.TrimRight(text[:min(len(text), maxSignature)], "\n")
	first := strings.TrimLeft(text, " \t")
	if statement(first[:span(first, inWord)]) {
		return ""
	}
	name := ""
	match := func(p *regexp.Regexp, needs string) {
		if name == "" && strings.Contains(text, needs) {
			if m := p.FindStringSubmatch(text); m != nil {
				name = m[1]
			}
		}
	}
	switch lang {
	case "sql":
		match(created, "")
		return strings.TrimRight(name, ":")
	case "sh", "makefile", "ps1":
		match(targets, "")
	}
	if name == "" {
		name = keyworded(text)
	}
	switch lang {
	case "js", "ts":
		match(bound, "=")
		match(methods, "(")
	case "c", "cpp", "java", "cs", "dart", "groovy", "m":
		match(called, "(")
	case "scala", "kt", "swift", "lua":
		match(bound, "=")
	}
	return strings.TrimRight(name, ":")
}

// maxModifiers is how many words may precede the keyword of a declaration, as in "public
// static final class".
const maxModifiers = 6

// keyworded returns the name of a declaration that begins with a keyword.
func keyworded(text string) string {
	for range maxModifiers + 1 {
		text = strings.TrimLeft(text, " \t")
		word := text[:span(text, func(c rune) bool { return c != ' ' && c != '\t' })]
		rest := text[len(word):]
		if generics, ok := strings.CutPrefix(text, "impl<"); ok {
			word, rest = "impl", generics[closing(generics):]
		}
		if after := strings.TrimLeft(rest, " \t"); len(after) < len(rest) && declarer(word) {
			after = strings.TrimPrefix(after, `"`)
			if n := span(after, inName); n > 0 {
				return after[:n]
			}
		}
		if word == "" || span(word, inModifier) < len(word) {
			return ""
		}
		text = rest
	}
	return ""
}

// closing returns the offset at which the bracket < that is open before text is closed.
func closing(text string) int {
	open := 1
	for i := range len(text) {
		switch text[i] {
		case '<':
			open++
		case '>':
			if open--; open == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// span returns the length of the leading characters for which is returns true.
func span(text string, is func(c rune) bool) int {
	return len(text) - len(strings.TrimLeftFunc(text, is))
}

func inWord(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

func inName(c rune) bool     { return inWord(c) || strings.ContainsRune("$.:~-", c) }
func inModifier(c rune) bool { return inWord(c) || strings.ContainsRune("@().:<>[]-", c) }

// declarer reports whether a word begins a declaration in some language.
func declarer(word string) bool {
	switch word {
	case "func", "fn", "def", "class", "struct", "enum", "interface", "trait", "impl", "type", "typedef", "module", "mod", "namespace",
		"function", "function*", "sub", "proc", "record", "union", "protocol", "extension", "object", "message", "service", "resource",
		"data", "variable", "provider", "macro_rules!", "defmodule", "defp", "defn", "defun", "task", "method":
		return true
	}
	return false
}

// statement reports whether a word begins a statement that looks like a declaration.
func statement(word string) bool {
	switch word {
	case "if", "else", "for", "while", "switch", "return", "throw", "catch", "case", "new", "delete", "await", "using", "elif", "with",
		"assert", "raise", "yield", "goto", "import", "from", "package", "use", "require", "include", "sizeof":
		return true
	}
	return false
}
