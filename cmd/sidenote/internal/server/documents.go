package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/admin"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/remote"
	"sidenote/retrieval/knowledge/store"
	"sidenote/rewrite"
)

// Documents lists the documents that a base currently serves.
func (m *manager) Documents(ctx context.Context, base string) (admin.Contents, error) {
	if err := m.inState(ctx, base); err != nil {
		return admin.Contents{}, err
	}
	c := m.state.library.Base(base).Content()
	if c == nil {
		return admin.Contents{}, nil
	}
	return admin.Contents{
		Len: c.Documents(),
		ID:  func(i int) string { return c.DocumentAt(i).ID },
		Describe: func(ctx context.Context, at []int) ([]admin.Document, error) {
			ids := make([]string, len(at))
			for i, n := range at {
				ids[i] = c.DocumentAt(n).ID
			}
			known, err := m.state.library.Lookup(ctx, base, ids...)
			if err != nil {
				return nil, m.refusal(base, err)
			}
			out := make([]admin.Document, 0, len(at))
			for i, n := range at {
				held, k := c.DocumentAt(n), known[ids[i]]
				out = append(out, admin.Document{
					ID: held.ID, Object: "knowledge.document", Knowledge: base, Name: held.Name, Chunks: held.Chunks, Bytes: int64(held.Bytes),
					Attributes: held.Attributes, File: k.Source, ModifiedAt: admin.Unix(k.Modified),
				})
			}
			return out, nil
		},
	}, nil
}

// inState returns a refusal if a base is not in the state folder.
func (m *manager) inState(ctx context.Context, base string) error {
	k, named := m.named(base)
	if named && k.ID != "" {
		return admin.Refuse(http.StatusNotImplemented, "kept_elsewhere", "Knowledge base %q is the vector store %s on %s; its documents are listed there.", base, k.ID, k.Upstream)
	}
	if named && k.Remote() {
		return admin.Refuse(http.StatusNotImplemented, "kept_elsewhere", "Knowledge base %q is in %s; its documents are not listed here, but searched, and read by POST /v1/read.", base, m.cfg.EnginePlace(config.Name(base)))
	}
	if m.state.library.Standing() == library.NotOpen {
		return m.unavailable()
	}
	if _, err := m.state.library.Stored(ctx, base); err != nil && !(named && errors.Is(err, store.ErrNotFound)) {
		return m.refusal(base, err)
	}
	return nil
}

// Document returns a document with its text.
func (m *manager) Document(ctx context.Context, base, id string) (admin.Document, error) {
	if err := m.inState(ctx, base); err != nil {
		return admin.Document{}, err
	}
	e, err := m.state.library.Document(ctx, base, id)
	if errors.Is(err, store.ErrNotFound) {
		return admin.Document{}, noDocument(base, id)
	}
	if err != nil {
		return admin.Document{}, m.refusal(base, err)
	}
	d := admin.Document{
		ID: e.ID, Object: "knowledge.document", Knowledge: base, Name: e.Name, Type: e.Kind, Chunks: e.ChunkCount, Bytes: e.Bytes,
		Attributes: e.Attributes, File: e.Source, ModifiedAt: admin.Unix(e.Modified),
	}
	for i, c := range e.Chunks {
		d.Content = append(d.Content, admin.Chunk{Chunk: i, Section: c.Section, Text: c.Text})
	}
	return d, nil
}

func noDocument(base, id string) error {
	return admin.Refuse(http.StatusNotFound, "not_found", "Knowledge base %q has no document %q.", base, id)
}

// Put writes documents. A changed document gets a new row in the database, an unchanged one keeps
// its row.
func (m *manager) Put(ctx context.Context, base string, documents []admin.NewDocument) ([]admin.Written, error) {
	ids := make([]string, len(documents))
	put := make([]chunk.Document, len(documents))
	for i, d := range documents {
		ids[i] = d.ID
		put[i] = chunk.Document{ID: d.ID, Name: d.Name, Text: d.Text, Markdown: d.Markdown, Attributes: d.Attributes}
		if err := checkAttributes(d); err != nil {
			return nil, err
		}
	}
	before, err := m.changeable(ctx, base, true, ids...)
	if err != nil {
		return nil, err
	}
	if _, err := m.state.library.Put(ctx, base, put...); err != nil {
		return nil, m.refusal(base, err)
	}
	after, err := m.state.library.Lookup(ctx, base, ids...)
	if err != nil {
		return nil, m.refusal(base, err)
	}
	done := make([]admin.Written, len(ids))
	for i, id := range ids {
		was, there := before[id]
		done[i] = admin.Written{ID: id, Object: "knowledge.document", Knowledge: base, Created: !there, Changed: !there || was.Row != after[id].Row}
	}
	return done, nil
}

// checkAttributes refuses attributes that filters cannot compare, and too many of them.
func checkAttributes(d admin.NewDocument) error {
	for _, key := range slices.Sorted(maps.Keys(d.Attributes)) {
		if _, err := chunk.Attribute(key, d.Attributes[key]); err != nil {
			return &admin.Refusal{Status: http.StatusBadRequest, Code: "bad_attribute", Param: "attributes",
				Message: fmt.Sprintf("Of document %q: %v.", d.ID, err), Err: err}
		}
	}
	if n := len(d.Attributes); n > maxAttributes {
		return &admin.Refusal{Status: http.StatusBadRequest, Code: "bad_attribute", Param: "attributes",
			Message: fmt.Sprintf("Document %q has %d attributes; it may have %d.", d.ID, n, maxAttributes)}
	}
	return nil
}

// maxAttributes is the maximum number of attributes of a document in a Library.
const maxAttributes = 64

// Remove removes a document.
func (m *manager) Remove(ctx context.Context, base, id string) error {
	known, err := m.changeable(ctx, base, false, id)
	if err != nil {
		return err
	}
	if _, ok := known[id]; !ok {
		return noDocument(base, id)
	}
	return m.refusal(base, m.state.library.Delete(ctx, base, id))
}

// changeable returns those of the documents that exist. It refuses documents that were read from a
// file, because the next reading of the folder would undo the change. If put is true, it refuses a
// base that is read from a folder: the base mirrors the folder, which would not contain the new
// document.
func (m *manager) changeable(ctx context.Context, base string, put bool, ids ...string) (map[string]store.Known, error) {
	if err := m.writable(base); err != nil {
		return nil, err
	}
	b, err := m.Base(ctx, base)
	if err != nil {
		return nil, err
	}
	if put && b.Path != "" {
		return nil, admin.Refuse(http.StatusConflict, "from_folder", "Knowledge base %q is read from %s; put the document there, or into a base without a folder.", base, b.Path)
	}
	if b.Generation == "" {
		return nil, admin.Refuse(http.StatusServiceUnavailable, "indexing", "Knowledge base %q is not whole: its folder is still being read, or was not read to the end; try again after that.", base)
	}
	known, err := m.state.library.Lookup(ctx, base, ids...)
	if err != nil {
		return nil, m.refusal(base, err)
	}
	for _, id := range ids {
		if file := known[id].Source; file != "" {
			return nil, admin.Refuse(http.StatusConflict, "from_file", "%q of knowledge base %q comes from the file %s in %s; change it there, for the next reading of the folder would undo this.", id, base, file, b.Path)
		}
	}
	return known, nil
}

// Forget removes documents, if they are still there, with what is left of them in the state folder.
func (m *manager) Forget(ctx context.Context, base string, ids []string) (admin.Forgotten, error) {
	done := admin.Forgotten{Object: "knowledge.documents.forgotten", Knowledge: base, Removed: []string{}, Beyond: m.beyondForgetting()}
	known, err := m.changeable(ctx, base, false, ids...)
	if err != nil {
		return done, err
	}
	if done.Removed = slices.AppendSeq(done.Removed, maps.Keys(known)); len(known) > 0 {
		slices.Sort(done.Removed)
		if err := m.state.library.Delete(ctx, base, done.Removed...); err != nil {
			return done, m.refusal(base, err)
		}
	}
	purged, err := m.state.library.Purge(ctx, base)
	if k, _ := m.named(base); err == nil && k.Fetched() {
		err = remote.DropHistory(filepath.Dir(k.Path))
	}
	if err != nil {
		return done, m.refusal(base, err)
	}
	done.Segments, done.Vectors = purged.Segments, purged.Vectors
	if m.explained != nil {
		done.Bodies = m.explained.DropBodies()
	}
	records, err := m.forgetRecords(base, ids)
	done.Records, done.Beyond = records.Records, append(done.Beyond, records.Unread...)
	return done, m.refusal(base, err)
}

// beyondForgetting lists where texts of documents may be that Forget does not reach.
func (m *manager) beyondForgetting() []string {
	list := []string{"backups and other copies of the state folder", "requests that upstreams and other services received"}
	for _, p := range m.cfg.Policies {
		if p.Sources.Repeat == string(rewrite.RepeatKeep) {
			return append(list, "conversations, which keep their sources for a day (sources.repeat)")
		}
	}
	return list
}
