package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"sidenote/retrieval/tools"
)

// The tools of ChatGPT's connectors, in the shape that OpenAI documents
// (developers.openai.com/api/docs/mcp): fetch takes an id returned by search.
const (
	Search = "search"
	Fetch  = "fetch"
)

// connectorHits is the maximum number of results of search.
const connectorHits = 10

// A connectorHit is a chunk found by search.
type connectorHit struct {
	ID    string `json:"id"` // for fetch: a reference as in read_knowledge
	Title string `json:"title"`
	URL   string `json:"url"`
}

// connectorResults are the result of search.
type connectorResults struct {
	Results []connectorHit `json:"results"` // best first; never null
}

// A connectorText is the result of fetch.
type connectorText struct {
	connectorHit
	Text     string            `json:"text"`
	Metadata map[string]string `json:"metadata"`
}

// connectorTools describes search and fetch.
func connectorTools(bases []tools.Base) []*sdk.Tool {
	const (
		text = `{"type":"string"}`
		hit  = `"id":` + text + `,"title":` + text + `,"url":` + text
	)
	object := func(properties, required string) json.RawMessage {
		return json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":[` + required + `]}`)
	}
	return []*sdk.Tool{
		{
			Name: Search, Description: "Searches the knowledge bases. Gives the best passages by id, title and url; fetch reads them." + tools.DescribeBases(bases),
			InputSchema:  object(`"query":{"type":"string","description":"What to look for, in words that the documents would use."}`, `"query"`),
			OutputSchema: object(`"results":{"type":"array","items":{"type":"object","properties":{`+hit+`},"required":["id","title","url"]}}`, `"results"`),
		},
		{
			Name: Fetch, Description: "Reads a passage whole, by an id that search gave, with what stands around it." + tools.DescribeBases(bases),
			InputSchema:  object(`"id":{"type":"string","description":"An id that search gave."}`, `"id"`),
			OutputSchema: object(hit+`,"text":`+text+`,"metadata":{"type":"object","additionalProperties":`+text+`}`, `"id","title","text","url"`),
		},
	}
}

// search runs the tool search.
func (k *Knowledge) search(ctx context.Context, as tools.Caller, arguments []byte) answer {
	var asked struct {
		Query json.RawMessage `json:"query,omitempty"`
		TopK  int             `json:"top_k"`
	}
	if json.Unmarshal(arguments, &asked) == nil {
		asked.TopK = connectorHits
		arguments = encode(asked)
	} // else the tool reports what is wrong
	res := k.Tools.Call(ctx, as, tools.SearchKnowledge, arguments)
	found, ok := res.Data.(tools.FoundHits)
	if !ok {
		return answerOf(res)
	}
	out := connectorResults{Results: make([]connectorHit, len(found.Hits))}
	for i, h := range found.Hits {
		out.Results[i] = k.hit(h.RefID, h.Name, h.Section)
	}
	return done(out)
}

// fetch runs the tool fetch.
func (k *Knowledge) fetch(ctx context.Context, as tools.Caller, arguments []byte) answer {
	asked := struct {
		ID *string `json:"id"`
	}{}
	if err := json.Unmarshal(arguments, &asked); err != nil || asked.ID == nil {
		return answer{text: "id must be a string returned by search", result: Refused}
	}
	res := k.Tools.Call(ctx, as, tools.ReadKnowledge, encode(map[string][]string{"refs": {*asked.ID}}))
	if wrong, ok := errors.AsType[*tools.ArgumentError](res.Err); ok {
		return answer{text: "id " + wrong.Reason, result: Refused}
	}
	read, ok := res.Data.(tools.ToolTexts)
	switch {
	case !ok:
		return answerOf(res)
	case len(read.Sources) == 0:
		return answer{text: strings.TrimSpace(read.Content), result: Refused} // with the text of read_knowledge
	}
	src := &read.Sources[0]
	ref := refOf(*asked.ID)
	line := func(s string) string { return as.Policy.SafeText(strings.Join(strings.Fields(s), " ")) }
	return done(connectorText{
		k.hit(*asked.ID, line(src.Name), line(src.Section)), as.Policy.SafeText(src.Text),
		map[string]string{"knowledge": ref.Knowledge, "document": ref.Doc, "section": line(src.Section)},
	})
}

// hit describes a chunk, with the URL of its document or a sidenote:// URI that names it.
func (k *Knowledge) hit(id, name, section string) connectorHit {
	title := name
	if section != "" && section != name {
		title += " > " + section
	}
	ref := refOf(id)
	link := k.Link(ref.Knowledge, ref.Doc)
	if link == "" {
		link = (&url.URL{Scheme: "sidenote", Host: ref.Knowledge, Path: "/" + ref.Doc, Fragment: strconv.Itoa(ref.Chunk)}).String()
	}
	return connectorHit{id, title, link}
}

// refOf parses a reference that a tool has returned or accepted.
func refOf(id string) tools.Ref {
	ref, err := tools.ParseRef(id)
	if err != nil {
		panic("BUG: a tool knows a reference that is none: " + err.Error())
	}
	return ref
}

// done returns data both as text and as structured content.
func done(data any) answer { return answer{text: string(encode(data)), data: data, result: Done} }

// encode encodes JSON without escaping < and &.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: encode for a tool: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
