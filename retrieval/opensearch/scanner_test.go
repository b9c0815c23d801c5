package opensearch

import (
	"encoding/json"
	"testing"
)

// FuzzScanner checks that a scanner reads valid JSON as package json does, and ends on any other.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,"x\"\\",null,{"b":{}}],"c":"é\n"}`, `{"a":`, `{"a":"\\\""}`, `[]`, `{`, `{"a" 1}`, `{"a":1,}`, `{"a":[1 2]}`, `nope`, "", `{"a":"`, `{"a":null, "b" : 2.5e3 }`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := scanner{text: text}
		got := map[string]string{}
		for key := range s.fields {
			if s.peek() == '"' {
				got[key] = s.str()
			} else {
				delete(got, key)
			}
		}
		var want map[string]any
		if json.Unmarshal([]byte(text), &want) != nil || len(text) > 0 && text[0] != '{' {
			return
		}
		if s.bad {
			t.Fatalf("%s is refused", text)
		}
		for key, v := range want {
			v, isText := v.(string)
			if have, ok := got[key]; ok != isText || have != v {
				t.Errorf("%s: %q is %q, want %q", text, key, have, v)
			}
		}
	})
}
