package tools

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Definition describes a tool to a model.
type Definition struct {
	Name        ToolName        `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // a JSON schema
}

// A Base is a knowledge base, for descriptions.
type Base struct {
	ID          string
	Description string // of its contents; may be empty
}

// Define returns the definitions of tools over some bases.
func Define(names []ToolName, bases []Base) []Definition {
	list := make([]Definition, len(names))
	for i, name := range names {
		about, parameters := describe(name)
		list[i] = Definition{name, about + DescribeBases(bases), json.RawMessage(parameters)}
	}
	return list
}

// Described returns the bases with the given ids, with their descriptions if known.
func (b *Box) Described(ids []string) []Base {
	var known []Base
	if b.Bases != nil {
		known = b.Bases()
	}
	bases := make([]Base, len(ids))
	for i, id := range ids {
		bases[i].ID = id
		if at := slices.IndexFunc(known, func(base Base) bool { return base.ID == id }); at >= 0 {
			bases[i] = known[at]
		}
	}
	return bases
}

// DescribeBases returns the end of a description, which names the bases; "" if there are none.
func DescribeBases(bases []Base) string {
	if len(bases) == 0 {
		return ""
	}
	texts := make([]string, len(bases))
	for i, base := range bases {
		texts[i] = base.ID
		if base.Description != "" {
			texts[i] += " (" + strings.Join(strings.Fields(base.Description), " ") + ")"
		}
	}
	return " Knowledge bases: " + strings.Join(texts, ", ") + "."
}

// describe returns the description of a tool, and the schema of its arguments.
func describe(name ToolName) (about, parameters string) {
	query := `"query":{"type":"string","description":"What to look for, in words that the documents would use."}`
	object := func(properties, required string) string {
		return `{"type":"object","properties":{` + properties + `},"required":["` + required + `"],"additionalProperties":false}`
	}
	count := func(name, about string, otherwise, least, most int) string {
		return fmt.Sprintf(`%q:{"type":"integer","description":%q,"minimum":%d,"maximum":%d,"default":%d}`, name, about, least, most, otherwise)
	}
	switch name {
	case SearchKnowledge:
		return "Searches the knowledge bases. Gives the best hits with a snippet and a ref_id each; read_knowledge reads them whole.",
			object(query+","+count("top_k", "Hits at most.", defaultTopK, 1, maxHits), "query")
	case ReadKnowledge:
		return "Reads passages whole, by the ref_ids that search_knowledge gave, with what stands around them where there is room. Cite what you use by the id of its source, like [1].",
			object(`"refs":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":`+fmt.Sprint(maxRefs)+`,"description":"ref_ids, as kb:doc:chunk."},`+
				count("max_chars", "Characters of all texts at most.", defaultChars, leastChars, maxChars), "refs")
	case SearchFiles:
		return "Finds documents about something, with their relevance from 0 to 10; recall reads passages of them.",
			object(query+","+count("max_files", "Documents at most.", defaultFiles, 1, maxHits), "query")
	case Recall:
		return "Gives the passages about a question, out of the documents that are named or of all. Cite what you use by the id of its source, like [1].",
			object(query+","+count("max_tokens", "Tokens of all passages at most.", defaultTokens, leastTokens, maxTokens)+
				`,"file_paths":{"type":"array","items":{"type":"string"},"maxItems":`+fmt.Sprint(maxRefs)+`,"description":"Paths that search_files gave; absent: all documents."}`, "query")
	}
	panic("BUG: no such tool: " + string(name))
}
