package server

import (
	"context"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/demo"
	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
)

// Searching only the base that has the answer is hardly better than searching all bases: bases
// about a topic do not lose to those that mention it. The bases are pages of this repository, one
// each, and the documents of the demo.
func TestTheRightBaseIsFound(t *testing.T) {
	bases := map[string]*knowledge.Base{}
	for id, page := range map[string]string{
		"proxy": "proxy", "rewrite": "rewrite", "cache": "cache", "retrieval": "retrieval", "deploy": "deploy", "commands": "cmd/sidenote", "bench": "cmd/sidenote-bench",
		"tools": "retrieval/tools", "stages": "rewrite/staged", "keys": "cmd/sidenote/CONFIG.md",
	} {
		if !strings.HasSuffix(page, ".md") {
			page += "/README.md"
		}
		text, err := os.ReadFile("../../../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		bases[id] = baseOf(t, id, []chunk.Document{{ID: "README.md", Text: string(text), Markdown: true}})
	}
	corpus := demo.Corpus()
	var nordwick []chunk.Document
	files, err := fs.Glob(corpus, "*.md")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(corpus, file)
		if err != nil {
			t.Fatal(err)
		}
		nordwick = append(nordwick, chunk.Document{ID: file, Text: string(text), Markdown: true})
	}
	bases["nordwick"] = baseOf(t, "nordwick", nordwick)
	group := &knowledge.Group{
		Base: func(id string) *knowledge.Base { return bases[id] }, Wait: time.Minute,
		Start: func(f func(context.Context)) { f(context.Background()) },
	}
	pipeline := &retrieval.Pipeline{
		Bases: func(string) retrieval.Retriever { return group }, Joint: func(string) string { return "all" }, Terms: new(analysis.Recent).Terms,
	}
	place := func(question, base, text string, ids ...string) int { // rank of the answer among the sources, from 1; 0 if missing
		q := retrieval.Query{Text: question, Settings: retrieval.DefaultSettings()}
		q.Settings.Deadline = time.Minute
		for _, id := range ids {
			q.Bases = append(q.Bases, bases[id].Ref())
		}
		res, err := pipeline.Retrieve(t.Context(), q)
		if err != nil || res.Partial || res.Provisional {
			t.Fatalf("%q: %+v, %v", question, res, err)
		}
		for i, s := range res.Sources {
			if s.Knowledge == base && strings.Contains(s.Text, text) {
				return i + 1
			}
		}
		return 0
	}
	var all []string
	for id := range bases {
		all = append(all, id)
	}
	first, six, lost := 0, 0, 0
	for _, c := range questions() {
		together, told := place(c.question, c.base, c.text, all...), place(c.question, c.base, c.text, c.base)
		if together != told {
			t.Logf("%q: number %d, told the base %d", c.question, together, told)
		}
		if together == 1 {
			first++
		}
		if together > 0 {
			six++
		}
		if together == 0 && told > 0 {
			lost++
		}
	}
	t.Logf("of %d: first %d, among the sources %d, found only when told the base %d", len(questions()), first, six, lost)
	if first < 20 || six < 26 || lost > 2 {
		t.Error("the right base is not found")
	}
}

// baseOf returns a base of documents.
func baseOf(t *testing.T, id string, documents []chunk.Document) *knowledge.Base {
	t.Helper()
	reader, err := NewReader("")
	if err != nil {
		t.Fatal(err)
	}
	content, _, err := knowledge.FromDocuments(t.Context(), documents, reader.Deps())
	if err != nil {
		t.Fatal(err)
	}
	base := knowledge.New(id)
	base.Swap(content)
	return base
}

// questions returns questions, each answered by one base in a chunk that contains the text.
func questions() []struct{ question, base, text string } {
	return []struct{ question, base, text string }{
		{"How do I show the sources beside the answer?", "proxy", "## Show the sources beside the answer"},
		{"what does the Sidenote-Status header say", "proxy", "## Sidenote-Status"},
		{"which errors come from Sidenote itself", "proxy", "## Errors of Sidenote"},
		{"can a single request ask for less context", "proxy", "## Options of a request"},
		{"where in the messages is the block placed", "rewrite", "## Where it goes"},
		{"how are tokens counted for my model", "rewrite", "## Tokens"},
		{"what instructions does the model get about the sources", "rewrite", "## What it says"},
		{"what does it cost to count tokens", "rewrite", "### What counting costs"},
		{"share a Redis between several replicas", "cache", "Redis"},
		{"which metrics show that the cache works", "cache", "## Metrics"},
		{"encrypt cached values in Redis", "cache", "keys"},
		{"my volume is not mounted and all files are gone", "retrieval", "### Files that are gone"},
		{"filter documents by audience", "retrieval", "## Filters"},
		{"evaluate with BEIR queries and qrels", "retrieval", "qrels"},
		{"use a vector store at OpenAI as a base", "retrieval", "## Bases elsewhere"},
		{"how much memory does a base of a million chunks take", "retrieval", "1,000,000"},
		{"back up the state folder before an upgrade", "deploy", "## Upgrade and back up"},
		{"which probes does kubernetes need", "deploy", "## Probes"},
		{"graceful shutdown and open streams", "deploy", "## Stop"},
		{"threat model for hostile documents", "deploy", "## Threat model"},
		{"token of the admin port", "deploy", "### The admin port"},
		{"configure several teams with their own keys", "commands", "### Several teams"},
		{"refuse instead of answering without sources", "commands", "With `on_failure: {retrieval: refuse}`"},
		{"default value of reserve_output_tokens", "keys", "reserve_output_tokens"},
		{"how slow is a chat beside a bare relay", "bench", "relay"},
		{"How many weeks of parental leave do I get?", "nordwick", "16 weeks"},
		{"my laptop was stolen", "nordwick", "laptop"},
		{"how do I book a flight", "nordwick", "flight"},
		{"when is my salary paid", "nordwick", "25th"},
		{"may I work from home abroad", "nordwick", "abroad"},
	}
}
