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

// Limits of a page.
const (
	maxDocuments = 50 // of a base
	maxChunks    = 20 // of a document
	maxSkipped   = 20 // skipped files

	roomOfChunks = 130 << 10 // for all chunks together, in bytes of the page
	maxChunk     = 16 << 10  // bytes of a chunk
)

// A knowledgeView is the data of knowledge.html.
type knowledgeView struct {
	Live    bool // the page refreshes its figures while it is visible
	Query   string
	Tenant  string
	Tenants []string
	Choices []choice
	Wrong   string     // why the search failed
	Found   *foundView // nil without a search
	Bases   []baseState
}

// A choice is a base that can be selected for the search.
type choice struct {
	Name   string
	Chosen bool
}

// A baseState is the state of a base.
type baseState struct {
	explain.Base
	Wrong string // why the state is unknown
}

// Changed returns when documents last changed; zero if never.
func (b *baseState) Changed() time.Time {
	if b.ChangedAt == nil {
		return time.Time{}
	}
	return time.Unix(*b.ChangedAt, 0)
}

// stateOf returns the state of a base.
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

// A foundView is a search result.
type foundView struct {
	explain.SearchResult
	Rows   []foundRow
	Floor  string // requirement for candidates; "" if there is none
	Stages []explain.LookupStage
}

// A foundRow is a line of the search result.
type foundRow struct {
	*explain.Candidate
	Width, Line float64 // in the drawing: of the relevance, and position of the required one; Line is 0 if there is none
	Excerpt     longText
}

// search searches bases as a tenant, or without one. It makes no calls that cost money, since
// viewing a page must not.
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
	out := &foundView{SearchResult: found, Floor: found.Floor(), Stages: explain.LookupStages(&found.Result)}
	for _, c := range found.Candidates() {
		row := foundRow{Candidate: c, Width: barWidth * c.Relevance, Line: barWidth * c.RequiredRelevance}
		if c.Number > 0 {
			row.Excerpt = cut(strings.Join(strings.Fields(c.Text), " "), documentAddress(c.Knowledge, c.Doc, c.Chunk))
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

// A baseView is the data of base.html.
type baseView struct {
	baseState
	Text          string // filter for the ids and names of documents
	Listed        []documentRow
	Unlisted      bool // the base has documents but cannot list them
	From, Total   int  // range of the list, within the documents that match Text
	Before, After string
	Skipped       []explain.Skipped
	MoreSkipped   int
	Live          bool
	Change        changeView
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
	view := &baseView{baseState: i.stateOf(v.name), Change: i.changeView(v), Text: strings.TrimSpace(string(v.QueryArgs().Peek("text")))}
	view.Live = view.Text == "" // filtering looks through all documents
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

// list adds the documents from index from on.
func (view *baseView) list(s explain.Store, from int) {
	chosen := func(i int) int { return i } // maps a list index to a document
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

// choose returns the documents whose ids or names contain text, which is in lower case, and their
// number.
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

// number returns a number in the query; -1 if there is none.
func number(v *visit, name string) int {
	if n, err := strconv.Atoi(string(v.QueryArgs().Peek(name))); err == nil && n >= 0 {
		return n
	}
	return -1
}

// A documentView is the data of document.html.
type documentView struct {
	explain.Reading
	Attributes    string
	Chunks        []chunkView
	Before, After string
	JSON          string
}

// A chunkView is a chunk of a document.
type chunkView struct {
	explain.KnowledgeChunk
	Hit  bool // named in the URL
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
		case !has && c.Chunk <= hit: // the chunk named in the URL must be on this page
			view.Chunks, view.Before, left = nil, page(first), room(roomOfChunks-size)
		case !has:
			view.After = page(c.Chunk)
			return view, nil
		}
		view.Chunks = append(view.Chunks, shown)
	}
	return view, nil
}

// read reads the document named in the URL, from chunk first on.
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

// messageOf returns the text of an error for people.
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

// stateTone returns the CSS class for the state of a base.
func stateTone(s explain.Status) string {
	switch s {
	case explain.StatusReady:
		return "good"
	case explain.StatusFailed:
		return "bad"
	}
	return "calm"
}
