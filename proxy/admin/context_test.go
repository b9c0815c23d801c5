package admin_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"sidenote/proxy/admin"
	"sidenote/rewrite"
)

// The admin port builds messages without an upstream and without a search, and dry runs show how
// chunks are handled.
func TestContext(t *testing.T) {
	url := listen(t, admin.NewServer(handler(func(h *admin.Handler) { h.Assembler = rewrite.NewAssembler(models{}) }).Handle, slog.New(slog.DiscardHandler)))
	const list = `"chunks":[{"id":"s1","type":"system","content":"Be <b>kind</b>."},{"id":"u1","type":"agent","role":"user","content":"Hi."}]`
	code, body := call(t, "POST", url+"/v1/context?tenant=acme", `{"model":"m",`+list+`,"context":{"exclude_types":["agent"]}}`)
	var built struct {
		Messages   []struct{ Role, Content string }
		TokenCount int                           `json:"token_count"`
		Included   []string                      `json:"included_chunk_ids"`
		Excluded   []struct{ ID, Reason string } `json:"excluded_chunk_ids"`
	}
	if err := json.Unmarshal([]byte(body), &built); err != nil || code != 200 {
		t.Fatalf("%d %v %s", code, err, body)
	}
	if len(built.Messages) != 1 || !strings.Contains(body, `<b>kind</b>`) || built.TokenCount == 0 || strings.Join(built.Included, "") != "s1" || len(built.Excluded) != 1 || built.Excluded[0].Reason != "exclude_types" {
		t.Errorf("%s", body)
	}
	for path, want := range map[string]string{
		"/v1/context":             `"param":"tenant"`,
		"/v1/context?tenant=acme": `"param":"chunks[0].id"`,
	} {
		if code, body := call(t, "POST", url+path, `{"chunks":[{"type":"system","content":"x"}]}`); code != 400 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, _ := call(t, "GET", url+"/v1/context?tenant=acme", ""); code != 405 {
		t.Errorf("GET: %d", code)
	}

	// Without chunks, components and sources are the messages.
	code, body = call(t, "POST", url+"/v1/context?tenant=acme", `{"model":"m","components":[{"name":"rules","text":"Be brief."}],"sources":[{"text":"Roma has forty rooms."}]}`)
	built.Messages = nil
	if err := json.Unmarshal([]byte(body), &built); err != nil || code != 200 {
		t.Fatalf("%d %v %s", code, err, body)
	}
	if len(built.Messages) != 1 || built.Messages[0].Role != "system" || !strings.Contains(built.Messages[0].Content, "Be brief.") || !strings.Contains(built.Messages[0].Content, "forty rooms") {
		t.Errorf("%s", body)
	}

	code, body = call(t, "POST", url+"/v1/rewrite?tenant=acme", `{"messages":[],"sidenote":{`+list+`}}`)
	var dry struct {
		Status string
		Ledger struct {
			Chunks struct {
				Included []string `json:"included_chunk_ids"`
			}
		}
		Request struct{ Messages []struct{ Content string } }
	}
	if err := json.Unmarshal([]byte(body), &dry); err != nil || code != 200 {
		t.Fatalf("%d %v %s", code, err, body)
	}
	if len(dry.Request.Messages) != 2 || len(dry.Ledger.Chunks.Included) != 2 || !strings.Contains(dry.Status, `chunks="2/2"`) {
		t.Errorf("%s", body)
	}
	if code, body := call(t, "POST", url+"/v1/rewrite?tenant=acme", `{"messages":[]}`); code != 400 {
		t.Errorf("%d %s", code, body)
	}
}
