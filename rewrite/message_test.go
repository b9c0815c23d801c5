package rewrite_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/rewrite"
)

// SDKs write null for a field that is not there.
func TestM18PartsWithNull(t *testing.T) {
	for _, parts := range []string{
		`{"type":"text","text":null}`, `{"type":"image_url","text":null,"image_url":{"url":"data:,"}}`, `{"type":null,"text":"a"}`, `{"type":null,"text":null}`,
	} {
		for _, role := range []string{"assistant", "user"} {
			body := `{"messages":[{"role":"` + role + `","content":[` + parts + `]},{"role":"user","content":"How long?"}]}`
			if out := injected(t, testPolicy(t, nil), rewrite.Model{Counter: words{}}, body); !strings.Contains(out, parts) {
				t.Errorf("%s became %s", body, out)
			}
		}
		// The block goes behind it.
		body := `{"messages":[{"role":"user","content":"How long?"},{"role":"system","content":[` + parts + `]}]}`
		if out := injected(t, testPolicy(t, nil), rewrite.Model{Counter: words{}}, body); !strings.Contains(out, parts+`,{"type":"text","text":"<sources>`) {
			t.Errorf("%s became %s", body, out)
		}
	}
	for _, part := range []string{`{"type":"text","text":1}`, `{"type":7,"text":"a"}`} {
		if _, err := rewrite.Parse([]byte(`{"messages":[{"role":"user","content":[` + part + `]}]}`)); err == nil {
			t.Errorf("%s is a part", part)
		}
	}
}

// A tag in a message is counted wherever it stands, however short the text is and
// however near the end of the body.
func TestAppTags(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{`<source`, `&lt;source`, `\u003csource`, `＜source`} {
		for _, form := range []string{`{"role":"user","content":"%s"}`, `{"role":"user","content":[{"type":"text","text":"%s"}]}`} {
			for before := range 140 {
				for _, rest := range []string{"", `,"user":"` + strings.Repeat("z", 140) + `"`} {
					// The spaces keep it apart from the block that a key is read in.
					body := `{"messages":[` + strings.Repeat(" ", 64) + fmt.Sprintf(form, strings.Repeat("x", before)+tag) + `]` + rest + `}`
					req, err := rewrite.Parse([]byte(body))
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
