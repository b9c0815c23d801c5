package chunks_test

import (
	"fmt"
	"log"

	"sidenote/rewrite/chunks"
	"sidenote/rewrite/tokens"
)

// planRenderer renders the plans of an agent, which are custom chunks.
type planRenderer struct{}

func (planRenderer) CanRender(c *chunks.Chunk) bool {
	return c.Type == chunks.Custom && c.Subtype == "plan"
}
func (planRenderer) Role(*chunks.Chunk) chunks.Role { return chunks.RoleAssistant }
func (planRenderer) Render(c *chunks.Chunk) chunks.Element {
	return chunks.Element{Tag: "plan", Attributes: []chunks.Attribute{{Name: "id", Value: c.ID}}, Body: c.Content}
}

func Example() {
	counter, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		log.Fatal(err)
	}
	rows, err := chunks.JSON([]byte(`{"hotels": 2, "cheapest": "Roma"}`))
	if err != nil {
		log.Fatal(err)
	}
	b := &chunks.Builder{Counter: counter, Renderers: []chunks.Renderer{planRenderer{}}, Tags: []string{"plan"}}
	r, err := b.Build([]chunks.Chunk{
		{ID: "s1", Type: chunks.System, Content: chunks.Text("You book hotels.")},
		{ID: "u1", Type: chunks.Agent, Role: "user", Content: chunks.Text("A cheap hotel in Rome, please.")},
		{ID: "p1", Type: chunks.Custom, Subtype: "plan", Content: chunks.Text("1. Search\n2. Book")},
		{ID: "c1", Type: chunks.Workflow, Action: "call", Content: chunks.Text("Rome"), Metadata: map[string]any{"tool": "search", "call_id": "k1"}},
		{ID: "e1", Type: chunks.Environment, Content: rows, Metadata: map[string]any{"tool": "search", "call_id": "k1", "success": true}},
	}, chunks.Options{MaxTokens: 300})
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range r.Messages {
		fmt.Printf("--- %s %v\n%s\n", m.Role, m.ChunkIDs, m.Content)
	}
	fmt.Printf("--- %d tokens, exact %t\n", r.TokenCount, r.Exact)
	// Output:
	// --- system [s1]
	// <system_context id="s1">
	// You book hotels.
	// </system_context>
	// --- user [u1]
	// <user_message id="u1" role="user">
	// A cheap hotel in Rome, please.
	// </user_message>
	// --- assistant [p1 c1]
	// <plan id="p1">
	// 1. Search
	// 2. Book
	// </plan>
	//
	// <tool_call id="c1" action="call" tool="search" call_id="k1">
	// Rome
	// </tool_call>
	// --- user [e1]
	// <tool_result id="e1" tool="search" call_id="k1" success="true">
	// {"hotels":2,"cheapest":"Roma"}
	// </tool_result>
	// --- 139 tokens, exact true
}
