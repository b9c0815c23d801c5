package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"sidenote/cache/budget"
	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
)

// A embeddingPlan is what embedding would take.
type embeddingPlan struct {
	Object   string        `json:"object"` // "ingest.plan"
	Model    string        `json:"model"`
	Upstream string        `json:"upstream"`
	Bases    []plannedBase `json:"knowledge"`
	server.EmbeddingEstimate
	USD string `json:"usd,omitempty"` // "" if the model has no price
}

// A plannedBase is one base of a Plan.
type plannedBase struct {
	ID string `json:"id"`
	server.EmbeddingEstimate
}

// errNotEmbedded means that there is nothing to plan.
var errNotEmbedded = errors.New("--plan: no base is embedded; write embeddings, and embed: true in a base")

// Plan reads the folders of the bases with embed and estimates what embedding them would take. It
// writes nothing and calls no service or engine, so all chunks of bases in engines count as new.
func (r *ingestion) Plan(ctx context.Context) (p embeddingPlan, err error) {
	client, err := newIngestEmbedder(r)
	if err != nil {
		return embeddingPlan{}, err
	}
	if client == nil {
		return embeddingPlan{}, errNotEmbedded
	}
	defer client.Close()
	reader, err := server.NewReader(r.Config.State.Path)
	if err != nil {
		return embeddingPlan{}, err
	}
	planner := server.EmbeddingPlanner{Client: client}
	kept, err := server.OpenLibrary(ctx, r.Config.State.Path, library.Options{ReadOnly: true})
	switch {
	case err == nil:
		defer func() { err = errors.Join(err, kept.Close()) }()
		vectors := library.VectorsOf(kept)
		planner.Kept = &vectors
	case !errors.Is(err, fs.ErrNotExist): // the folder does not exist yet
		return embeddingPlan{}, fmt.Errorf("state: %w", err)
	}
	var bases []plannedBase
	plan := func(names []config.Name, planner *server.EmbeddingPlanner) error {
		for _, name := range names {
			c, err := contentOf(ctx, r, reader, kept, name)
			if err != nil {
				return err
			}
			if c == nil {
				continue
			}
			e, err := planner.Base(ctx, c)
			if err != nil {
				return err
			}
			bases = append(bases, plannedBase{string(name), e})
		}
		return nil
	}
	if err := plan(config.Embedded(r.Config), &planner); err != nil {
		return embeddingPlan{}, err
	}
	for _, name := range config.EmbeddedElsewhere(r.Config) { // they share no vectors
		if err := plan([]config.Name{name}, &server.EmbeddingPlanner{Client: client}); err != nil {
			return embeddingPlan{}, err
		}
	}
	return newEmbeddingPlan(r.Config, bases...), nil
}

// PlanOf returns the plan for bases with known estimates.
func newEmbeddingPlan(cfg *config.Config, bases ...plannedBase) embeddingPlan {
	p := embeddingPlan{Object: "ingest.plan", Bases: bases}
	p.Model = retrieval.Space{Model: cfg.Embeddings.Model, Dimensions: int(cfg.Embeddings.Dimensions)}.String()
	p.Upstream, _ = config.EmbeddingsUpstream(cfg)
	for _, e := range bases {
		p.Chunks, p.Kept, p.Inputs, p.Tokens = p.Chunks+e.Chunks, p.Kept+e.Kept, p.Inputs+e.Inputs, p.Tokens+e.Tokens
	}
	p.USD = embeddingCost(cfg, p.Tokens)
	return p
}

// contentOf returns the content of a base, from its folder or from the state folder; nil for none.
func contentOf(ctx context.Context, r *ingestion, reader *server.Reader, kept *library.Library, name config.Name) (*knowledge.Content, error) {
	if r.Config.Knowledge[name].Path == "" {
		if kept == nil {
			return nil, nil
		}
		err := kept.Reload(ctx, string(name))
		return kept.Base(string(name)).Content(), err
	}
	deps := reader.Deps()
	deps.Progress = func(p folder.Progress) { r.progress(p.Knowledge, p.Done, p.Files, p.Chunks) }
	c, _, err := knowledge.Load(ctx, r.Config.Folder(name), deps)
	r.Show.Clear()
	return c, err
}

// cost returns the cost of tokens of the model, in dollars; "" if it has no price.
func embeddingCost(cfg *config.Config, tokens int) string {
	model := config.PriceTable(cfg.Prices)
	prices, ok := model.Find(cfg.Embeddings.Model)
	if !ok {
		return ""
	}
	usd, err := prices.Prices.Cost(budget.Tokens{Input: int64(tokens)})
	if err != nil {
		return ""
	}
	return roundedUSD(usd)
}

// rounded formats an amount in dollars, rounded up to hundredths of a cent, as it is an estimate.
func roundedUSD(usd budget.PicoDollars) string {
	const unit = budget.Dollar / 10_000
	return fmt.Sprintf("%.4f", float64((usd+unit-1)/unit)/10_000)
}

// Print prints a plan.
func (p embeddingPlan) Print(w io.Writer) {
	for _, b := range p.Bases {
		fmt.Fprintf(w, "%s: %s, %s there already; %s to be sent, about %s\n", b.ID, terminal.Plural(b.Chunks, "chunk"),
			terminal.Thousands(b.Kept), terminal.Plural(b.Inputs, "input"), terminal.Plural(b.Tokens, "token"))
	}
	price := "prices has no price for it"
	if p.USD != "" {
		price = "about $" + p.USD
	}
	fmt.Fprintf(w, "in all %s, about %s, to %s for %s: %s\n", terminal.Plural(p.Inputs, "input"), terminal.Plural(p.Tokens, "token"), p.Upstream, p.Model, price)
}
