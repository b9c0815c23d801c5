package admin_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/tools/toolstest"
)

// A document is read in chunks within a token limit, from any chunk to its end; documents hidden
// by the tenant's filter are not found, and errors name the field at fault.
func TestRead(t *testing.T) {
	k, as := toolstest.Open(t, map[string][]chunk.Document{"kb1": toolstest.Staff(), "kb2": {{ID: "b.md", Text: "Bees."}}})
	url := listen(t, admin.NewServer(handler(func(h *admin.Handler) {
		h.Lookup.Reader = k.Reader
		h.Tenants.ByName("acme").Rewrite.Filter = as.Filter
	}).Handle, slog.New(slog.DiscardHandler)))

	var texts []string
	for next, pages := new(int), 0; next != nil; pages++ {
		var r explain.Reading
		code, got := call(t, "POST", url+"/v1/read?tenant=acme", fmt.Sprintf(`{"knowledge":"kb1","document":"guide.md","first":%d,"max_tokens":3000}`, *next))
		if err := json.Unmarshal([]byte(got), &r); code != 200 || err != nil || r.Tokens > 3000 || len(r.Data) == 0 || r.Data[0].Chunk != *next || pages > 99 {
			t.Fatalf("%d %s", code, got)
		}
		for _, c := range r.Data {
			if c.Tokens != len(c.Text) || c.Cut { // the test's counter counts bytes
				t.Errorf("%+v", c)
			}
			texts = append(texts, c.Text)
		}
		next = r.Next
	}
	if len(texts) < 4 || !strings.Contains(strings.Join(texts, ""), "velocity") {
		t.Errorf("%d texts", len(texts))
	}
	for _, c := range []struct {
		path, body, want string
		code             int
	}{
		{"/v1/read?tenant=acme", `{"knowledge":"kb1","document":"guide.md","max_tokens":50}`, `"cut":true`, 200},
		{"/v1/read?tenant=acme", `{"knowledge":"kb1","document":"guide.md","chunks":1,"max_tokens":9000}`, `"next":1}`, 200},
		{"/v1/read?tenant=acme", `{"knowledge":"kb1","document":"secret.md"}`, `"param":"document"`, 400},
		{"/v1/read", `{"knowledge":"kb1","document":"secret.md"}`, `Zephyr`, 200},
		{"/v1/read", `{"knowledge":"kb2","document":"b.md"}`, `"text":"Bees."`, 200},
		{"/v1/read?tenant=acme", `{"knowledge":"kb2","document":"b.md"}`, `"param":"knowledge"`, 400},
		{"/v1/read", `{"document":"b.md"}`, `"param":"knowledge"`, 400},
		{"/v1/read", `{"knowledge":"kb2"}`, `"param":"document"`, 400},
		{"/v1/read", `{"knowledge":"kb2","document":"b.md","first":7}`, `"param":"first"`, 400},
		{"/v1/read", `{"knowledge":"kb2","document":"b.md","first":-1}`, `"param":"first"`, 400},
		{"/v1/read", `{"knowledge":"kb2","document":"b.md","first":9000000000}`, `first is 9000000000; it goes from 0 to 1073741824.`, 400},
		{"/v1/read", `{"knowledge":"kb2","document":"b.md","chunks":0}`, `"param":"chunks"`, 400},
		{"/v1/read", `{"knowledge":"kb2","document":"b.md","max_tokens":49}`, `"param":"max_tokens"`, 400},
		{"/v1/read", `{"knowledge":"kb2","doc":"b.md"}`, `The body is not a reading: unknown field`, 400},
		{"/v1/read?tenant=nobody", `{"knowledge":"kb2","document":"b.md"}`, `"param":"tenant"`, 400},
	} {
		if code, got := call(t, "POST", url+c.path, c.body); code != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %d %s", c.path, c.body, code, got)
		}
	}
}
