package rewrite

import (
	"fmt"
	"net/url"
	"strconv"

	"sidenote/retrieval"
	"sidenote/rewrite/chat"
)

// Under SourcesSearchResult the sources for models that cite by themselves are content blocks of the
// type search_result at the end of the last user message (platform.claude.com/docs, "Search results").
// The rules are in the system message, as under PlaceSplit.

// canCite reports whether the sources of this request can be search results. Citations exclude a
// format of the answer, and are enabled for all search results of a request or for none. Those of
// the application must come first, so that their numbers stay.
func (j *job) canCite() bool {
	p := j.policy
	if p.SourcesFormat != SourcesSearchResult || j.req.API != chat.Messages || !j.model.SearchResults ||
		p.Mode == Staged || p.Citations == CitationsOff || !j.req.TextFormat || j.last < 0 || !j.req.TakesBlocks(j.last) || j.req.KeepsSystem() || j.model.NoSystem {
		return false
	}
	j.theirs = j.req.SearchResultsAround(j.last)
	return !j.theirs.After && !j.theirs.Uncited
}

// A searchResult holds what is shown of a source besides its text.
type searchResult struct{ source, title string }

// newResult renders a source as a search result.
func newResult(s *retrieval.Source, id int, p *Policy) sourceBlock {
	r := &searchResult{source: p.resultSource(s, id), title: p.resultTitle(s, id)}
	return sourceBlock{source: s, raw: s.Text, head: r.title + "\n" + r.source + "\n", body: p.SafeText(s.Text), result: r}
}

func (r *searchResult) json(text string) []byte {
	return chat.AppendSearchResult(make([]byte, 0, len(text)+len(text)/16+256), r.source, r.title, text)
}

// resultSource returns an address such as "sidenote://handbook/leave.md#3", without what the style
// does not show.
func (s *Style) resultSource(src *retrieval.Source, id int) string {
	u := url.URL{Scheme: "sidenote"}
	if s.shows("kb_id") {
		u.Host = src.Knowledge
	}
	if u.Path = "/source"; s.shows("doc_id") {
		u.Path = "/" + src.Doc
	}
	u.Fragment = strconv.Itoa(id)
	if s.shows("doc_id") && src.Chunk >= 0 { // negative if a vector store does not say
		u.Fragment = strconv.Itoa(src.Chunk)
	}
	return u.String()
}

// resultTitle returns a title such as "Leave policy > Parental leave (2024-01)", without what the
// style does not show.
func (s *Style) resultTitle(src *retrieval.Source, id int) string {
	title := ""
	if s.shows("name") {
		title = src.Name
	}
	if s.shows("section") && src.Section != "" {
		if title != "" {
			title += " > "
		}
		title += src.Section
	}
	if title == "" {
		title = fmt.Sprintf("Source %d", id)
	}
	if s.shows("date") && src.Date != "" {
		title += " (" + src.Date + ")"
	}
	return title
}

// CitedResults says which search results of a request are sources. Their numbers follow those of
// the application's own search results.
type CitedResults struct {
	First int   `json:"first"` // number of the first one, from 0
	IDs   []int `json:"ids"`   // ids of the sources, in order
}

// results returns the CitedResults of a fit; nil if its sources are no search results.
func (j *job) results(f *fitResult) *CitedResults {
	if !j.searchResults || f == nil || f.selected == 0 {
		return nil
	}
	r := &CitedResults{First: j.theirs.Before}
	for i := range f.sources {
		if f.sources[i].Inclusion != Excluded {
			r.IDs = append(r.IDs, f.sources[i].ID)
		}
	}
	return r
}
