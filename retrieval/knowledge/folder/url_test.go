package folder_test

import (
	"strings"
	"testing"

	"sidenote/retrieval/knowledge/folder"
)

// Documents have the address of their file, escaped; what names an address more exactly comes first.
func TestURL(t *testing.T) {
	files := map[string]string{
		"a b/ü&c=d.md": "Text.",
		"one.jsonl":    `{"id": "x", "text": "Text.", "attributes": {"url": "https://own/x"}}`,
	}
	got, _ := attributesOf(t, folder.Folder{URL: "https://wiki/w/{path}?raw=1"}, files)
	if url := got["a b/ü&c=d.md"]["url"]; url != "https://wiki/w/a%20b/%C3%BC%26c%3Dd.md?raw=1" {
		t.Errorf("url is %v", url)
	}
	for id, attributes := range got {
		if strings.HasPrefix(id, "one.jsonl") && attributes["url"] != "https://own/x" {
			t.Errorf("the record %s has the url %v", id, attributes["url"])
		}
	}
	got, _ = attributesOf(t, folder.Folder{Address: strings.ToUpper, Attributes: map[string]any{"lang": "en"}}, files)
	if a := got["a b/ü&c=d.md"]; a["url"] != "A B/Ü&C=D.MD" || a["lang"] != "en" {
		t.Errorf("attributes are %v", a)
	}
}

func TestURLThatIsNone(t *testing.T) {
	for url, want := range map[string]string{
		"wiki/{path}": "not the address", "javascript:{path}": "not the address", "https:///{path}": "not the address",
		"https://wiki/": "has no {path}", "https://wiki/{path}/{name}": "a { or }",
	} {
		if err := (folder.Folder{URL: url}).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

// A mirror is known by what it mirrors, wherever it is kept.
func TestOriginOfMirror(t *testing.T) {
	a, b := folder.Folder{Path: "/a", Remote: "git https://host/r"}, folder.Folder{Path: "/b", Remote: "git https://host/r"}
	if a.Origin() != b.Origin() || !strings.HasPrefix(a.Origin(), "git https://host/r ") {
		t.Errorf("origins are %q and %q", a.Origin(), b.Origin())
	}
}
