package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
)

// rankVersion stands for everything in this package that affects results. It is part of the
// generation.
const rankVersion = "engine 1"

// loadSpread is the time over which the sidecars of a fleet spread the reads of new measures, which
// are some MB in a large base; until then they use the old ones.
const loadSpread = 20 * time.Second

// A knownState is what an Engine knows of its bases. It is immutable.
type knownState struct {
	bases map[string]baseState
}

// A baseState is the state of a base, with what was measured.
type baseState struct {
	State
	measured *measured // may be of an earlier State.Measures; nil if none was read
}

func (s *knownState) of(id string) baseState {
	b := s.bases[id]
	b.Base = id
	return b
}

// ref returns the id and the generation of a base. The generation includes all that affects results:
// the content, what was measured of it, and the version of this code.
func (s *knownState) ref(id, version string) retrieval.Ref { return s.of(id).ref(version) }

func (b baseState) ref(version string) retrieval.Ref {
	if b.Generation == "" {
		return retrieval.Ref{Knowledge: b.Base}
	}
	measures := ""
	if b.measured != nil {
		measures = b.measured.version
	}
	sum := sha256.Sum256(chunk.Fields(rankVersion, version, b.Generation, measures))
	return retrieval.Ref{Knowledge: b.Base, Generation: hex.EncodeToString(sum[:])}
}

func (e *Engine) state() *knownState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.known
}

// adopt replaces what is known of some bases by an answer to a call that began when before was known. A
// base of which something else is known meanwhile is left as it is: that answer may be the newer one.
func (e *Engine) adopt(states []State, before *knownState) {
	for _, b := range e.replace(states, before) {
		e.loadSoon(b.Base, b.Measures+b.Generation, b.measured == nil)
	}
}

// replace replaces states that have changed, and returns those whose measures are stale.
func (e *Engine) replace(states []State, before *knownState) (stale []baseState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var bases map[string]baseState
	for _, s := range states {
		b := e.known.of(s.Base)
		if b.State != before.of(s.Base).State {
			continue
		}
		if b.State != s {
			if bases == nil {
				bases = make(map[string]baseState, len(e.options.Bases))
				maps.Copy(bases, e.known.bases)
			}
			b.State = s
			bases[s.Base] = b
		}
		if e.isStale(b) {
			stale = append(stale, b)
		}
	}
	if bases != nil {
		e.known = &knownState{bases}
	}
	return stale
}

// isStale reports whether there are newer measures than those that are known.
func (e *Engine) isStale(b baseState) bool {
	if e.sampled(b.Base) {
		return b.Generation != "" && (b.measured == nil || b.measured.generation != b.Generation && time.Since(b.measured.at) > sampleEvery)
	}
	return b.Measures != "" && (b.measured == nil || b.measured.version != b.Measures)
}

// watch reads the states periodically until the Engine is closed.
func (e *Engine) watch() {
	defer close(e.ended)
	defer e.asked()
	_ = e.look(e.life) // Trouble reports the error
	if !e.wait(rand.N(lookEvery)) {
		return
	}
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for {
		_ = e.look(e.life)
		select {
		case <-again.C:
		case <-e.life.Done():
			return
		}
	}
}

// wait reports whether the Engine was not closed for a time.
func (e *Engine) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-e.life.Done():
		return false
	}
}

// look reads the states of all bases.
func (e *Engine) look(ctx context.Context) error {
	defer e.asked()
	ctx, cancel := context.WithTimeout(ctx, e.options.Timeout)
	defer cancel()
	before := e.state()
	states, err := e.options.Server.States(ctx, e.options.Bases)
	if err == nil && len(states) != len(e.options.Bases) {
		err = fmt.Errorf("the engine reports %d of %d bases", len(states), len(e.options.Bases))
	}
	e.health.Looked(err)
	if err != nil {
		return fmt.Errorf("read states: %w", err)
	}
	e.adopt(states, before)
	for _, s := range states {
		e.tell(before.of(s.Base).Trouble, s.Trouble)
		if e.options.Looked != nil && s.Trouble == "" {
			e.options.Looked(s)
		}
	}
	return nil
}

// tell reports a change of the trouble of a base.
func (e *Engine) tell(before, now string) {
	switch {
	case e.options.Changed == nil || now == before:
	case now != "":
		e.options.Changed(e.about(now), true)
	default:
		e.options.Changed(e.about(before), false)
	}
}

// loadSoon reads the measures of a base in the background: at once if there are none yet.
func (e *Engine) loadSoon(id, version string, first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.loading[id] == version || e.life.Err() != nil {
		return
	}
	e.loading[id] = version
	wait := time.Duration(0)
	if !first {
		wait = rand.N(loadSpread)
	}
	e.loads.Go(func() {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-e.life.Done():
		}
		if err := e.load(e.life, id); err != nil { // Trouble reports it; the next look tries again
			e.mu.Lock()
			defer e.mu.Unlock()
			delete(e.loading, id)
		}
	})
}

// load reads the measures of a base, unless those that are known are current.
func (e *Engine) load(ctx context.Context, id string) error {
	b := e.state().of(id)
	if !e.isStale(b) {
		return nil
	}
	if e.sampled(id) {
		return e.sample(ctx, id)
	}
	ctx, cancel := context.WithTimeout(ctx, e.options.Timeout)
	defer cancel()
	stored, err := e.options.Server.Measures(ctx, id)
	var m *measured
	if err == nil {
		m, err = decodeMeasured(b.Measures, stored, &b.State)
	}
	e.health.Looked(err)
	if err != nil {
		return fmt.Errorf("read measures of %s: %w", id, err)
	}
	e.setMeasured(id, m)
	return nil
}

func (e *Engine) setMeasured(id string, m *measured) {
	e.mu.Lock()
	defer e.mu.Unlock()
	bases := make(map[string]baseState, len(e.options.Bases))
	maps.Copy(bases, e.known.bases)
	b := e.known.of(id)
	b.measured = m
	bases[id] = b
	e.known = &knownState{bases}
}

// remote returns what Rank needs to know of a base.
func (b baseState) remote() knowledge.RemoteBase {
	r := knowledge.RemoteBase{ID: b.Base}
	if b.measured != nil {
		r.Measures = b.measured.Measures
	}
	return r
}
