package engine

import "sidenote/proxy/admin"

// embeddingsOf says how far the embedding of a base is, in the words of the admin port; nil for
// one that is not embedded.
func embeddingsOf(s *stateFolder, id string) *admin.Embeddings {
	status, ok := s.embedding.Status(id)
	if !ok {
		return nil
	}
	out := &admin.Embeddings{Model: status.Model, Running: status.Running, Refused: status.Refused, Error: status.Problem}
	if c := s.library.Base(id).Content(); c != nil {
		out.Embedded, out.Chunks = c.Embedded()
	}
	return out
}
