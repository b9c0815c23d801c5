package extract_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge/extract"
)

// A document's attributes are texts, numbers or bools by name; other values are left out and
// reported with the reason.
func TestAttributes(t *testing.T) {
	type attributes = map[string]any
	f := func(name, text, reason string, want ...attributes) {
		t.Helper()
		documents, err := extract.Read(extract.Of(name), name, []byte(text))
		var got []attributes
		for _, d := range documents {
			got = append(got, d.Attributes)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: attributes (-want +got):\n%s", text, diff)
		}
		said := ""
		if err != nil {
			said = err.Error()
		}
		if said != reason {
			t.Errorf("%s: %q, want %q", text, said, reason)
		}
	}
	f("a.md", "# No front matter\n", "", nil)
	f("a.jsonl", `{"id":1,"title":"T","text":"x","lang":"en","n":2,"f":-0.5,"ok":true,"none":null}`, "",
		attributes{"lang": "en", "n": 2.0, "f": -0.5, "ok": true})
	f("a.jsonl", `{"text":"x","lang":"en","attributes":{"lang":"de","year":2024}}`, "", attributes{"lang": "de", "year": 2024.0})
	f("a.jsonl", `{"text":"x","tags":["b","a","b"],"none":[],"mixed":["a",null]}`,
		"attributes left out: mixed (an object, or a list of other things than texts)", attributes{"tags": []string{"b", "a", "b"}})
	f("a.jsonl", `{"text":"x","attributes":"y"}`, "attributes left out: attributes (no object)", nil)
	f("a.jsonl", `{"text":"x","l":[1,"a"],"o":{"a":1},"n":1e999,"w":9007199254740993}`,
		"attributes left out: l (an object, or a list of other things than texts), n (no finite number), o (an object, or a list of other things than texts), and 1 more", nil)
	f("a.jsonl", `{"text":"x","v":1}`+"\n"+`{"text":"y","v":"1"}`+"\n"+`{"text":"z","v":2}`,
		"attributes left out: v (of another type than before)", attributes{"v": 1.0}, nil, attributes{"v": 2.0})
	f("a.jsonl", `{"text":"x","":1,"a\nb":2}`, "attributes left out: a name that nobody could write", nil)
	f("a.jsonl", `{"text":"x","long":"`+strings.Repeat("x", 2000)+`"}`, "attributes left out: long (a text that is too long)", nil)
	f("a.jsonl", "{broken\n"+`{"text":"x","l":[{}]}`, "line 1 is not JSON; attributes left out: l (an object, or a list of other things than texts)", nil)
	// The fields of a record without a text are in its text.
	f("a.jsonl", `{"question":"Why?","tags":["a"],"attributes":{"lang":"en"}}`, "", attributes{"question": "Why?", "lang": "en", "tags": []string{"a"}})
	f("a.json", `[{"text":"x","a":1},{"text":"y"}]`, "", attributes{"a": 1.0}, nil)
}

// The number of attributes of a document is limited.
func TestManyAttributes(t *testing.T) {
	text := numbered(`{"text":"x"`, `,"k%d":1`)(10_000) + "}"
	documents, err := extract.Read(extract.JSONLines, "a.jsonl", []byte(text))
	if err == nil || err.Error() != "attributes left out: more attributes or list elements than allowed" || len(documents) != 1 || len(documents[0].Attributes) != extract.MaxAttributes {
		t.Errorf("%d documents, %v", len(documents), err)
	}
}

// Files without content are documents without text, whatever their format.
func TestEmpty(t *testing.T) {
	for _, name := range []string{"a.md", "a.txt", "a.html", "a.json", "a.jsonl", "a.csv", "a.py"} {
		for _, text := range []string{"", "\xef\xbb\xbf", "\xff\xfe", " \n"} {
			documents, err := extract.Read(extract.Of(name), name, []byte(text))
			if err != nil || len(documents) > 1 || len(documents) == 1 && strings.TrimSpace(documents[0].Text) != "" {
				t.Errorf("%s of %q: %v, %v", name, text, documents, err)
			}
		}
	}
}

// CSV is recognized as spreadsheets write it.
func TestCSV(t *testing.T) {
	for text, want := range map[string]string{
		"name,note\n\"Doe, Jane\",\"said \"\"hi\"\"\nand left\"\nBob,x\n": "name: Doe, Jane\nnote: said \"hi\"\nand left\n\nname: Bob\nnote: x\n\n",
		"a,b,c\n1,2\n1,2,3,4\n\n,,\n5\n":                                  "a: 1\nb: 2\n\na: 1\nb: 2\nc: 3\n4\n\na: 5\n\n",
		"name;price\nDesk;3,50\n":                                         "name: Desk\nprice: 3,50\n\n",
		"sep=;\r\nname;price\r\nDesk;3,50\r\n":                            "name: Desk\nprice: 3,50\n\n",
		"country,2019,2020\nNorway,1,2\n":                                 "country: Norway\n2019: 1\n2020: 2\n\n",
		"a,b\n5\" disk,x\nok,y\n":                                         "a: 5\" disk\nb: x\n\na: ok\nb: y\n\n",
		"a,b\r1,2\r":                                                      "a: 1\nb: 2\n\n",
		"only,a,head\n":                                                   "only, a, head",
	} {
		d, err := extract.Read(extract.CSV, "x.csv", []byte(text))
		if err != nil || d[0].Text != want {
			t.Errorf("%q: %q, %v; want %q", text, d, err, want)
		}
	}
}
