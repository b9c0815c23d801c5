package opensearch

import (
	"context"
	"errors"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/filter"
)

type mapState struct{}

func checkMapping(engine.Mapping) error                     { return nil }
func mappedFilterable(engine.Mapping, *filter.Filter) error { return nil }
func (s *Server) view(context.Context, string, engine.Mapping) (engine.State, error) {
	return engine.State{}, errors.ErrUnsupported
}
func (s *Server) searchMapped(context.Context, string, engine.Mapping, *engine.Search) (*engine.Found, error) {
	return nil, errors.ErrUnsupported
}
func (s *Server) passageMapped(context.Context, string, engine.Mapping, string, int, int, *filter.Filter) ([]engine.Chunk, error) {
	return nil, errors.ErrUnsupported
}
func (s *Server) sampleMapped(context.Context, string, engine.Mapping, int) ([]engine.Chunk, error) {
	return nil, errors.ErrUnsupported
}
