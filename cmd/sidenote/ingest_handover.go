package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/client"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/remote"
	"sidenote/retrieval/knowledge/store"
)

// handOver asks the process that writes the state folder to read those pending folders that it
// also has, and returns why it does not read the others.
func (r *ingestion) handOver(ctx context.Context, to *store.LockedError) (whyNot string, err error) {
	cl, err := client.AdminOfWriter(ctx, to, r.Config.AdminToken(time.Now()).Reveal(), r.Shown)
	if err != nil {
		return err.Error(), nil
	}
	for _, folder := range slices.Clone(r.pending) {
		why, err := r.handOverOne(ctx, cl, to.Address, folder)
		if err != nil {
			return "", err
		}
		whyNot = cmp.Or(whyNot, why)
	}
	return whyNot, nil
}

// pollEvery is the interval at which the progress of the other process is polled.
const pollEvery = 150 * time.Millisecond

// handOverOne hands one base over, or returns why not. A process that does not answer may be
// shutting down, so that is a reason to wait and not an error.
func (r *ingestion) handOverOne(ctx context.Context, cl *client.Admin, address string, folder folder.Folder) (whyNot string, err error) {
	b, err := cl.Base(ctx, folder.ID)
	if err != nil {
		return err.Error(), nil
	}
	if why := baseDifference(b, folder); why != "" {
		return why, nil
	}
	var begun admin.Accepted
	if err := cl.Do(ctx, http.MethodPost, client.KnowledgePath(folder.ID, "ingest"), admin.AskedIngest{AcceptDeletions: folder.AcceptDeletions}, &begun); err != nil {
		return err.Error(), nil
	}
	r.say("%s: handed over to the process at %s", folder.ID, address)
	r.reader = address
	defer func() {
		if ctx.Err() == nil {
			r.reader = ""
		}
	}()
	for {
		b, err := cl.Base(ctx, folder.ID)
		switch i := b.Ingest; {
		case err != nil:
			return err.Error(), nil
		case i == nil:
			return "it no longer keeps " + folder.ID + " with a folder", nil
		case i.Runs < begun.Run && b.Source != nil && b.Source.Running:
			r.fetching(folder.ID, remote.Progress{Done: b.Source.Done, Files: b.Source.Files, Bytes: b.Source.Bytes})
		case i.Runs < begun.Run:
			r.progress(folder.ID, i.Done, i.Files, i.Chunks)
		case i.Error != "":
			r.fail(folder, fmt.Errorf("the process at %s: %s", address, i.Error))
			return "", nil
		case b.Source != nil && b.Source.Error != "": // the mirror was read again meanwhile
			r.fail(folder, fmt.Errorf("the process at %s: %s", address, b.Source.Error))
			return "", nil
		case i.Report != nil:
			r.finish(ingestedBase{ID: folder.ID, Path: folder.Place(), HandedOver: address, TookMS: i.TookMS, IngestReport: *i.Report})
			if e := b.Embeddings; e != nil {
				r.say("%s: %s of %s embedded so far; the process at %s goes on", folder.ID, terminal.Thousands(e.Embedded), terminal.Plural(i.Report.Chunks, "chunk"), address)
			}
			return "", nil
		}
		if err := server.Pause(ctx, pollEvery); err != nil {
			return "", err
		}
	}
}

// differs returns how the other process reads a base differently from here, or "".
func baseDifference(b explain.Base, folder folder.Folder) string {
	switch path, rules := server.SplitOrigin(folder.Origin()); {
	case b.Ingest == nil:
		return "it keeps " + folder.ID + " with no folder"
	case b.Path != path:
		return fmt.Sprintf("it keeps %s with %s", folder.ID, b.Path)
	case b.Rules != rules:
		return fmt.Sprintf("it reads %s by other rules (include, exclude, attributes)", folder.ID)
	}
	return ""
}
