package rewrite_test

import (
	"context"
	"fmt"
	"log"

	"sidenote/rewrite"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// countedAssemble uses one counter for all models.
type countedAssemble struct{ tokens.Counter }

func (c countedAssemble) Model(string) model.Model {
	return model.Model{Encoding: "o200k_base", Counter: c.Counter}
}

func Example() {
	counter, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		log.Fatal(err)
	}
	p := rewrite.DefaultPolicy()
	p.Components = []rewrite.Component{{Name: "style", Text: "Be brief.", Priority: rewrite.PriorityHigh}}
	r, err := rewrite.NewAssembler(countedAssemble{counter}).Build(context.Background(), p, []byte(`{
		"chunks": [{"id": "u1", "type": "agent", "role": "user", "content": "A hotel in Rome?"}],
		"components": [{"name": "glossary", "text": "Room: a bed.", "priority": "low"}]
	}`), "gpt-4o")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n%d tokens, in %v\n", r.Messages, r.TokenCount, r.Included)
	// Output:
	// [{"role":"system","content":"<component name=\"style\">\nBe brief.\n</component>\n<component name=\"glossary\">\nRoom: a bed.\n</component>\n"},{"role":"user","content":"<user_message id=\"u1\" role=\"user\">\nA hotel in Rome?\n</user_message>"}]
	// 57 tokens, in [u1]
}
