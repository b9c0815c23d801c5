package library

import (
	"bytes"
	"context"
	"encoding/json"

	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/store"
)

// A remark is what a Sync reports about a file that it does not read again.
type remark struct {
	Skip  *folder.Skip  `json:"skip,omitempty"`
	Notes []folder.Note `json:"notes,omitempty"`
	Read  bool          `json:"read,omitempty"` // see syncFile.read
}

// readRemarks reads the stored remarks on the files of the base.
func (s *syncing) readRemarks(ctx context.Context) error {
	list, err := s.l.currentStore().Remarks(ctx, s.b.ID())
	s.remarks = make(map[string]store.Remark, len(list))
	for _, r := range list {
		s.remarks[r.Source] = r
	}
	return err
}

// asNoted reports whether a file and its number of documents match the remark on it; without a
// remark, whether it has documents.
func (s *syncing) asNoted(f *syncFile) bool {
	r, noted := s.remarks[f.name]
	if !noted {
		return s.listed[f.name].documents > 0
	}
	return r.Size == f.size && r.Modified.Equal(f.modified) && r.Mark == f.changed && bytes.Equal(r.Reader, f.as.prefix()) &&
		r.Documents == s.listed[f.name].documents && json.Valid([]byte(r.Text))
}

// recall restores a file's state from a remark; the zero Remark changes nothing.
func (f *syncFile) recall(r store.Remark) {
	var said remark
	if r.Source == "" || json.Unmarshal([]byte(r.Text), &said) != nil {
		return
	}
	f.skip, f.notes, f.read = said.Skip, said.Notes, said.Read
}

// noteRemarks stores remarks on the files of a batch before their documents are written. If the
// process is killed in between, the documents do not match the remark, and the file is read again.
func (s *syncing) noteRemarks(ctx context.Context, batch []*syncFile) error {
	var remarks []store.Remark
	var forget []string
	for _, f := range batch {
		_, noted := s.remarks[f.name]
		documents := f.written + len(f.documents) + len(f.same)
		switch {
		case f.unchanged:
		case !f.modified.IsZero() && (f.skip != nil || len(f.notes) > 0 || documents == 0):
			text, err := json.Marshal(remark{Skip: f.skip, Notes: f.notes, Read: f.read})
			if err != nil {
				return err
			}
			remarks = append(remarks, store.Remark{
				Source: f.name, Size: f.size, Modified: f.modified, Mark: f.changed, Reader: f.as.prefix(), Documents: documents, Text: string(text),
			})
		case noted:
			forget = append(forget, f.name)
		}
	}
	return s.setRemarks(ctx, remarks, forget)
}

// forgetRest removes remarks on files that are gone.
func (s *syncing) forgetRest(ctx context.Context) error {
	var forget []string
	for name := range s.remarks {
		if !s.names[name] {
			forget = append(forget, name)
		}
	}
	return s.setRemarks(ctx, nil, forget)
}

func (s *syncing) setRemarks(ctx context.Context, remarks []store.Remark, forget []string) error {
	if len(remarks)+len(forget) == 0 {
		return nil
	}
	return s.l.currentStore().SetRemarks(ctx, s.b.ID(), remarks, forget)
}
