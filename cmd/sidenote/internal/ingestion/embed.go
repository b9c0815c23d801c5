package ingestion

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"sidenote/cmd/internal/console"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/engine"
	"sidenote/cmd/sidenote/internal/engine/embedding"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/services"
)

// An Embedded is a base whose chunks were embedded.
type Embedded struct {
	ID     string  `json:"id"`
	Model  string  `json:"model"`
	TookMS float64 `json:"took_ms"`
	embedding.Report
	Error string `json:"error,omitempty"` // why not all of them were
}

// newClient returns that of the service for embeddings; nil if no base is embedded.
func newClient(r *Run) (*services.Embedder, error) {
	if len(config.Embedded(r.Config)) == 0 {
		return nil, nil
	}
	reader, err := engine.NewReader(r.Config.State.Path)
	if err != nil {
		return nil, err
	}
	return embedding.NewClient(r.Config, reader.Deps().Counter, embedding.Options{
		Tell:    func(_ slog.Level, line string) { r.say("%s", line) },
		Counted: func(string, string, int) {},
	}), nil
}

// embedAll embeds what the bases lack that were read, and those without a folder. Where the
// service fails, the bases after are left too.
func embedAll(ctx context.Context, r *Run, client *services.Embedder, kept *library.Library) error {
	maker := embedding.NewMaker(client, kept, int(r.Config.Embeddings.TokensPerDay))
	for _, name := range config.Embedded(r.Config) {
		id := string(name)
		if r.failed[id] != nil {
			continue
		}
		if r.Config.Knowledge[name].Path == "" {
			if err := kept.Reload(ctx, id); err != nil {
				return err
			}
			if kept.Base(id).Content() == nil {
				continue // nobody has put anything into it
			}
		}
		report, err := maker.Embed(ctx, id, func(p embedding.Progress) {
			r.where = fmt.Sprintf("after %s of %s of %s had been embedded", console.Thousands(p.Done), console.Plural(p.Chunks, "chunk"), id)
			r.Show.Show(console.Work{Name: id, Done: p.Done, Total: p.Chunks, Unit: "chunks embedded", Note: console.Plural(p.Tokens, "token")})
		})
		r.Show.Clear()
		one := Embedded{ID: id, Model: client.Space().String(), TookMS: console.Milliseconds(report.Took), Report: report}
		if err != nil {
			one.Error = err.Error()
		}
		r.Embedded = append(r.Embedded, one)
		if ctx.Err() != nil {
			return fmt.Errorf("stopped %s; what was made stays in %s, and the next ingest goes on from there", r.where, r.Config.State.Path)
		}
		if err != nil {
			r.unembedded = fmt.Errorf("knowledge %s: %s of %s embedded: %w", id, console.Thousands(report.Chunks-report.Missing()), console.Plural(report.Chunks, "chunk"), err)
			return nil
		}
		if report.Why != nil {
			r.unembedded = errors.Join(r.unembedded, fmt.Errorf("knowledge %s: the service refused %s: %w", id, console.Plural(report.Refused, "chunk"), report.Why))
		}
	}
	return maker.Forget(ctx, config.Texts(config.Embedded(r.Config)))
}

// printEmbedded prints what was embedded of a base.
func printEmbedded(w io.Writer, e Embedded) {
	fmt.Fprintf(w, "%s: %s of %s embedded by %s; %s now, %s (%.1f s)\n", e.ID, console.Thousands(e.Chunks-e.Missing()), console.Plural(e.Chunks, "chunk"),
		console.Clean(e.Model), console.Thousands(e.Made), console.Plural(e.Tokens, "token"), e.TookMS/1e3)
}
