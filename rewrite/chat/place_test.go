package chat

import "testing"

// The text of an insertion has no line feeds at its ends. An escaped backslash followed by n is
// not a line feed.
func TestTextOfAnInsertion(t *testing.T) {
	f := Frame{open: `{"content":"`, close: `"}`}
	for text, want := range map[string]string{
		"\n\na\nb\n":   "a\nb",
		"\n":           "",
		"":             "",
		`\n a \n`:      `\n a \n`,
		"\n" + `c:\n`:  `c:\n`,
		"a\\\\\n\n":    `a\\`,
		"\"\n\\\"\n\n": "\"\n\\\"",
	} {
		if got := Unescape(f.Text(f.JSON([]string{text}))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
