package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/services"
)

// writeEngines writes the folders of bases that are in engines elsewhere, one after the other.
func (r *ingestion) writeEngines(ctx context.Context, client *services.Embedder) error {
	if len(r.engines) == 0 {
		return nil
	}
	reader, err := server.NewReader(r.Config.State.Path)
	if err != nil {
		return err
	}
	for _, f := range r.engines {
		r.where = "before " + f.ID + " was written"
		if err := r.writeEngine(ctx, f, client, reader); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("stopped %s; what was written stays, and the next ingest goes on from there", r.where)
			}
			r.fail(f, err)
		}
	}
	return nil
}

// writeEngine writes the folder of one base.
func (r *ingestion) writeEngine(ctx context.Context, f folder.Folder, client *services.Embedder, reader *server.Reader) (err error) {
	name := config.Name(f.ID)
	at, err := server.OpenEngine(r.Config, name)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, at.Close()) }()
	o, err := server.WriterOptions(name, at, reader)
	if err != nil {
		return err
	}
	o.Passages, o.Spend = server.NewPassages(r.Config, name, client)
	w := engine.NewWriter(o)
	start := time.Now()
	report, err := r.sync(ctx, f, w.Sync)
	closed := w.Close(context.WithoutCancel(ctx))
	for _, line := range server.EngineTrouble(at) {
		r.say("warning: knowledge %s: %s", f.ID, line)
	}
	if err = cmp.Or(err, closed); err != nil {
		return server.WithRemedy(err)
	}
	took := terminal.Milliseconds(time.Since(start))
	r.finish(ingestedBase{ID: f.ID, Path: f.Place(), TookMS: took, IngestReport: *server.WireReport(report)})
	if o.Passages == nil {
		return nil
	}
	made := w.Embedding
	one := embeddedBase{ID: f.ID, Model: client.Space().String(), TookMS: took, EmbeddingReport: server.EmbeddingReport{
		Chunks: made.Chunks, AlreadyEmbedded: made.Had, NewVectors: made.Made, Refused: made.Refused, Tokens: made.Tokens,
	}}
	if made.Err != nil {
		one.Error = made.Err.Error()
		r.unembedded = errors.Join(r.unembedded, fmt.Errorf("knowledge %s: %w", f.ID, made.Err))
	}
	r.Embedded = append(r.Embedded, one)
	return nil
}
