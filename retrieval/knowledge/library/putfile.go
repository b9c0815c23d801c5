package library

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/store"
)

// A File is a file to write to a base with PutFile.
type File struct {
	Name string // slash-separated path, as fs.ValidPath accepts; the extension tells the format
	Raw  []byte // at most folder.MaxFile
	// Title is the name of the document; "" takes it from the file. It does not apply to a file
	// that holds many documents.
	Title      string
	Attributes map[string]any // of all its documents; they take precedence over those in records
}

// A FileReport is the outcome of PutFile.
type FileReport struct {
	Documents int          // in the file
	Created   int          // that did not exist before
	Changed   int          // new or different
	Removed   int          // of an earlier file of the same name
	Skip      *folder.Skip // why it was not read, or what of it; may be nil
	Notes     []folder.Note
}

// PutFile reads a file as Sync reads one of a folder, but always in a child process if there is a
// ChildReader, and writes its documents to a base: one with the name of the file as its id, or many
// that are called NAME#KEY. Documents with such ids that are not in the file are removed. The base
// answers from them when PutFile returns.
//
// If nothing could be read, Skip says why and nothing is changed; with documents, it says what was
// not read of the file. The error is store.ErrNotFound if there is no such base. If writing fails
// or is interrupted, some documents may have been replaced; PutFile with the same file completes it.
func (l *Library) PutFile(ctx context.Context, id string, f File) (r FileReport, err error) {
	rules, err := folder.NewRules(folder.Folder{Attributes: f.Attributes})
	if err != nil {
		return r, fmt.Errorf("write to knowledge %s: %w", id, err)
	}
	err = l.change(ctx, id, func(b *base) error {
		if err := b.putFile(ctx, f, rules, &r); err != nil || r.Documents == 0 {
			return err
		}
		return b.settle(ctx)
	})
	return r, err
}

// putFile reads a file and writes its documents, in memory that it waits for.
func (b *base) putFile(ctx context.Context, f File, rules folder.Rules, r *FileReport) error {
	if _, err := b.state.currentStore().Base(ctx, b.ID()); err != nil {
		return err
	}
	memory := b.state.reader.deps.Memory
	grant, err := memory.Take(ctx, fileMemory(memory, leastMemory+leastText), fileMemory(memory, mostMemory))
	if errors.Is(err, folder.ErrNotEnoughMemory) {
		r.Skip = folder.NoMemory(f.Name, err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	defer grant.Release()
	documents, err := b.readFile(ctx, f, grant, r)
	if err != nil || len(documents) == 0 {
		return err
	}
	for i, d := range documents {
		if d.Key == "" && f.Title != "" {
			d.Name = f.Title
		}
		d, notes := rules.Apply(f.Name, d, "")
		documents[i], r.Notes = d, append(r.Notes, notes...)
	}
	if documents, err = checkDocuments(documents); err != nil {
		return fmt.Errorf("write to knowledge %s: %w", b.ID(), err)
	}
	r.Documents = len(documents)
	return b.replaceFile(ctx, f.Name, documents, r)
}

// fileMemory returns the memory for a file, where reading and cutting it may take some.
func fileMemory(limit *folder.MemoryLimit, reading int64) int64 {
	if !limit.Limited() {
		return rawMemory + reading
	}
	return rawMemory + reading + limit.Segment()
}

// readFile returns the documents of a file, as far as the granted memory suffices.
func (b *base) readFile(ctx context.Context, f File, grant *folder.Grant, r *FileReport) ([]chunk.Document, error) {
	deps := b.state.reader.deps
	by := inChild(deps.ChildReader, grant)
	switch {
	case deps.ChildReader != nil:
	case deps.Memory.Limited():
		by = func(context.Context, extract.Format, string, []byte) ([]extract.Document, error) {
			return nil, &folder.Failure{Kind: folder.SkipMemory, Reason: "no process can be started to read it in"}
		}
	default:
		by = func(ctx context.Context, format extract.Format, name string, raw []byte) ([]extract.Document, error) {
			return folder.Extract(ctx, format, name, raw, deps.PDF)
		}
	}
	documents, skip := folder.ReadBytes(ctx, f.Name, f.Raw, deps.PDF, by)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.Skip = skip
	if most := grant.Bytes - (fileMemory(deps.Memory, 0) - rawMemory); memoryInParts(documents) > most {
		r.Skip = folder.NoMemory(f.Name, fmt.Sprintf("its text takes more than the %d MB of memory that are free", most>>20))
		return nil, nil
	}
	if len(documents) == 0 && skip == nil {
		r.Skip = &folder.Skip{Path: f.Name, Kind: folder.SkipBroken, Reason: "it holds no text"}
	}
	return documents, nil
}

// replaceFile writes the documents of a file in parts, and then removes those of an earlier file of
// this name that are not among them.
func (b *base) replaceFile(ctx context.Context, name string, documents []chunk.Document, r *FileReport) error {
	before, err := b.state.currentStore().IDsOfFile(ctx, b.ID(), name)
	if err != nil {
		return err
	}
	ids := make(map[string]bool, len(documents))
	for _, d := range documents {
		ids[d.ID] = true
	}
	b.behind = true
	writer := index.Writer{Emit: b.putSegment(ctx), Memory: b.state.segmentMemory()}
	for part := range partsOf(documents) {
		if err := b.putPart(ctx, part, &writer, r); err != nil {
			return err
		}
	}
	if err := writer.Flush(); err != nil {
		return err
	}
	gone := slices.DeleteFunc(before, func(id string) bool { return ids[id] })
	if r.Removed = len(gone); len(gone) == 0 {
		return nil
	}
	return b.remove(ctx, gone...)
}

// putPart writes those documents of a part of a file that are new or different.
func (b *base) putPart(ctx context.Context, part []chunk.Document, writer *index.Writer, r *FileReport) error {
	ids := make([]string, len(part))
	for i, d := range part {
		ids[i] = d.ID
	}
	known, err := b.state.currentStore().Lookup(ctx, b.ID(), ids...)
	if err != nil {
		return err
	}
	var fresh []chunk.Document
	for _, d := range part {
		if b.state.reader.isPut(known[d.ID], d) {
			continue
		}
		fresh = append(fresh, d)
		if r.Changed++; known[d.ID].ID == "" {
			r.Created++
		}
	}
	var cut []store.Document
	if cut, err = b.state.reader.cutAll(ctx, b.ID(), fresh); err != nil {
		return fmt.Errorf("write to knowledge %s: %w", b.ID(), err)
	}
	return b.putBatches(ctx, cut, writer)
}
