package server

import (
	"context"
	"net/http"

	"sidenote/proxy/admin"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
)

// maxNotes is the most notes on one file.
const maxNotes = 20

// PutFile reads a file and writes its documents to a base.
func (m *manager) PutFile(ctx context.Context, base string, f admin.NewFile) (admin.WrittenFile, error) {
	out := admin.WrittenFile{File: f.Name, Object: "knowledge.file", Knowledge: base, Notes: []admin.FileNote{}}
	if err := checkAttributes(admin.NewDocument{ID: f.Name, Attributes: f.Attributes}); err != nil {
		return out, err
	}
	if _, err := m.changeable(ctx, base, true, f.Name); err != nil {
		return out, err
	}
	r, err := m.state.library.PutFile(ctx, base, library.File{Name: f.Name, Raw: f.Raw, Title: f.Title, Attributes: f.Attributes})
	if err != nil {
		return out, m.refusal(base, err)
	}
	if r.Documents == 0 {
		return out, unread(f.Name, *r.Skip)
	}
	out.Documents, out.Created, out.Changed, out.Removed = r.Documents, r.Created, r.Changed, r.Removed
	if r.Skip != nil {
		out.Notes = append(out.Notes, admin.FileNote{Code: string(r.Skip.Kind), Message: r.Skip.String()})
	}
	for _, n := range r.Notes[:min(len(r.Notes), maxNotes)] {
		out.Notes = append(out.Notes, admin.FileNote{Code: string(folder.SkipAttributes), Message: n.Document + ": " + n.Reason})
	}
	return out, nil
}

// Changeable returns why no documents of a base can be added or deleted, or nil.
func (m *manager) Changeable(ctx context.Context, base string) error {
	_, err := m.changeable(ctx, base, true)
	return err
}

// unread returns the refusal of a file of which nothing could be read.
func unread(name string, s folder.Skip) error {
	status, code, text := http.StatusUnprocessableEntity, "file_broken", s.String()
	switch s.Kind {
	case folder.SkipUnsupported:
		status, code = http.StatusUnsupportedMediaType, "file_unsupported"
		text += "; what is read: " + folder.Supported
	case folder.SkipTooLarge:
		status, code = http.StatusRequestEntityTooLarge, "file_too_large"
	case folder.SkipNotText:
		code = "file_not_text"
	case folder.SkipMemory:
		status, code = http.StatusServiceUnavailable, "file_memory"
	}
	return admin.Refuse(status, code, "%s was not read: %s.", name, text)
}
