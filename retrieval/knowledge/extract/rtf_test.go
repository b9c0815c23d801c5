package extract_test

import (
	"strings"
	"testing"

	"sidenote/retrieval/knowledge/extract"
)

// Of a file that is cut off, what stands before the end is read.
func TestTornRTF(t *testing.T) {
	for _, tc := range []struct{ raw, broken, read string }{
		{`{\rtf1 One.\par Two`, "ends too early", "One.\n\nTwo\n"},
		{`{\rtf1 One.\par{\bin9 x}`, "ends too early", "One.\n"},
		{`{\rtf1 One.\'e`, "ends too early", "One.\n"},
		{`{\rtf1 One.}} more`, "", "One.\n"},
		{`\rtf1`, "no RTF", ""},
		{``, "no RTF", ""},
	} {
		documents, err := extract.Read(extract.RTF, "a.rtf", []byte(tc.raw))
		text := ""
		for _, d := range documents {
			text += d.Text
		}
		if text != tc.read || (err != nil) != (tc.broken != "") || err != nil && !strings.Contains(err.Error(), tc.broken) {
			t.Errorf("%s: %v, text %q", tc.raw, err, text)
		}
	}
}
