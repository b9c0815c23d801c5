package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
)

// A ToolName is the name of a tool. It is a closed list.
type ToolName string

// The tools.
const (
	SearchKnowledge ToolName = "search_knowledge"
	ReadKnowledge   ToolName = "read_knowledge"
	SearchFiles     ToolName = "search_files"
	Recall          ToolName = "recall"
)

// ToolNames returns all tools.
func ToolNames() []ToolName { return []ToolName{SearchKnowledge, ReadKnowledge, SearchFiles, Recall} }

// Check returns an *ArgumentError if n is not the name of a tool.
func (n ToolName) Check() error {
	if slices.Contains(ToolNames(), n) {
		return nil
	}
	return &ArgumentError{Reason: fmt.Sprintf("there is no tool %q; there are %s", clip(string(n)), join(ToolNames()))}
}

// A Box runs tool calls. It is safe for concurrent use.
type Box struct {
	Knowledge
	Bases func() []Base // returns the current bases with descriptions; nil: unknown
}

// A Caller is the party for which a tool is called.
type Caller struct {
	Query     retrieval.Query   // with tenant, bases, filter, settings and encoding
	Policy    *rewrite.Policy   // formats the sources
	Counter   retrieval.Counter // counts tokens
	FirstID   int               // id of the first source in the result, from 1
	MaxTokens int               // maximum tokens of CallResult.Content, except of an error; 0: no limit
}

// NewCaller returns a Caller for a policy and a model, without earlier sources. Results are
// reranked and graded as the policy says.
func NewCaller(p *rewrite.Policy, m model.Model) Caller {
	c := Caller{Query: p.Query(m), Policy: p, Counter: m.Counter, FirstID: 1}
	if p.RerankedBy != nil {
		c.Query.Reranking = p.Reranking()
	}
	if p.GradedBy != nil || p.RerankedBy != nil && p.Grade.By == retrieval.GradeByRerank {
		c.Query.Grading = p.Grading()
	}
	return c
}

// A CallResult is the result of a tool call.
type CallResult struct {
	Content     string             // text for the model
	Data        any                // the same for programs; nil if the call was refused or failed
	Sources     []retrieval.Source // sources in Content, with ids from Caller.FirstID on
	Hits        int                // number of results, in units of the tool
	EmptyReason string             // why nothing was found, in words; "" if something was
	Err         error              // why there is no result: an *ArgumentError, ErrNoRoom, or a failed search

	render func(first int) string // Content with source ids from first on; nil without sources
}

// Number renumbers the sources in Content, from first on. The ids in Data stay.
func (r *CallResult) Number(first int) {
	if r.render != nil {
		r.Content = r.render(first)
	}
}

// An ArgumentError reports an invalid argument.
type ArgumentError struct {
	Argument string // name of the argument; "" for all
	Reason   string
}

func (e *ArgumentError) Error() string { return strings.TrimSpace(e.Argument + " " + e.Reason) }

// Call runs a tool with arguments, a JSON object.
func (b *Box) Call(ctx context.Context, c Caller, name ToolName, arguments []byte) CallResult {
	if err := name.Check(); err != nil {
		return refused(err)
	}
	res, err := map[ToolName]func(context.Context, Caller, []byte) (CallResult, error){
		SearchKnowledge: b.search, ReadKnowledge: b.read, SearchFiles: b.files, Recall: b.recall,
	}[name](ctx, c, arguments)
	if err != nil {
		return refused(err)
	}
	return res
}

// refused is the result of a call that failed. It tells the model what it can do about that.
func refused(err error) CallResult {
	text := "The knowledge cannot be searched at present."
	if wrong, ok := errors.AsType[*ArgumentError](err); ok {
		text = wrong.Error()
	} else if errors.Is(err, ErrNoRoom) {
		text = ErrNoRoom.Error()
	}
	return CallResult{Content: encode(map[string]string{"error": text}), Err: err}
}

func join[T ~string](names []T) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = string(n)
	}
	return strings.Join(texts, ", ")
}

// encode returns compact JSON for a model, with < and & unescaped.
func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: encode tool result: " + err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// A FoundPassage is a chunk found by search_knowledge.
type FoundPassage struct {
	RefID   string  `json:"ref_id"` // for read_knowledge: "kb:doc:chunk"
	Name    string  `json:"name"`
	Section string  `json:"section,omitempty"`
	Date    string  `json:"date,omitempty"` // if it is one of several versions of a document
	Snippet string  `json:"snippet"`
	Score   float64 `json:"score"` // 0 to 1; 0.5 is the threshold for sources
}

// FoundHits is the result of search_knowledge.
type FoundHits struct {
	Hits []FoundPassage `json:"hits"` // best first
	Note string         `json:"note,omitempty"`
}

func (b *Box) search(ctx context.Context, c Caller, arguments []byte) (CallResult, error) {
	args := struct {
		Query *string `json:"query"`
		TopK  *int    `json:"top_k"`
	}{}
	if err := decode(arguments, &args); err != nil {
		return CallResult{}, err
	}
	query, err := toolText("query", args.Query)
	if err != nil {
		return CallResult{}, err
	}
	topK, err := number("top_k", args.TopK, defaultTopK, 1, maxHits)
	if err != nil {
		return CallResult{}, err
	}
	found, err := b.Search(ctx, c.Query, query, topK)
	if err != nil {
		return CallResult{}, err
	}
	hits := make([]FoundPassage, len(found.Hits))
	for i, h := range found.Hits {
		hits[i] = FoundPassage{h.Ref.String(), c.line(h.Name), c.line(h.Section), h.Date, c.line(h.Snippet), rounded(h.Score, 100)}
	}
	out := FoundHits{Note: note(found.Reason, found.Partial, len(hits))}
	content, err := c.most(len(hits), func(n int) string { out.Hits = hits[:n]; return encode(out) })
	return CallResult{Content: content, Data: out, Hits: len(out.Hits), EmptyReason: nothing(out.Note, len(out.Hits))}, err
}

// line neutralises a text of a document and puts it on one line.
func (c *Caller) line(text string) string {
	return c.Policy.SafeText(strings.Join(strings.Fields(text), " "))
}

func rounded(x float64, to int) float64 { return float64(int(x*float64(to)+0.5)) / float64(to) }

// note says why there is no result, or that something may be missing.
func note(reason retrieval.Reason, partial bool, n int) string {
	switch {
	case partial:
		return "Some of the knowledge could not be searched at present."
	case reason == retrieval.ReasonNoQueryTerms:
		return "The query has no words to search for."
	case n == 0:
		return "Nothing relevant was found."
	}
	return ""
}

// nothing returns the note if n, the number of results, is 0.
func nothing(note string, n int) string {
	if n > 0 {
		return ""
	}
	return note
}

// A ToolText is a source that read_knowledge returns to programs.
type ToolText struct {
	ID      int    `json:"id"` // its id in Content
	RefID   string `json:"ref_id"`
	Name    string `json:"name"`
	Section string `json:"section,omitempty"`
	Text    string `json:"text"`
}

// ToolTexts is the result of read_knowledge.
type ToolTexts struct {
	Sources  []ToolText `json:"sources"`
	NotFound []string   `json:"not_found,omitempty"`
	Cut      []string   `json:"cut,omitempty"` // did not fit, or only in part
	Content  string     `json:"content"`       // as a model reads it
}

func (b *Box) read(ctx context.Context, c Caller, arguments []byte) (CallResult, error) {
	args := struct {
		Refs     *[]string `json:"refs"`
		MaxChars *int      `json:"max_chars"`
	}{}
	if err := decode(arguments, &args); err != nil {
		return CallResult{}, err
	}
	if args.Refs == nil || len(*args.Refs) < 1 || len(*args.Refs) > maxRefs {
		return CallResult{}, &ArgumentError{"refs", fmt.Sprintf("takes 1 to %d references", maxRefs)}
	}
	refs := make([]Ref, len(*args.Refs))
	for i, s := range *args.Refs {
		var err error
		if refs[i], err = ParseRef(s); err != nil {
			return CallResult{}, &ArgumentError{"refs", fmt.Sprintf("has %q; %v", clip(s), err)}
		}
	}
	maxChars, err := number("max_chars", args.MaxChars, defaultChars, leastChars, maxChars)
	if err != nil {
		return CallResult{}, err
	}
	read, err := b.Read(ctx, c.Query, refs, maxChars, func(r Reading) bool { return c.fits(c.reading(r)) })
	if err != nil {
		return CallResult{}, err
	}
	out := ToolTexts{Sources: make([]ToolText, len(read.Sources)), NotFound: names(read.Missing), Cut: names(read.Cut), Content: c.reading(read)}
	if !c.fits(out.Content) || len(read.Sources) == 0 && len(read.Cut) > 0 {
		return CallResult{}, ErrNoRoom
	}
	for i, s := range read.Sources {
		ref := Ref{Knowledge: s.Knowledge, Doc: s.Doc, Chunk: s.Chunk}
		out.Sources[i] = ToolText{c.FirstID + i, ref.String(), s.Name, s.Section, s.Text}
	}
	render := func(first int) string {
		c.FirstID = first
		return c.reading(read)
	}
	return CallResult{Content: out.Content, Data: out, Sources: read.Sources, Hits: len(read.Sources), EmptyReason: nothing(out.Content, len(read.Sources)), render: render}, nil
}

func names(refs []Ref) []string {
	var list []string
	for _, ref := range refs {
		list = append(list, ref.String())
	}
	return list
}

// A Document is a document found by search_files.
type Document struct {
	Path      string  `json:"path"`
	Relevance float64 `json:"relevance"` // 0 to 10
	Relevant  bool    `json:"is_relevant"`
}

// Documents is the result of search_files.
type Documents struct {
	Documents []Document `json:"documents"` // most relevant first
	Note      string     `json:"note,omitempty"`
}

func (b *Box) files(ctx context.Context, c Caller, arguments []byte) (CallResult, error) {
	args := struct {
		Query    *string `json:"query"`
		MaxFiles *int    `json:"max_files"`
	}{}
	if err := decode(arguments, &args); err != nil {
		return CallResult{}, err
	}
	query, err := toolText("query", args.Query)
	if err != nil {
		return CallResult{}, err
	}
	n, err := number("max_files", args.MaxFiles, defaultFiles, 1, maxHits)
	if err != nil {
		return CallResult{}, err
	}
	files, res, err := b.Files(ctx, c.Query, query, n)
	if err != nil {
		return CallResult{}, err
	}
	documents := make([]Document, len(files))
	for i := range files {
		documents[i] = Document{files[i].Path(c.Query), rounded(files[i].Relevance, 10), files[i].Relevant}
	}
	out := Documents{Note: note(res.Reason, res.Partial, len(files))}
	content, err := c.most(len(files), func(n int) string { out.Documents = documents[:n]; return encode(out) })
	return CallResult{Content: content, Data: out, Hits: len(out.Documents), EmptyReason: nothing(out.Note, len(out.Documents))}, err
}

// A Passage is a passage found by recall.
type Passage struct {
	Path      string  `json:"path"`
	Content   string  `json:"content"`
	Relevance float64 `json:"relevance"` // 0 to 10
}

// Passages is the result of recall.
type Passages struct {
	Passages []Passage `json:"passages"` // most relevant first
	NotFound []string  `json:"not_found,omitempty"`
	Tokens   int       `json:"tokens"`  // of Content
	Content  string    `json:"content"` // as a model reads it
	Note     string    `json:"note,omitempty"`
}

func (b *Box) recall(ctx context.Context, c Caller, arguments []byte) (CallResult, error) {
	args := struct {
		Query     *string   `json:"query"`
		MaxTokens *int      `json:"max_tokens"`
		FilePaths *[]string `json:"file_paths"`
	}{}
	if err := decode(arguments, &args); err != nil {
		return CallResult{}, err
	}
	query, err := toolText("query", args.Query)
	if err != nil {
		return CallResult{}, err
	}
	room, err := number("max_tokens", args.MaxTokens, defaultTokens, leastTokens, maxTokens)
	if err != nil {
		return CallResult{}, err
	}
	var paths []string
	if args.FilePaths != nil {
		paths = *args.FilePaths
	}
	if len(paths) > maxRefs || slices.Contains(paths, "") {
		return CallResult{}, &ArgumentError{"file_paths", fmt.Sprintf("takes up to %d paths, as search_files gives them", maxRefs)}
	}
	if c.MaxTokens > 0 {
		room = min(room, c.MaxTokens)
	}
	render := func(passages []Recalled) string { return c.Policy.SourceBlocks(sourcesOf(passages), c.FirstID) }
	got, err := b.Knowledge.Recall(ctx, c.Query, query, paths, room, func(passages []Recalled) int {
		n, _ := c.Counter.Count(render(passages))
		return n
	})
	if err != nil {
		return CallResult{}, err
	}
	out := Passages{Passages: make([]Passage, len(got.Passages)), NotFound: got.Missing, Content: render(got.Passages), Note: note(got.Reason, got.Partial, len(got.Passages))}
	if got.NoRoom {
		if room == c.MaxTokens {
			return CallResult{}, ErrNoRoom
		}
		out.Note = "Nothing fits into max_tokens."
	}
	out.Tokens, _ = c.Counter.Count(out.Content)
	for i := range got.Passages {
		p := &got.Passages[i]
		out.Passages[i] = Passage{p.Path(c.Query), p.Text, rounded(p.Relevance, 10)}
	}
	absent := ""
	for _, path := range got.Missing {
		absent += "Not found: " + c.line(path) + "\n"
	}
	if n, _ := c.Counter.Count(out.Content + absent); n > room {
		absent = "" // programs get them in NotFound
	}
	content := out.Content + absent
	if out.Content == "" { // list only as many missing paths as fit
		content, err = c.most(len(got.Missing), func(n int) string { out.NotFound = got.Missing[:n]; return encode(out) })
	}
	res := CallResult{Content: content, Data: out, Sources: sourcesOf(got.Passages), Hits: len(got.Passages)}
	if len(got.Passages) == 0 {
		res.EmptyReason = out.Note
		for _, path := range out.NotFound {
			res.EmptyReason += "\nNot found: " + c.line(path)
		}
	}
	if len(got.Passages) > 0 {
		res.render = func(first int) string { return c.Policy.SourceBlocks(res.Sources, first) + absent }
	}
	return res, err
}

// sourcesOf converts passages to sources.
func sourcesOf(passages []Recalled) []retrieval.Source {
	sources := make([]retrieval.Source, len(passages))
	for i, p := range passages {
		sources[i] = retrieval.Source{Type: "rag", Knowledge: p.Knowledge, Doc: p.Doc, Chunk: p.First, Name: p.Name, Section: p.Section, Text: p.Text, Relevance: p.Relevance / 10}
	}
	return sources
}
