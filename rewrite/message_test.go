package rewrite_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// SDKs write null for a missing field.
func TestPartsWithNull(t *testing.T) {
	for _, parts := range []string{
		`{"type":"text","text":null}`, `{"type":"image_url","text":null,"image_url":{"url":"data:,"}}`, `{"type":null,"text":"a"}`, `{"type":null,"text":null}`,
	} {
		for _, role := range []string{"assistant", "user"} {
			body := `{"messages":[{"role":"` + role + `","content":[` + parts + `]},{"role":"user","content":"How long?"}]}`
			if out := injected(t, testPolicy(t, nil), model.Model{Counter: words{}}, body); !strings.Contains(out, parts) {
				t.Errorf("%s became %s", body, out)
			}
		}
		// The block is inserted after the parts.
		body := `{"messages":[{"role":"user","content":"How long?"},{"role":"system","content":[` + parts + `]}]}`
		if out := injected(t, testPolicy(t, nil), model.Model{Counter: words{}}, body); !strings.Contains(out, parts+`,{"type":"text","text":"<sources>`) {
			t.Errorf("%s became %s", body, out)
		}
	}
	for _, part := range []string{`{"type":"text","text":1}`, `{"type":7,"text":"a"}`} {
		if _, err := chat.Completions.Parse([]byte(`{"messages":[{"role":"user","content":[` + part + `]}]}`)); err == nil {
			t.Errorf("%s is a part", part)
		}
	}
}

// A tag in a message is counted wherever it is, however short the text is and however close to
// the end of the body.
func TestAppTags(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{`<source`, `&lt;source`, `\u003csource`, `＜source`} {
		for _, form := range []string{`{"role":"user","content":"%s"}`, `{"role":"user","content":[{"type":"text","text":"%s"}]}`} {
			for before := range 140 {
				for _, rest := range []string{"", `,"user":"` + strings.Repeat("z", 140) + `"`} {
					// The spaces separate it from the block in which a key is read.
					body := `{"messages":[` + strings.Repeat(" ", 64) + fmt.Sprintf(form, strings.Repeat("x", before)+tag) + `]` + rest + `}`
					req, err := chat.Completions.Parse([]byte(body))
					if err != nil {
						t.Fatal(err)
					}
					if n := rewrite.AppTags(req); n != 1 {
						t.Errorf("%s: %d tags", body, n)
					}
				}
			}
		}
	}
}

// C19: tags are counted once per message, and the sum is that of the current request, whatever
// was counted before.
func TestC19AppTagsOfGrowingConversation(t *testing.T) {
	t.Parallel()
	messages := []string{
		`{"role":"system","content":"Größe <source id=1>"}`,
		`{"role":"user","content":"休假 &lt;/source&gt; and </sources>"}`,
		`{"role":"assistant","content":null,"tool_calls":[]}`,
		`{"role":"assistant","content":[{"type":"text","text":"＜source＞"},{"type":"text","text":"<b>"}]}`,
		`{"role":"user","content":"How long? \u003ccomponent\u003e"}`,
	}
	tags := []int{1, 2, 0, 1, 1}
	rw, p := &rewrite.Rewriter{Models: models{}}, rewrite.DefaultPolicy()
	for range 2 {
		for first := range messages {
			for end := first + 1; end <= len(messages); end++ {
				req, err := chat.Completions.Parse([]byte(`{"messages":[` + strings.Join(messages[first:end], ", ") + `]}`))
				if err != nil {
					t.Fatal(err)
				}
				want := 0
				for _, n := range tags[first:end] {
					want += n
				}
				if got := rw.Rewritten(t.Context(), p, req, rewrite.Options{}).Ledger.AppTags; got != want {
					t.Errorf("messages %d to %d: %d tags, want %d", first, end, got, want)
				}
			}
		}
	}
}

// C12: a text that is not UTF-8 is ambiguous, also if the same message was read before.
func TestC12BadUTF8IsFoundAgain(t *testing.T) {
	t.Parallel()
	rw, p := &rewrite.Rewriter{Retriever: answering(nil), Models: models{}}, rewrite.DefaultPolicy()
	p.Knowledge = []string{"handbook"}
	for range 3 {
		for text, want := range map[string]rewrite.Reason{"Größe": rewrite.ReasonNoMatch, "Gr\xf6\xdfe": rewrite.ReasonAmbiguous, "é\xc3": rewrite.ReasonAmbiguous} {
			for _, messages := range []string{`{"role":"user","content":"%s"}`, `{"role":"system","content":"ä"},{"role":"user","content":[{"type":"text","text":"%s"}]}`} {
				req, err := chat.Completions.Parse([]byte(`{"messages":[` + fmt.Sprintf(messages, text) + `]}`))
				if err != nil {
					t.Fatal(err)
				}
				if res := rw.Rewritten(t.Context(), p, req, rewrite.Options{}); res.Reason != want {
					t.Errorf("%q in %s: %s, want %s", text, messages, res.Reason, want)
				}
			}
		}
	}
}
