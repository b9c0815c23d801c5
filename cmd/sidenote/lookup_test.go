package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"sidenote/proxy/explain"
)

// The admin port explains a search like the command, also for a base in the state folder.
func TestSearchIsExplained(t *testing.T) {
	docs := handbook(t)
	var out, errs bytes.Buffer
	if code := Run(t.Context(), []string{"search", "parental leave", "--knowledge", "docs=" + docs, "--explain", "--json"}, strings.NewReader(""), &out, &errs,
		func(string) (string, bool) { return "", false }); code != 0 {
		t.Fatal(errs.String())
	}
	p := serve(t, "--upstream", newRecorder(t).URL, "--knowledge", "docs="+docs, "--state", t.TempDir())
	p.readyz(t, `{"status":"ready"}`)
	read := func(text string) (a explain.Lookup) {
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatal(err)
		}
		a.TookMS, a.Knowledge, a.Cache = 0, nil, ""
		return a
	}
	want, got := read(out.String()), read(p.asks(t, "POST", "/v1/search?tenant=default", `{"query":"parental leave","explain":true}`, 200))
	if len(want.Terms) == 0 || want.Floor == 0 || len(want.Stages) == 0 || len(want.Data) == 0 || len(want.Data[0].Terms) == 0 || !reflect.DeepEqual(want, got) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if plain := read(p.asks(t, "POST", "/v1/search?tenant=default", `{"query":"parental leave"}`, 200)); plain.Terms != nil || plain.Stages != nil {
		t.Errorf("not asked for: %+v", plain)
	}
	p.asks(t, "POST", "/v1/knowledge", `{"id":"notes"}`, 201)
	p.asks(t, "PUT", "/v1/knowledge/notes/documents/a.md", `{"text":"Tricycles are parked in the garage."}`, 201)
	p.asks(t, "POST", "/v1/search", `{"query":"tricycles","knowledge":["notes"],"explain":true}`, 200, `"terms":[{"term":"tricycl","score":`)
	p.asks(t, "POST", "/v1/read?model=gpt-4o", `{"knowledge":"notes","document":"a.md"}`, 200, `"total_chunks":1,"data":[{"chunk":0,"text":"Tricycles are parked in the garage.","tokens":9}],"tokens":9,"next":null}`)
}
