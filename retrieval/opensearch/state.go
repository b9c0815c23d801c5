package opensearch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"sidenote/retrieval/engine"
)

// A state is the state document of a base. Its numbers of generations grow by at least one with each
// Commit and each Acquire.
type state struct {
	Schema  int   `json:"schema"`
	Current int64 `json:"current"` // the generation that searches see; 0 before the first Commit
	Next    int64 `json:"next"`    // the generation that is written

	Generation   string `json:"generation"` // its digest
	Documents    int    `json:"documents"`
	Chunks       int    `json:"chunks"`
	Bytes        int64  `json:"bytes"`
	Length       uint64 `json:"length"`
	Distinct     uint64 `json:"distinct"`
	Embedded     int    `json:"embedded"`
	Space        string `json:"space"`
	Dimensions   int    `json:"dimensions"`
	Measures     string `json:"measures"`
	MeasureParts int    `json:"measure_parts"`

	History []became    `json:"history"` // the last generations
	Token   int64       `json:"token"`   // of the last lease
	Lease   *leaseState `json:"lease"`   // nil: nobody writes
	Now     int64       `json:"now"`     // when the document was last changed, in ms by the server's clock
}

// became says when a generation became the current one.
type became struct {
	Number int64 `json:"number"`
	At     int64 `json:"at"` // in ms by the server's clock
}

type leaseState struct {
	Owner string `json:"owner"`
	ID    string `json:"id"`    // random
	Since int64  `json:"since"` // in ms by the server's clock
	Until int64  `json:"until"`
}

// public returns the state as others see it.
func (s state) public(base string) engine.State {
	return engine.State{
		Base: base, Generation: s.Generation, Documents: s.Documents, Chunks: s.Chunks, Bytes: s.Bytes,
		Length: s.Length, Distinct: s.Distinct, Embedded: s.Embedded, Space: s.Space, Dimensions: s.Dimensions,
		Measures: s.Measures,
	}
}

// parseState reads a state document.
func parseState(base string, source []byte) (state, error) {
	var st state
	if err := json.Unmarshal(source, &st); err != nil {
		return state{}, fmt.Errorf("%w: state of %s: %w", errAnswer, base, err)
	}
	if err := checkSchema(base, st.Schema); err != nil {
		return state{}, err
	}
	if st.Documents < 0 || st.Chunks < 0 || st.Bytes < 0 || st.Dimensions < 0 || st.Embedded < 0 || st.Current < 0 ||
		st.MeasureParts < 0 || st.MeasureParts > math.MaxInt16 {
		return state{}, fmt.Errorf("%w: state of %s has a negative count", errAnswer, base)
	}
	return st, nil
}

// States returns the states of bases. What is wrong with Sidenote's own is an error unless indexes of
// others were asked for, too.
func (s *Server) States(ctx context.Context, bases []string) ([]engine.State, error) {
	states := make([]engine.State, len(bases))
	var own []string
	for i, base := range bases {
		states[i].Base = base
		if m, mapped := s.mappings[base]; mapped {
			st, err := s.view(ctx, base, m)
			switch {
			case errors.Is(err, engine.ErrDenied) || errors.Is(err, engine.ErrRefused):
				states[i].Trouble = err.Error()
			case err != nil:
				return nil, err
			default:
				states[i] = st
			}
			continue
		}
		own = append(own, base)
	}
	if len(own) == 0 {
		return states, nil
	}
	read, err := s.read(ctx, own)
	apart := len(own) < len(bases) && (errors.Is(err, engine.ErrSchema) || errors.Is(err, engine.ErrDenied))
	if err != nil && !apart {
		return nil, err
	}
	for i, base := range bases {
		if _, mapped := s.mappings[base]; apart && !mapped {
			states[i].Trouble = err.Error()
		} else if st, ok := read[base]; ok {
			states[i] = st.public(base)
		}
	}
	return states, nil
}

// read reads the state documents of bases of Sidenote's own and remembers them. Those that do not exist
// are left out.
func (s *Server) read(ctx context.Context, bases []string) (map[string]state, error) {
	docs := make([]object, len(bases))
	for i, base := range bases {
		docs[i] = object{"_index": s.stateIndex(), "_id": base}
	}
	body, err := s.client.call(ctx, "POST", "/_mget", mustJSON(object{"docs": docs}))
	if err != nil {
		return nil, fmt.Errorf("read states: %w", err)
	}
	var answer struct {
		Docs []struct {
			ID     string          `json:"_id"`
			Found  bool            `json:"found"`
			Source json.RawMessage `json:"_source"`
			Error  json.RawMessage `json:"error"`
		} `json:"docs"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.Docs) != len(bases) {
		return nil, fmt.Errorf("read states: %w", errAnswer)
	}
	states := map[string]state{}
	for i, doc := range answer.Docs {
		if kind, reason := causeOf(doc.Error); kind != "" && kind != "index_not_found_exception" {
			return nil, fmt.Errorf("read states: %s: %s", kind, reason)
		}
		if !doc.Found || doc.ID != bases[i] {
			continue
		}
		if states[bases[i]], err = parseState(bases[i], doc.Source); err != nil {
			return nil, err
		}
	}
	s.remember(bases, states)
	return states, nil
}

// remember keeps the states for the next search.
func (s *Server) remember(bases []string, states map[string]state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, base := range bases {
		if st, ok := states[base]; ok {
			s.states[base] = st
		} else {
			delete(s.states, base)
		}
	}
}

// known returns the states of bases as last seen, and reads those that were never seen. It returns
// engine.ErrNoBase for a base that does not exist.
func (s *Server) known(ctx context.Context, bases []string) ([]state, error) {
	states := make([]state, len(bases))
	var unknown []string
	s.mu.Lock()
	for i, base := range bases {
		st, ok := s.states[base]
		if !ok {
			unknown = append(unknown, base)
		}
		states[i] = st
	}
	s.mu.Unlock()
	if unknown == nil {
		return states, nil
	}
	read, err := s.read(ctx, unknown)
	if err != nil {
		return nil, err
	}
	for i, base := range bases {
		if states[i].Schema != 0 {
			continue
		}
		st, ok := read[base]
		if !ok {
			return nil, fmt.Errorf("base %s: %w", base, engine.ErrNoBase)
		}
		states[i] = st
	}
	return states, nil
}
