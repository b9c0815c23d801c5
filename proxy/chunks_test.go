package proxy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
	"sidenote/rewrite/chunks"
)

const chunkField = `"sidenote":{"chunks":[{"id":"s1","type":"system","content":"Be kind."},{"id":"u1","type":"agent","role":"user","content":"Earlier."},` +
	`{"id":"e1","type":"environment","content":"out","metadata":{"tool":"t"}}],"context":{"exclude_types":["environment"]}}`

// Chunks are part of the application's conversation: they are sent in every mode, even if the kill
// switch or an unreadable part prevents sources, and the status counts them.
func TestChunksGoUpInEveryMode(t *testing.T) {
	for _, c := range []struct{ mode, status string }{
		{"inject", `injected; chunks="2/3"; sources=1;`}, {"shadow", `shadow; chunks="2/3"`}, {"off", `untouched; reason=off; chunks="2/3"`},
	} {
		u := newUpstream(t, answerJSON("{}"))
		g := open(t, u, nil)
		resp, _ := g.post(t, strings.Replace(chatBody, `"model"`, chunkField+`, "model"`, 1), "Sidenote-Mode: "+c.mode)
		sent := u.next(t).body
		if status := resp.Header.Get(report.HeaderStatus); !strings.HasPrefix(status, c.status) {
			t.Errorf("%s: status %q", c.mode, status)
		}
		var body struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.Unmarshal([]byte(sent), &body); err != nil {
			t.Fatalf("%v: %s", err, sent)
		}
		if strings.Contains(sent, "sidenote\"") || strings.Contains(sent, "tool_result") || !strings.Contains(sent, `Be kind.\n</system_context>`) ||
			!strings.Contains(sent, `{"role":"user","content":"<user_message id=\"u1\" role=\"user\">\nEarlier.\n</user_message>"}`) {
			t.Errorf("%s: %s", c.mode, sent)
		}
		if strings.Contains(sent, "<source ") != (c.mode == "inject") {
			t.Errorf("%s: sources: %s", c.mode, sent)
		}
	}
}

// A body whose chunks cannot be inserted is refused in every mode, and nothing is sent.
func TestChunksAreNeverDropped(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := open(t, u, nil)
	with := func(field, rest string) string { return `{` + field + `,` + rest + `}` }
	const messages = `"messages":[{"role":"user","content":"x"}]`
	for _, c := range []struct{ name, body, param, reason string }{
		{"no role", with(`"sidenote":{"chunks":[{"id":"a","type":"agent","content":"x"}]}`, messages), "sidenote.chunks[0].role", string(rewrite.ReasonOption)},
		{"deep", with(`"sidenote":{"chunks":[{"id":"a","type":"custom","content":"x","metadata":{"k":`+strings.Repeat("[", 1000)+strings.Repeat("]", 1000)+`}}]}`, messages), "sidenote.chunks[0].metadata.k", string(rewrite.ReasonOption)},
		{"unknown id", with(`"sidenote":{"chunks":[],"context":{"include_only_chunk_ids":["z"]}}`, messages), "sidenote.context.include_only_chunk_ids[0]", string(rewrite.ReasonOption)},
		{"ambiguous body", with(chunkField, messages+`,"Messages":[]`), "Messages", string(rewrite.ReasonAmbiguous)},
		{"ambiguous system message", with(chunkField, `"messages":[{"role":"system","content":"a","content":"b"},{"role":"user","content":"x"}]`), "messages[0].content", string(rewrite.ReasonAmbiguous)},
		{"no chat", with(chunkField, `"messages":7`), "messages", string(rewrite.ReasonNotChat)},
		{"no messages", with(`"sidenote":{"chunks":[]}`, `"messages":[]`), "messages", string(rewrite.ReasonNotChat)},
	} {
		for _, mode := range []string{"inject", "shadow", "off"} {
			resp, text := g.post(t, c.body, "Sidenote-Mode: "+mode)
			var a struct{ Error struct{ Param string } }
			if err := json.Unmarshal([]byte(text), &a); err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != 400 || a.Error.Param != c.param || resp.Header.Get(report.HeaderStatus) != "refused; reason="+c.reason {
				t.Errorf("%s, %s: %d %s %s", c.name, mode, resp.StatusCode, resp.Header.Get(report.HeaderStatus), text)
			}
			if len(u.seen) > 0 {
				t.Fatalf("%s, %s: went up: %s", c.name, mode, (<-u.seen).body)
			}
		}
	}
}

// A tool result that exceeds the budget does not fail the request of an agent: it is left out, and
// the status and the ledger report that. The policy or the request can ask for a 400 instead.
func TestOversizedChunkDoesNotFailTheRequest(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	large := strings.Replace(chunkField, `"content":"out"`, `"content":"`+strings.Repeat("word ", 45_000)+`"`, 1)
	large = strings.Replace(large, `{"exclude_types":["environment"]}`, `{}`, 1)
	with := func(context string) string {
		return strings.Replace(chatBody, `"model"`, strings.Replace(large, `"context":{}`, `"context":`+context, 1)+`, "model"`, 1)
	}
	for _, c := range []struct {
		policy  chunks.Oversize
		context string
		status  int
	}{
		{"", `{}`, 200}, {"", `{"oversize":"refuse"}`, 400}, {chunks.OversizeRefuse, `{}`, 400}, {chunks.OversizeRefuse, `{"oversize":"exclude"}`, 200},
	} {
		g := open(t, u, func(p *tenant.Policy) { p.Rewrite.Chunks.Oversize = c.policy })
		for _, mode := range []string{"inject", "shadow", "off"} {
			resp, text := g.post(t, with(c.context), "Sidenote-Mode: "+mode)
			if resp.StatusCode != c.status {
				t.Fatalf("policy %q, context %s, %s: %d %s", c.policy, c.context, mode, resp.StatusCode, text)
			}
			if c.status == 400 {
				if !strings.Contains(text, `"param":"sidenote.chunks[2].content"`) {
					t.Errorf("%s", text)
				}
				continue
			}
			if sent := u.next(t).body; strings.Contains(sent, "word word") || !strings.Contains(sent, `</user_message>`) {
				t.Errorf("%s: %.300s", mode, sent)
			}
			if status := resp.Header.Get(report.HeaderStatus); !strings.Contains(status, `chunks="2/3"`) {
				t.Errorf("%s: status %q", mode, status)
			}
			if l := g.reports.next(t).Rewrite.Ledger.Chunks; len(l.Excluded) != 1 || l.Excluded[0].Reason != "too-large" {
				t.Errorf("%s: out %+v", mode, l.Excluded)
			}
		}
	}
}

// A conversation of chunks alone needs no messages.
func TestChunksAloneAreAConversation(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := open(t, u, nil)
	if resp, text := g.post(t, `{"messages":[],`+chunkField+`}`); resp.StatusCode != 200 {
		t.Fatal(text)
	}
	if sent := u.next(t).body; !strings.HasPrefix(sent, `{"messages":[{"role":"system","content":"<system_context id=\"s1\">`) {
		t.Error(sent)
	}
}

// A metered request with chunks is capped as others are, and the edits in the ledger refer to the
// received body.
func TestMeteredChunks(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := open(t, u, func(p *tenant.Policy) { p.Metered, p.OutputCap = true, 1000 })
	body := strings.Replace(chatBody, `"model"`, chunkField+`, "model"`, 1)
	for _, mode := range []string{"inject", "off"} {
		if resp, text := g.post(t, body, "Sidenote-Mode: "+mode); resp.StatusCode != 200 {
			t.Fatal(text)
		}
		if sent := u.next(t).body; !json.Valid([]byte(sent)) || !strings.HasPrefix(sent, `{"max_tokens":1000,`) || !strings.Contains(sent, "</user_message>") {
			t.Errorf("%s: %s", mode, sent)
		}
		r := g.reports.next(t)
		var names []string
		for _, e := range r.Rewrite.Ledger.Edits {
			if names = append(names, e.Name); e.Offset+e.Delete > len(body) {
				t.Errorf("%s: edit %s at %d of %d bytes", mode, e.Name, e.Offset, len(body))
			}
		}
		want := "max-tokens strip-field chunks chunks"
		if mode == "inject" {
			want = "max-tokens strip-field chunks inject chunks"
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: edits %s, want %s", mode, got, want)
		}
	}
}
