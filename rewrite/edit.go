package rewrite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/chunks"
)

// The names of edits in the ledger.
const (
	editInject = "inject"
	editStrip  = "strip-field"
	editMarker = "marker"
	editChunks = "chunks"
)

// StripEdits returns the edits that every mode needs: they remove the body field "sidenote" and,
// under PlaceMarker, the markers.
func StripEdits(r *chat.Request, p Placement) []Edit {
	var edits []Edit
	if f := r.Field.Remove; f != (chat.Span{}) {
		edits = append(edits, Edit{Name: editStrip, Offset: f.Start, Delete: f.End - f.Start})
	}
	if p == PlaceMarker {
		for _, at := range r.Markers() {
			edits = append(edits, Edit{Name: editMarker, Offset: at.Start, Delete: at.End - at.Start})
		}
	}
	return SortEdits(edits)
}

// An Edit replaces Body[Offset:Offset+Delete] by Insert.
type Edit struct {
	Name   string // inject, strip-field, marker, chunks, cache-mark, cache-diagnostics, include-usage, max-tokens, tools, tool-history
	Offset int
	Delete int
	Insert EditText
}

// An EditText is a text in pieces. Neither the pieces nor the slice change once made, so cached
// pieces can be shared by several EditTexts.
type EditText [][]byte

// Len returns the length in bytes.
func (t EditText) Len() (n int) {
	for _, piece := range t {
		n += len(piece)
	}
	return n
}

// Append appends the text to dst.
func (t EditText) Append(dst []byte) []byte {
	for _, piece := range t {
		dst = append(dst, piece...)
	}
	return dst
}

// MarshalJSON writes the edit as it appears in the ledger: byte counts, never the bytes
// themselves.
func (e Edit) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name     string `json:"name"`
		Offset   int    `json:"offset"` // in the original body
		Deleted  int    `json:"deleted"`
		Inserted int    `json:"inserted"`
	}{e.Name, e.Offset, e.Delete, e.Insert.Len()})
}

// ApplyEdits appends body, with its edits applied, to dst in one copy. Edits must be sorted by
// offset and must not overlap.
func ApplyEdits(dst, body []byte, edits []Edit) []byte {
	var pieces [16][]byte
	return EditText(EditPieces(pieces[:0], body, edits)).Append(dst)
}

// EditPieces appends to dst the non-empty pieces of the edited body, in order, without copying
// bytes. The pieces point into body and into the edits.
func EditPieces(dst [][]byte, body []byte, edits []Edit) [][]byte {
	at := 0
	for _, e := range edits {
		dst = appendPiece(dst, body[at:e.Offset])
		for _, piece := range e.Insert {
			dst = appendPiece(dst, piece)
		}
		at = e.Offset + e.Delete
	}
	return appendPiece(dst, body[at:])
}

func appendPiece(dst [][]byte, piece []byte) [][]byte {
	if len(piece) == 0 {
		return dst
	}
	return append(dst, piece)
}

// SortEdits sorts edits by offset, in place, and returns them.
func SortEdits(edits []Edit) []Edit {
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.Offset - b.Offset })
	return edits
}

// An Assembler builds messages outside of a request. It is safe for concurrent use and caches
// token counts.
type Assembler struct{ rewriter Rewriter }

// NewAssembler returns an Assembler that counts tokens as the given models do.
func NewAssembler(models Models) *Assembler {
	return &Assembler{Rewriter{Retriever: retrieval.Func(brought), Models: models}}
}

// An Assembled holds the built messages and reports which chunks are in them. Its Ledger reports
// on components and sources.
type Assembled struct {
	Messages   json.RawMessage   `json:"messages"` // in the format of a chat request
	TokenCount int               `json:"token_count"`
	Exact      bool              `json:"token_count_exact"`
	Included   []string          `json:"included_chunk_ids"`
	Excluded   []chunks.Excluded `json:"excluded_chunk_ids"`
	Ledger     Ledger            `json:"ledger"`
}

// maxSources is the maximum number of sources in one state.
const maxSources = 100

// maxPerDocument is the maximum number of sources from one document if the policy does not set
// one.
const maxPerDocument = 3

// A state is the input from which messages are built.
type state struct {
	body    []byte // a chat request without messages
	sources []retrieval.Source
	asGiven bool // skip ordering, deduplication and the limit per document
}

// A source is the JSON form of one source in a state.
type source struct {
	KB      string  `json:"kb_id"`
	Doc     string  `json:"doc_id"`
	Type    string  `json:"type"`
	Name    string  `json:"name"`
	Section string  `json:"section"`
	Text    string  `json:"text"`
	Score   float64 `json:"score"`
	Arm     string  `json:"arm"`
}

// Build builds messages from a state: a JSON object with chunks, components or sources, and
// optionally model, context, context_tokens and as_given. The policy's placement, budgets,
// components and renderers apply; its knowledge bases are not searched. A model other than ""
// replaces the state's.
//
// Sources are ordered by score and deduplicated, and the policy's limit per document applies,
// unless as_given is true.
//
// The error is an *OptionError or a *BodyError.
func (a *Assembler) Build(ctx context.Context, p Policy, object []byte, model string) (*Assembled, error) {
	s, err := read(object, model)
	if err != nil {
		return nil, err
	}
	req, unread := chat.Completions.Parse(s.body)
	if req == nil {
		return nil, unread
	}
	o, err := ReadOptions(req)
	if err != nil {
		return nil, ofState(err)
	}
	if !req.Empty { // messages is empty
		return nil, unread
	}
	p.Mode, p.Knowledge, p.Filter, p.Digest = Inject, nil, nil, ""
	p.Planner, p.Rerank, p.Grade = retrieval.PlanSettings{}, retrieval.RerankSettings{}, retrieval.GradeSettings{}
	p = p.Narrow(o)
	if len(s.sources) > 0 {
		p.Knowledge = []string{"state"}
	}
	p, req, o, err = a.rewriter.InsertChunks(p, req, o)
	if err != nil && o.ChunkResult == nil { // otherwise no chunk fits, but components and sources may
		return nil, ofState(err)
	}
	if o.Query == "" {
		o.Query = " " // nothing is searched, but without a question no source is added
	}
	found, err := s.chosen(cmp.Or(p.Search.MaxPerDocument, maxPerDocument))
	if err != nil {
		return nil, err
	}
	var res Result
	a.rewriter.Rewrite(context.WithValue(ctx, foundKey{}, found), &p, req, &o, &res)
	built, err := chat.Completions.Parse(ApplyEdits(nil, req.Body, res.Edits))
	if err != nil && (built == nil || !built.Empty) {
		return nil, err
	}
	l := res.Ledger.WithExcluded()
	l.Edits = []Edit{} // they apply to a body that the caller never saw
	return &Assembled{
		Messages: messagesOf(built), TokenCount: l.Chunks.Tokens + l.Used, Exact: l.Chunks.Exact && l.Exactness == Exact,
		Included: l.Chunks.Included, Excluded: l.Chunks.Excluded, Ledger: l,
	}, nil
}

// fields returns the field names of a state.
func fields() []string {
	return []string{"model", "chunks", "context", "components", "context_tokens", "sources", "as_given"}
}

// read parses a state and makes the body of a chat request without messages. Its chunks and
// components are copied verbatim into that body.
func read(object []byte, model string) (s state, err error) {
	given := map[string][]byte{}
	r := chat.NewReader(object)
	if k := r.Kind(); k != chat.KindObject {
		return state{}, &chat.Error{Reason: ReasonNotJSON, Message: fmt.Sprintf("the state is %s, not an object", k)}
	}
	r.Object(func(name string) {
		switch value := r.Value(); {
		case err != nil:
		case given[name] != nil:
			err = &OptionError{Param: name, Reason: "is repeated"}
		case !slices.Contains(fields(), name):
			all := fields()
			err = &OptionError{Param: fmt.Sprintf("%.64s", name), Reason: "unknown field; use " + strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]}
		default:
			given[name] = value
		}
	})
	if bad := r.End(); bad != nil {
		return state{}, bad
	}
	if err != nil {
		return state{}, err
	}
	for name, value := range given {
		if string(value) == "null" && name != "model" {
			delete(given, name)
		}
	}
	if given["chunks"] == nil {
		if given["components"] == nil && given["sources"] == nil {
			return state{}, &OptionError{Param: "chunks", Reason: "missing, and there are neither components nor sources"}
		}
		given["chunks"] = []byte("[]")
	}
	if s.sources, err = readSources(given["sources"]); err != nil {
		return state{}, err
	}
	if value := given["as_given"]; value != nil && json.Unmarshal(value, &s.asGiven) != nil {
		reader := chat.NewReader(value)
		return state{}, &OptionError{Param: "as_given", Reason: fmt.Sprintf("%s, not true or false", reader.Kind())}
	}
	name := given["model"]
	if model != "" {
		if name, err = json.Marshal(model); err != nil {
			return state{}, &OptionError{Param: "model", Reason: err.Error()}
		}
	}
	var out bytes.Buffer
	out.WriteString(`{"messages":[],`)
	if name != nil {
		fmt.Fprintf(&out, `"model":%s,`, name)
	}
	out.WriteString(`"sidenote":{`)
	for _, field := range []string{"context", "components", "context_tokens"} {
		if given[field] != nil {
			fmt.Fprintf(&out, `%q:%s,`, field, given[field])
		}
	}
	fmt.Fprintf(&out, `"chunks":%s}}`, given["chunks"])
	s.body = out.Bytes()
	return s, nil
}

// chosen returns the sources that may be added.
func (s *state) chosen(maxPerDocument int) (retrieval.Result, error) {
	found := retrieval.Result{Sources: s.sources, Retrieved: len(s.sources), Unique: len(s.sources)}
	if !s.asGiven {
		var err error
		if found, err = retrieval.Choose(s.sources, maxPerDocument, analysis.Terms); err != nil {
			return retrieval.Result{}, fmt.Errorf("choose sources: %w", err)
		}
	}
	found.Cache = retrieval.CacheMiss // do not cache: the result belongs to this state only
	return found, nil
}

// readSources parses the sources of a state.
func readSources(list []byte) ([]retrieval.Source, error) {
	var each []json.RawMessage
	if list == nil {
		return nil, nil
	}
	if err := json.Unmarshal(list, &each); err != nil {
		return nil, &OptionError{Param: "sources", Reason: "not an array"}
	}
	if len(each) > maxSources {
		return nil, &OptionError{Param: "sources", Reason: fmt.Sprintf("%d sources; at most %d", len(each), maxSources)}
	}
	sources := make([]retrieval.Source, 0, len(each))
	for i, raw := range each {
		s := source{KB: "state", Type: "rag"}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		at := fmt.Sprintf("sources[%d]", i)
		if err := d.Decode(&s); err != nil {
			if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && wrong.Field != "" {
				return nil, &OptionError{Param: at + "." + wrong.Field, Reason: fmt.Sprintf("%s, not %s", wrong.Value, jsonKind(wrong.Type.Kind()))}
			}
			return nil, &OptionError{Param: at, Reason: strings.TrimPrefix(err.Error(), "json: ") + "; use kb_id, doc_id, type, name, section, text, score or arm"}
		}
		if strings.TrimSpace(s.Text) == "" {
			return nil, &OptionError{Param: at + ".text", Reason: "empty"}
		}
		arm := cmp.Or(retrieval.Arm(s.Arm), retrieval.ArmGiven)
		if arm != retrieval.ArmGiven && arm != retrieval.ArmWords && arm != retrieval.ArmVector {
			return nil, &OptionError{Param: at + ".arm", Reason: fmt.Sprintf("%.40q is not an arm; use %s or %s", arm, retrieval.ArmWords, retrieval.ArmVector)}
		}
		sources = append(sources, retrieval.Source{Type: s.Type, Knowledge: s.KB, Doc: s.Doc, Name: s.Name, Section: s.Section, Text: s.Text, Score: s.Score, Arm: arm, Chunk: i})
	}
	return sources, nil
}

// jsonKind returns the JSON name of the type of a source's field.
func jsonKind(k reflect.Kind) string {
	if k == reflect.Float64 {
		return "a number"
	}
	return "a string"
}

// ofState changes the Param of an OptionError to the option's name in a state.
func ofState(err error) error {
	if option := (*OptionError)(nil); errors.As(err, &option) {
		return &OptionError{Param: strings.TrimPrefix(option.Param, "sidenote."), Reason: option.Reason}
	}
	return err
}

// messagesOf returns the messages of a request as a JSON array.
func messagesOf(r *chat.Request) json.RawMessage {
	list := []byte{'['}
	for i, m := range r.Messages {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, m.Of(r.Body)...)
	}
	return append(list, ']')
}

type foundKey struct{}

// brought is the Retriever of an Assembler: it returns the state's sources from the context.
func brought(ctx context.Context, _ retrieval.Query) (retrieval.Result, error) {
	found, _ := ctx.Value(foundKey{}).(retrieval.Result)
	return found, nil
}
