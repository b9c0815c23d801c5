package postgres

import (
	"context"
	"errors"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/filter"
)

type mapped struct {
	engine.Mapping
}

var errTODO = errors.New("todo")

func newMapped(base string, m engine.Mapping) (*mapped, error) { return &mapped{m}, nil }
func (m *mapped) filterable(*filter.Filter) error              { return nil }
func (s *Server) tableState(context.Context, string) (engine.State, error) {
	return engine.State{}, errTODO
}
func (s *Server) searchTable(context.Context, *engine.Search) (*engine.Found, error) {
	return nil, errTODO
}
func (s *Server) tablePassage(context.Context, string, string, int, int, *filter.Filter, string) ([]engine.Chunk, error) {
	return nil, errTODO
}
func (s *Server) tableSample(context.Context, string, int) ([]engine.Chunk, error) {
	return nil, errTODO
}
