package extract_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge/extract"
)

// Sender, recipients and date of a message are attributes; addresses are in lower case, dates in
// UTC.
func TestMailAttributes(t *testing.T) {
	const text = "From: \"Ann, the first\" <Ann@Example.com>\nTo: =?utf-8?q?Zo=C3=AB?= <zoe@example.com>, bob@example.com\n" +
		"Cc: c@example.com\nDate: Fri, 1 Mar 2024 23:30:00 -0200\nSubject: a\n b\n\nText.\n"
	documents, err := extract.Read(extract.EML, "a.eml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"from": "ann@example.com", "to": []string{"zoe@example.com", "bob@example.com", "c@example.com"}, "date": "2024-03-02T01:30:00Z"}
	if diff := cmp.Diff(want, documents[0].Attributes); diff != "" || documents[0].Name != "a b" {
		t.Errorf("name %q, attributes (-want +got):\n%s", documents[0].Name, diff)
	}
}

// What can be read of a damaged message is read, and others in its mailbox are not affected.
func TestDamagedMail(t *testing.T) {
	const torn = "To: a@b\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\nThe first part.\n--x\n\nThe sec"
	const line = "From a Mon Jan  1 00:00:00 2024\n"
	for _, tc := range []struct{ name, text, broken, read string }{
		{"a.eml", torn, "ends too early", "The first part."},
		{"a.eml", "no header", "no header", ""},
		{"a.eml", "To: a@b\n: x\nwithout colon\nSubject: s\n\nThe text.", "", "The text."},
		{"a.eml", "To: a@b\nContent-Type: x; x\nDate: never\n\nThe text.", "", "The text."},
		{"a.eml", "To: a@b\nContent-Type: text/plain; charset=nonsense\n\ncaf\xe9", "", "café"},
		{"a.eml", "To: a@b\nContent-Type: text/plain; charset=utf-8\n\ncafé", "", "café"},
		{"a.eml", "To: a@b\nContent-Type: text/plain; charset=koi8-r\n\n\xf4\xc5\xcb\xd3\xd4", "", "Текст"},
		{"a.mbox", line + torn + "\n\n" + line + "To: a@b\n\nA whole one.", "message 1: it ends too early", "A whole one."},
		{"a.mbox", line + "\n\n" + line + "\nTo: a@b\n\n" + line + "To: a@b\n\nA whole one.", "2 messages cannot be read as a whole; message 1", "A whole one."},
		{"a.mbox", "To: a@b\n\ntext", "no mailbox", ""},
	} {
		documents, err := extract.Read(extract.Of(tc.name), tc.name, []byte(tc.text))
		var text strings.Builder
		for _, d := range documents {
			text.WriteString(d.Text)
		}
		if !strings.Contains(text.String(), tc.read) || (err != nil) != (tc.broken != "") || err != nil && !strings.Contains(err.Error(), tc.broken) {
			t.Errorf("%q: %v, text %q", tc.text, err, text.String())
		}
		if broken := (*extract.Broken)(nil); err != nil && !errors.As(err, &broken) {
			t.Errorf("%q: %v is not Broken", tc.text, err)
		}
	}
}
