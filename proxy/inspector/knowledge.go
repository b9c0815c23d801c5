package inspector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// How much a page shows.
const (
	maxDocuments = 50 // of a base
	maxChunks    = 20 // of a document
	maxSkipped   = 20 // files that were not read

	roomOfChunks = 130 << 10 // of all together, in bytes of the page
	maxChunk     = 16 << 10  // bytes of a chunk
)

// A knowledgeView is what knowledge.html is made of.
type knowledgeView struct {
	Live    bool // its figures are made anew while somebody looks
	Query   string
	Tenant  string
	Tenants []string
	Choices []choice
	Wrong   string     // why nothing was searched
	Found   *foundView // nil: nothing was
	Bases   []baseState
}

// A choice is a base that may be searched.
type choice struct {
	Name   string
	Chosen bool
}

// A baseState is how a base does.
type baseState struct {
	explain.Base
	Wrong string // why that is not known
}

// Changed is when documents last changed; the zero time for never.
func (b *baseState) Changed() time.Time {
	if b.ChangedAt == nil {
		return time.Time{}
	}
	return time.Unix(*b.ChangedAt, 0)
}

// stateOf asks how a base does.
func (i *Inspector) stateOf(id string) baseState {
	b, err := i.data.Knowledge.Describe(context.Background(), id)
	if err != nil {
		return baseState{Base: explain.Base{ID: id}, Wrong: err.Error()}
	}
	return baseState{Base: b.Shortened()}
}

func knowledgePage(i *Inspector, v *visit) (any, error) {
	k, args := i.data.Knowledge, v.QueryArgs()
	if k == nil {
		return &knowledgeView{}, nil
	}
	view := &knowledgeView{Query: strings.TrimSpace(string(args.Peek("q"))), Tenant: string(args.Peek("tenant"))}
	if k.Tenants != nil {
		view.Tenants = slices.Sorted(maps.Keys(k.Tenants.Policies()))
	}
	var chosen []string
	for _, name := range args.PeekMulti("kb") {
		chosen = append(chosen, string(name))
	}
	for _, id := range k.Bases() {
		view.Choices = append(view.Choices, choice{id, slices.Contains(chosen, id)})
		view.Bases = append(view.Bases, i.stateOf(id))
	}
	if view.Live = view.Query == ""; !view.Live {
		var err error
		if view.Found, err = search(k, view, chosen); err != nil {
			view.Wrong = messageOf(err)
		}
	}
	return view, nil
}

// A foundView is the answer to a search.
type foundView struct {
	explain.Found
	Rows   []foundRow
	Floor  string // what candidates need; "" for nothing
	Stages []explain.LookupStage
}

// A foundRow is a line of it.
type foundRow struct {
	*explain.Candidate
	Width, Line float64 // of its relevance, and where what it needs is, in the drawing; Line 0: it needs nothing
	Excerpt     longText
}

// search asks bases as a tenant, or as nobody. Nothing is asked that costs money, as looking at a
// page must not.
func search(k *explain.Knowledge, view *knowledgeView, bases []string) (*foundView, error) {
	var as *string
	if view.Tenant != "" {
		as = &view.Tenant
	}
	who, err := k.Viewer(as)
	if err != nil {
		return nil, err
	}
	found, err := k.Search(context.Background(), who, &explain.LookupSearch{Query: view.Query, Knowledge: bases, Explain: true})
	if err != nil {
		return nil, err
	}
	out := &foundView{Found: found, Floor: found.Floor(), Stages: explain.LookupStages(&found.Result)}
	for _, c := range found.Candidates() {
		row := foundRow{Candidate: c, Width: barWidth * c.Relevance, Line: barWidth * c.Least}
		if c.Number > 0 {
			row.Excerpt = cut(strings.Join(strings.Fields(c.Text), " "), documentAddress(c.Knowledge, c.Doc, c.Chunk))
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

// A baseView is what base.html is made of.
type baseView struct {
	baseState
	Text          string // a part of the ids and names of the documents that are listed
	Listed        []documentRow
	Unlisted      bool // the base has documents, and cannot list them
	From, Total   int  // of those that are listed, among those that the text chooses
	Before, After string
	Skipped       []explain.Skipped
	MoreSkipped   int
	Live          bool
}

// A documentRow is a line of the list of documents.
type documentRow struct {
	explain.KnowledgeFile
	Attributes string // as JSON; "" for none
}

func basePage(i *Inspector, v *visit) (any, error) {
	if i.data.Knowledge == nil || !slices.Contains(i.data.Knowledge.Bases(), v.name) {
		return nil, &problem{fasthttp.StatusNotFound, fmt.Sprintf("There is no knowledge base %s.", cut(v.name, "").Text)}
	}
	view := &baseView{baseState: i.stateOf(v.name), Text: strings.TrimSpace(string(v.QueryArgs().Peek("text")))}
	view.Live = view.Text == "" // all documents are looked through for it
	if g := view.Ingest; g != nil && g.Report != nil {
		view.Skipped = g.Report.Skipped[:min(len(g.Report.Skipped), maxSkipped)]
		view.MoreSkipped = g.Report.SkippedTotal - len(view.Skipped)
	}
	if i.data.Knowledge.Stores == nil {
		return view, nil
	}
	s, _ := i.data.Knowledge.Stores.Store(v.name)
	if view.Unlisted = s.Unlisted(); s.File == nil {
		return view, nil
	}
	view.list(s, max(number(v, "from"), 0))
	return view, nil
}

// list lists documents from one on.
func (view *baseView) list(s explain.Store, from int) {
	chosen := func(i int) int { return i } // of those that are listed
	if view.Total = s.Files; view.Text != "" {
		chosen, view.Total = choose(s, strings.ToLower(view.Text))
	}
	for n := from; n < view.Total && len(view.Listed) < maxDocuments; n++ {
		f := s.File(chosen(n))
		view.Listed = append(view.Listed, documentRow{f, attributesOf(f.Attributes)})
	}
	page := func(from int) string {
		return fmt.Sprintf("%s?%s", baseAddress(view.ID), url.Values{"text": {view.Text}, "from": {strconv.Itoa(from)}}.Encode())
	}
	if view.From = from; from > 0 {
		view.Before = page(max(from-maxDocuments, 0))
	}
	if from+len(view.Listed) < view.Total && len(view.Listed) > 0 {
		view.After = page(from + maxDocuments)
	}
}

// choose returns the documents whose ids or names contain a text in lower case, and how many there are.
func choose(s explain.Store, text string) (at func(int) int, n int) {
	var all []int
	for i := range s.Files {
		if f := s.File(i); strings.Contains(strings.ToLower(f.ID), text) || strings.Contains(strings.ToLower(f.Name), text) {
			all = append(all, i)
		}
	}
	return func(i int) int { return all[i] }, len(all)
}

func attributesOf(attributes map[string]any) string {
	if len(attributes) == 0 {
		return ""
	}
	b, err := json.Marshal(attributes)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// number reads a number of the address; -1 is none.
func number(v *visit, name string) int {
	if n, err := strconv.Atoi(string(v.QueryArgs().Peek(name))); err == nil && n >= 0 {
		return n
	}
	return -1
}

// A documentView is what document.html is made of.
type documentView struct {
	explain.Reading
	Attributes    string
	Chunks        []chunkView
	Before, After string
	JSON          string
}

// A chunkView is a part of a document, as it was cut.
type chunkView struct {
	explain.KnowledgeChunk
	Hit  bool // the address names it
	Text longText
}

func documentPage(i *Inspector, v *visit) (any, error) {
	hit := number(v, "chunk")
	first := number(v, "first")
	if first < 0 {
		first = max(hit, 0) / maxChunks * maxChunks
	}
	r, err := i.read(v, first)
	if err != nil {
		return nil, err
	}
	page := func(first int) string {
		return fmt.Sprintf("%s/document?%s", baseAddress(v.name), url.Values{"id": {r.Doc}, "first": {strconv.Itoa(first)}}.Encode())
	}
	view := &documentView{Reading: r, Attributes: attributesOf(r.Attributes), JSON: strings.Replace(page(first), "/document?", "/document/json?", 1)}
	if first > 0 {
		view.Before = page(max(first-maxChunks, 0))
	}
	if r.Next != nil {
		view.After = page(*r.Next)
	}
	left := room(roomOfChunks)
	for _, c := range r.Data {
		shown := chunkView{c, c.Chunk == hit, cutLines(c.Text, view.JSON, maxChunk)}
		size := lineMarkup + pageSize(shown.Text.Text)
		switch has := left.take(size); {
		case !has && c.Chunk <= hit: // what was hit is on the page that it is looked for on
			view.Chunks, view.Before, left = nil, page(first), room(roomOfChunks-size)
		case !has:
			view.After = page(c.Chunk)
			return view, nil
		}
		view.Chunks = append(view.Chunks, shown)
	}
	return view, nil
}

// read reads the document that the address names, from a chunk on.
func (i *Inspector) read(v *visit, first int) (explain.Reading, error) {
	k, chunks, tokens := i.data.Knowledge, maxChunks, explain.MaxReadTokens
	if k == nil {
		return explain.Reading{}, &problem{fasthttp.StatusNotFound, "Nothing is known of any knowledge base."}
	}
	who, err := k.Viewer(nil)
	if err != nil {
		return explain.Reading{}, err
	}
	r, err := k.Read(context.Background(), who, k.Model(""), &explain.ReadPassage{
		Knowledge: v.name, Document: string(v.QueryArgs().Peek("id")), First: first, Chunks: &chunks, MaxTokens: &tokens,
	})
	if e, ok := errors.AsType[*tenant.APIError](err); ok && e.Reason == rewrite.ReasonOption {
		return r, &problem{fasthttp.StatusNotFound, e.Message}
	}
	return r, err
}

// messageOf is what an error says to people.
func messageOf(err error) string {
	if e, ok := errors.AsType[*tenant.APIError](err); ok {
		return e.Message
	}
	return err.Error()
}

func (i *Inspector) documentJSON(v *visit) error {
	r, err := i.read(v, max(number(v, "first"), 0))
	if err != nil {
		return err
	}
	return answerJSON(v, r)
}

// stateTone is the class of the state of a base.
func stateTone(s explain.Status) string {
	switch s {
	case explain.StatusReady:
		return "good"
	case explain.StatusFailed:
		return "bad"
	}
	return "calm"
}
