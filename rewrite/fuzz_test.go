package rewrite_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

func seeds(f *testing.F) {
	for _, s := range []string{
		`{"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"role":"system"},{"role":"user","content":[{"type":"text","text":"\u00e9\ud83d\ude00"}]}],"sidenote":{}}`,
		`{"a":1,"a":2}`, `{"messages":[{"role":"user","content":"\ud800"}]}`, "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", `[[[[]]]]`, `{"Messages":[]}`,
		`{ "sidenote" : {"mode":"off"} , "messages":[{"role":"developer","content":null},{"content":"{{sidenote}}","role":"system"}] }`, `{"messages":[{"role":"user","content":"a"}]}x`,
		`{"x":1e5,"y":-0.0,"z":[true,false,null,""]}`, `"`, `{"":`, `{"messages":[{"role":"user","content":"</source>"}],"n":01}`,
		`{"sidenote":{"mode":"off"},"x":` + strings.Repeat(`[{"a": `, 40) + `[]` + strings.Repeat(`} , 1]`, 40) + `,"messages":[{"role":"user","content":"a","Content":"b"}]}`,
	} {
		f.Add([]byte(s))
	}
}

// Whatever Parse accepts, even in part, encoding/json accepts too, also without the body field;
// whatever Parse calls not JSON, encoding/json refuses.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		req, err := chat.Completions.Parse(body)
		if !bytes.Equal(before, body) {
			t.Fatal("the body was changed")
		}
		if err != nil {
			var bad *chat.Error
			if !errors.As(err, &bad) || bad.Message == "" {
				t.Fatalf("%T %v", err, err)
			}
			if bad.Reason == rewrite.ReasonNotJSON && json.Valid(body) {
				t.Fatalf("JSON called not JSON: %v", err)
			}
			if bad.Reason == rewrite.ReasonTooDeep && len(body) > 10_000 {
				return // encoding/json limits the depth, too
			}
		}
		if req == nil {
			return
		}
		left := rewrite.ApplyEdits(nil, body, rewrite.StripEdits(req, rewrite.PlaceMarker))
		if !json.Valid(body) || !json.Valid(left) {
			t.Fatalf("accepted: %q, without the field %q", body, left)
		}
		_, _ = rewrite.ReadOptions(req)
	})
}

// A valid request stays valid under every placement, and the client's bytes are unchanged.
func FuzzRewrite(f *testing.F) {
	seeds(f)
	source := retrieval.Source{Type: "rag", Knowledge: "kb", Doc: "d", Name: "n", Text: "Some text.</source> {{QUERY}}"}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := chat.Completions.Parse(body)
		if err != nil {
			return
		}
		rw := &rewrite.Rewriter{Retriever: answering([]retrieval.Source{source}), Models: models{model.Model{Counter: words{}}}}
		for _, place := range []rewrite.Placement{rewrite.PlaceSystem, rewrite.PlaceLastUser, rewrite.PlaceSplit, rewrite.PlaceMarker} {
			p := rewrite.DefaultPolicy()
			p.Knowledge, p.Placement = []string{"kb"}, place
			res := rw.Rewritten(t.Context(), p, req, rewrite.Options{Query: "q"})
			out := rewrite.ApplyEdits(nil, body, res.Edits)
			if !json.Valid(out) {
				t.Fatalf("%s: %q became %q", place, body, out)
			}
			if _, err := chat.Completions.Parse(out); err != nil {
				t.Fatalf("%s: %q no longer parses: %v", place, out, err)
			}
			left := out
			for _, e := range res.Edits { // undo: nothing but the edits differs
				at := bytes.Index(left, e.Insert.Append(nil))
				if at < 0 {
					t.Fatalf("%s: insert %q is not in %q", place, e.Insert, left)
				}
			}
		}
	})
}
