package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/services"
)

// An embeddedBase is the result of embedding a base.
type embeddedBase struct {
	ID     string  `json:"id"`
	Model  string  `json:"model"`
	TookMS float64 `json:"took_ms"`
	server.EmbeddingReport
	Error string `json:"error,omitempty"` // why some are missing
}

// newIngestEmbedder returns the embedding client, or nil if no base is embedded.
func newIngestEmbedder(r *ingestion) (*services.Embedder, error) {
	if len(config.Embedded(r.Config)) == 0 && len(config.EmbeddedElsewhere(r.Config)) == 0 {
		return nil, nil
	}
	reader, err := server.NewReader(r.Config.State.Path)
	if err != nil {
		return nil, err
	}
	return server.NewEmbedder(r.Config, reader.Deps().Counter, server.EmbeddingOptions{
		Log:     func(_ slog.Level, line string) { r.say("%s", line) },
		Counted: func(string, string, int) {},
	}), nil
}

// embedAll makes the missing vectors of the bases that were read and of those without a folder. If
// the service fails, it skips the remaining bases.
func embedAll(ctx context.Context, r *ingestion, client *services.Embedder, kept *library.Library) error {
	maker := server.NewVectorMaker(client, kept, int(r.Config.Embeddings.TokensPerDay))
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
				continue // nothing has been put into it
			}
		}
		report, err := maker.Embed(ctx, id, func(p server.EmbeddingProgress) {
			r.where = fmt.Sprintf("after %s of %s of %s had been embedded", terminal.Thousands(p.Done), terminal.Plural(p.Chunks, "chunk"), id)
			r.Show.Show(terminal.Work{Name: id, Done: p.Done, Total: p.Chunks, Unit: "chunks embedded", Note: terminal.Plural(p.Tokens, "token")})
		})
		r.Show.Clear()
		one := embeddedBase{ID: id, Model: client.Space().String(), TookMS: terminal.Milliseconds(report.Took), EmbeddingReport: report}
		if err != nil {
			one.Error = err.Error()
		}
		r.Embedded = append(r.Embedded, one)
		if ctx.Err() != nil {
			return fmt.Errorf("stopped %s; what was made stays in %s, and the next ingest goes on from there", r.where, r.Config.State.Path)
		}
		if err != nil {
			r.unembedded = fmt.Errorf("knowledge %s: %s of %s embedded: %w", id, terminal.Thousands(report.Chunks-report.Missing()), terminal.Plural(report.Chunks, "chunk"), err)
			return nil
		}
		if report.LastRefusal != nil {
			r.unembedded = errors.Join(r.unembedded, fmt.Errorf("knowledge %s: the service refused %s: %w", id, terminal.Plural(report.Refused, "chunk"), report.LastRefusal))
		}
	}
	return maker.Forget(ctx, config.Texts(config.Embedded(r.Config)))
}

// printEmbedded prints the result for a base.
func printEmbedded(w io.Writer, e embeddedBase) {
	fmt.Fprintf(w, "%s: %s of %s embedded by %s; %s now, %s (%.1f s)\n", e.ID, terminal.Thousands(e.Chunks-e.Missing()), terminal.Plural(e.Chunks, "chunk"),
		terminal.Clean(e.Model), terminal.Thousands(e.NewVectors), terminal.Plural(e.Tokens, "token"), e.TookMS/1e3)
}
