package screen_test

import (
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

type oneModel struct{ tokens.Counter }

func (m oneModel) Model(string) model.Model {
	return model.Model{Encoding: "o200k_base", Counter: m.Counter}
}

// The screen shows what each message is made of, and what is excluded and why. Ids cannot change
// the terminal.
func TestContext(t *testing.T) {
	counter, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	built, err := rewrite.NewAssembler(oneModel{counter}).Build(t.Context(), rewrite.DefaultPolicy(), []byte(`{"chunks":[{"id":"s1","type":"system","content":"Be brief."},
		{"id":"u1","type":"agent","role":"user","content":"Hi."},{"id":"u2","type":"environment","content":"x"},{"id":"a1","type":"output","content":"Done."}],
		"context":{"exclude_types":["output"]},"components":[{"name":"rules","text":"Be kind."}]}`), "")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := screen.Context(&out, built); err != nil {
		t.Fatal(err)
	}
	const want = `ROLE    TOKENS  CHUNKS
system  19      s1
user    36      u1 u2
        12      rules
out a1  exclude_types
3 of 4 chunks, 67 tokens, exact (o200k_base)
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// Without chunks it shows the tokens of components and sources.
func TestContextWithoutChunks(t *testing.T) {
	counter, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	built, err := rewrite.NewAssembler(oneModel{counter}).Build(t.Context(), rewrite.DefaultPolicy(), []byte(`{"sources":[{"text":"Roma has forty rooms."},{"text":"Roma has forty rooms."}]}`), "")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := screen.Context(&out, built); err != nil {
		t.Fatal(err)
	}
	const want = `ROLE  TOKENS  CHUNKS
      94      sources
1 of 2 sources
0 of 0 chunks, 98 tokens, exact (o200k_base)
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
