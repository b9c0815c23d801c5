package main

import (
	"cmp"
	"errors"
	"path/filepath"
	"time"

	"sidenote/cmd/internal/console"
	"sidenote/cmd/sidenote/internal/engine"
	"sidenote/cmd/sidenote/internal/evaluation"
	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/eval"
	"sidenote/retrieval/followup"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/folder"
)

type evalCmd struct {
	Data     string `required:"" placeholder:"DIR" help:"Collection in the layout of BEIR: corpus.jsonl, queries.jsonl, qrels/*.tsv."`
	Split    string `placeholder:"NAME" help:"Which of qrels/*.tsv (test, or the only one)."`
	Queries  int    `placeholder:"N" help:"Ask the first N queries only."`
	OffTopic string `name:"off-topic" placeholder:"FILE" help:"Messages that no document answers, one a line or as JSONL, and which should get no sources."`
	Worst    int    `placeholder:"N" help:"Show the N queries that went worst: what was found, and what should have been. With --off-topic, N messages that get sources too."`
	JSON     bool   `name:"json" help:"Print everything as JSON."`
}

// Help shows how eval is used.
func (evalCmd) Help() string {
	return "Indexes the documents in memory, asks the queries, and measures what is found as trec_eval does.\n\n" +
		"sidenote eval --data ./scifact\n\nsidenote eval --data ./our-questions --worst 5\n\nsidenote eval --data ./our-questions --off-topic small-talk.txt\n\n" +
		"corpus.jsonl has lines of {\"_id\", \"title\", \"text\"}, queries.jsonl of {\"_id\", \"text\"} and, where something was said before, \"turns\", and qrels/test.tsv of query id, document id and grade with tabs between them."
}

// evalBase is the id of the scratch base.
const evalBase = "eval"

// evalDeadline is longer than any search takes, so that none is cut short.
const evalDeadline = time.Minute

// Run measures how well the queries of a collection are answered.
func (c *evalCmd) Run(a *app) error {
	if c.Queries < 0 || c.Worst < 0 {
		return usageError{errors.New("--queries and --worst take a number of queries")}
	}
	show := newProgress(a)
	defer show.Clear()
	show.Show(console.Work{Name: "reading " + c.Data})
	data, err := eval.Read(a.ctx, c.Data, c.Split)
	if errors.Is(err, eval.ErrNoCollection) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	var offTopic []eval.Message
	if c.OffTopic != "" {
		if offTopic, err = eval.ReadMessages(a.ctx, c.OffTopic); errors.Is(err, eval.ErrNoCollection) {
			return usageError{err}
		}
		if err != nil {
			return err
		}
	}
	if c.Queries > 0 {
		data.Queries = data.Queries[:min(c.Queries, len(data.Queries))]
	}
	start := time.Now()
	content, err := scratch(a, data, show)
	if err != nil {
		return err
	}
	e := evaluation.Evaluation{
		Name: c.name(), Data: data, Messages: offTopic,
		Chunks: content.Chunks(), Index: time.Since(start), Settings: retrieval.DefaultSettings(),
	}
	if e.Outcomes, err = trial(&e, content, show, len(data.Queries), "queries").Run(a.ctx, data); err != nil {
		return err
	}
	if e.OffTopic, err = trial(&e, content, show, len(offTopic), "off-topic messages").OffTopic(a.ctx, offTopic); err != nil {
		return err
	}
	show.Clear()
	if len(e.Outcomes) == 0 {
		return errors.New("stopped before the first query was answered")
	}
	if c.JSON {
		if err := printJSON(a.stdout, e.Answer(c.Worst)); err != nil {
			return err
		}
	} else {
		noColor, _ := a.env("NO_COLOR")
		e.Print(a.stdout, c.Worst, noColor == "" && console.IsTerminal(a.stdout))
	}
	if err := e.Undone(); err != nil {
		return partError{err}
	}
	return nil
}

// name is that of the folder.
func (c *evalCmd) name() string {
	if path, err := filepath.Abs(c.Data); err == nil {
		return filepath.Base(path)
	}
	return c.Data
}

// scratch indexes the documents in memory, as serve does those of a folder.
func scratch(a *app, data *eval.Collection, show *console.Progress) (*knowledge.Content, error) {
	reader, err := engine.NewReader("")
	if err != nil {
		return nil, err
	}
	documents := make([]document.Document, len(data.Documents))
	for i, d := range data.Documents {
		// BEIR searches title and text as one, so a document without text is found by its title.
		documents[i] = document.Document{ID: d.ID, Name: d.Title, Text: cmp.Or(d.Text, d.Title)}
	}
	deps := reader.Deps()
	deps.Progress = func(p folder.Progress) {
		show.Show(console.Work{Name: "indexing", Done: p.Done, Total: p.Files, Unit: "documents", Note: console.Plural(p.Chunks, "chunk")})
	}
	content, _, err := knowledge.FromDocuments(a.ctx, documents, deps)
	if a.ctx.Err() != nil {
		return nil, errors.New("stopped while the documents were being indexed")
	}
	return content, err
}

// trial searches content as requests of the default policy do, without caches and with
// another deadline. It shows how many of all it has asked, of what.
func trial(e *evaluation.Evaluation, content *knowledge.Content, show *console.Progress, all int, of string) eval.Trial {
	base := knowledge.New(evalBase)
	base.Swap(content)
	terms := new(analysis.Recent).Terms
	scratch := func(id string) (retrieval.Ref, bool) { return base.Ref(), id == evalBase }
	pipeline := retrieval.Pipeline{Bases: func(string) retrieval.Retriever { return base }, Terms: terms}
	settings := e.Settings
	settings.Deadline = evalDeadline
	prepared := func(next retrieval.Retriever) retrieval.Retriever {
		return retrieval.Prepare{Next: next, Ref: scratch, Terms: terms, Join: followup.Join}
	}
	return eval.Trial{
		Engine:  prepared(base),
		Request: prepared(pipeline),
		Query:   retrieval.Query{Bases: []retrieval.Ref{{Knowledge: evalBase}}, Encoding: engine.ChunkEncoding, Settings: settings},
		Progress: func(done int) {
			show.Show(console.Work{Name: "asking", Done: done, Total: all, Unit: of})
		},
	}
}
