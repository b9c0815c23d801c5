package ingestion

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

// A Plan is what embedding would take.
type Plan struct {
	Object   string        `json:"object"` // "ingest.plan"
	Model    string        `json:"model"`
	Upstream string        `json:"upstream"`
	Bases    []PlannedBase `json:"knowledge"`
	server.EmbeddingEstimate
	USD string `json:"usd,omitempty"` // "" where the model has no price
}

// A PlannedBase is one base of a Plan.
type PlannedBase struct {
	ID string `json:"id"`
	server.EmbeddingEstimate
}

// ErrNotEmbedded says that there is nothing to plan.
var ErrNotEmbedded = errors.New("--plan: no base is embedded; write embeddings, and embed: true in a base")

// Plan reads the folders of the bases that are embedded, and says what embedding them would
// take. It writes nothing and asks no service.
func (r *Run) Plan(ctx context.Context) (p Plan, err error) {
	client, err := newClient(r)
	if err != nil {
		return Plan{}, err
	}
	if client == nil {
		return Plan{}, ErrNotEmbedded
	}
	defer client.Close()
	reader, err := server.NewReader(r.Config.State.Path)
	if err != nil {
		return Plan{}, err
	}
	planner := server.EmbeddingPlanner{Client: client}
	kept, err := server.OpenLibrary(ctx, r.Config.State.Path, library.Options{ReadOnly: true})
	switch {
	case err == nil:
		defer func() { err = errors.Join(err, kept.Close()) }()
		vectors := library.VectorsOf(kept)
		planner.Kept = &vectors
	case !errors.Is(err, fs.ErrNotExist): // nothing has been written yet
		return Plan{}, fmt.Errorf("state: %w", err)
	}
	var bases []PlannedBase
	for _, name := range config.Embedded(r.Config) {
		c, err := contentOf(ctx, r, reader, kept, name)
		if err != nil {
			return Plan{}, err
		}
		if c == nil {
			continue
		}
		e, err := planner.Base(ctx, c)
		if err != nil {
			return Plan{}, err
		}
		bases = append(bases, PlannedBase{string(name), e})
	}
	return PlanOf(r.Config, bases...), nil
}

// PlanOf is the plan of some bases whose estimates are known.
func PlanOf(cfg *config.Config, bases ...PlannedBase) Plan {
	p := Plan{Object: "ingest.plan", Bases: bases}
	p.Model = retrieval.Space{Model: cfg.Embeddings.Model, Dimensions: int(cfg.Embeddings.Dimensions)}.String()
	p.Upstream, _ = config.EmbeddingsUpstream(cfg)
	for _, e := range bases {
		p.Chunks, p.Kept, p.Inputs, p.Tokens = p.Chunks+e.Chunks, p.Kept+e.Kept, p.Inputs+e.Inputs, p.Tokens+e.Tokens
	}
	p.USD = cost(cfg, p.Tokens)
	return p
}

// contentOf is what a base holds: what its folder does, or what was put into it; nil for nothing.
func contentOf(ctx context.Context, r *Run, reader *server.Reader, kept *library.Library, name config.Name) (*knowledge.Content, error) {
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

// cost is what tokens of the model cost, in dollars; "" where it has no price.
func cost(cfg *config.Config, tokens int) string {
	model := config.PriceTable(cfg.Prices)
	prices, ok := model.Find(cfg.Embeddings.Model)
	if !ok {
		return ""
	}
	usd, err := prices.Prices.Cost(budget.Tokens{Input: int64(tokens)})
	if err != nil {
		return ""
	}
	return rounded(usd)
}

// rounded is an amount in dollars and hundredths of a cent, rounded up: it is an estimate.
func rounded(usd budget.PicoDollars) string {
	const unit = budget.Dollar / 10_000
	return fmt.Sprintf("%.4f", float64((usd+unit-1)/unit)/10_000)
}

// Print prints a plan.
func (p Plan) Print(w io.Writer) {
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
