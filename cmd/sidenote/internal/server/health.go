package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/admin"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// telemetry returns what the telemetry port and the admin port show of this process.
func (e *Engine) telemetry() admin.Telemetry {
	return admin.Telemetry{Metrics: e.Metrics, Ready: e.unready, Trouble: e.problems}
}

// unready returns why the process should get no requests, a line each.
func (e *Engine) unready() []string {
	if e.stopping.Load() {
		return []string{"shutting down"}
	}
	return append(e.issuers.Load().Pending(), e.unopened()...)
}

// unopened returns why bases were never opened, a line each, if the configuration says ready:
// knowledge. Once all were opened it returns nil for good.
func (e *Engine) unopened() []string {
	if e.opened.Load() {
		return nil
	}
	lines := e.Bases.unopened()
	if len(lines) == 0 {
		e.opened.Store(true)
	}
	if e.Running().Ready != config.ReadyKnowledge {
		return nil
	}
	return lines
}

// Stopping makes /readyz say that this process is being stopped.
func (e *Engine) Stopping() { e.stopping.Store(true) }

// problems lists the current problems, a line each.
func (e *Engine) problems() []string {
	lines := append(e.Bases.state.problems(), e.redisProblems()...)
	lines = append(lines, e.budgets.problems()...)
	if e.Reloader != nil && e.Reloader.Problem() != "" {
		lines = append(lines, e.Reloader.Problem())
	}
	if why := e.audit.Problem(); why != "" {
		lines = append(lines, why)
	}
	lines = append(lines, e.records.Problems()...)
	lines = append(lines, e.switched()...)
	lines = append(lines, e.issuers.Load().Problems()...)
	if e.data != nil {
		for _, u := range e.data.UpstreamStates() {
			lines = append(lines, u.Problems()...)
		}
	}
	lines = append(lines, e.embedding.Problems()...)
	lines = append(lines, e.planners.Trouble()...)
	return append(lines, e.Bases.problems()...)
}

// redisProblems lists the problems of the caches' Redis and the budgets' Redis, which may be the
// same.
func (e *Engine) redisProblems() []string {
	lines := e.caches.Problems()
	if e.budgets == nil || e.budgets.db == nil {
		return lines
	}
	for _, line := range e.budgets.db.Trouble() {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

func (s *stateFolder) problems() []string {
	if s.library == nil {
		return nil
	}
	if err := s.library.BaseError(""); err != nil {
		return []string{"state: " + err.Error()}
	}
	line := s.problem()
	if line == "" && s.library.Standing() == library.Writing {
		if _, err := store.AdminToken(s.cfg.Load().State.Path); err != nil && s.cfg.Load().State.Path != config.StateMemory {
			return []string{"state: there is no admin token: " + err.Error()}
		}
	}
	if line == "" || s.obstacle.locked() && s.library.Standing() == library.Following {
		return nil
	}
	return []string{line}
}

// problems lists the problems of the configured bases and of others in the state folder.
func (b *Bases) problems() (lines []string) {
	configured := config.Texts(b.cfg.Load().KnowledgeNames())
	for _, id := range configured {
		for _, line := range b.problemsOf(id) {
			if !slices.Contains(lines, line) { // bases in one engine have the same
				lines = append(lines, line)
			}
		}
	}
	if b.state.library == nil {
		return lines
	}
	for _, id := range b.state.library.BasesWithErrors() {
		if !slices.Contains(configured, id) {
			lines = append(lines, ofBase(id, b.state.library.BaseError(id).Error()))
		}
	}
	return lines
}

// unopened returns why configured bases were never opened, at least a line for each; nil if all
// were opened.
func (b *Bases) unopened() (lines []string) {
	for _, name := range b.cfg.Load().KnowledgeNames() {
		id := string(name)
		if b.wasOpen(id) {
			continue
		}
		if b.unready(id) == retrieval.ReasonState {
			for _, line := range b.state.problems() {
				if !slices.Contains(lines, line) {
					lines = append(lines, line)
				}
			}
		}
		why := b.problemsOf(id)
		if len(why) == 0 {
			why = []string{ofBase(id, "was not opened yet")}
		}
		lines = append(lines, why...)
	}
	return lines
}

// wasOpen reports whether a configured base is open now or was at an earlier call.
func (b *Bases) wasOpen(id string) bool {
	if _, ok := b.once.Load(id); ok {
		return true
	}
	open := false
	if base := b.made.Load().embedded[id]; base != nil {
		open = base.Content() != nil || b.made.Load().indexers[id].fetchFailed()
	} else if store := b.stores[id]; store != nil {
		open = store.Answered()
	}
	if open {
		b.once.Store(id, true)
	}
	return open
}

// unready returns why a base has no index: ReasonState if the state folder cannot be used, ReasonError
// if its engine refuses it, else ReasonIndexing.
func (b *Bases) unready(id string) retrieval.Reason {
	if e := b.InEngine(id); e != nil && e.State().Trouble != "" {
		return retrieval.ReasonError
	}
	if b.state.library == nil || b.made.Load().embedded[id] == nil {
		return retrieval.ReasonIndexing
	}
	why := errors.Join(b.state.obstacle.why(), b.state.library.BaseError(""), b.state.library.BaseError(id))
	if x := b.made.Load().indexers[id]; x != nil && why == nil {
		if err := x.status().err; store.Unusable(err) {
			why = err
		}
	}
	waiting := b.cfg.Load().State.Follow && errors.Is(why, fs.ErrNotExist)
	if why == nil || waiting || b.state.obstacle.locked() {
		return retrieval.ReasonIndexing
	}
	return retrieval.ReasonState
}

// problemsOf returns why a configured base does not answer, or not as it should.
func (b *Bases) problemsOf(id string) []string {
	base := b.made.Load().embedded[id]
	if base == nil {
		return b.storeProblems(id)
	}
	var lines []string
	if x := b.made.Load().indexers[id]; x != nil && b.state.library.Standing() == library.Writing {
		if lines = x.fetchProblems(); len(lines) == 0 && x.status().problem() != "" {
			return []string{ofBase(id, x.status().problem())}
		}
	}
	if b.state.library != nil && b.state.library.BaseError(id) != nil {
		return []string{ofBase(id, b.state.library.BaseError(id).Error())}
	}
	if base.Content() == nil {
		return append(lines, "knowledge "+id+": "+b.waitsFor(id)+soFar(b, id))
	}
	return slices.Concat(lines, b.InPart([]string{id}), lostVectors(b, id, base.Content()))
}

// fetchProblems returns what went wrong in the last fetch of a base, and in reading what was fetched.
func (x *indexer) fetchProblems() (lines []string) {
	if x.fetcher == nil {
		return nil
	}
	if why := x.fetcher.state().problem(x.folder.ID); why != "" {
		lines = append(lines, why)
		if err := x.status().err; err != nil && !errors.Is(x.fetcher.state().err, err) && x.status().problem() != "" {
			lines = append(lines, ofBase(x.folder.ID, x.status().problem()))
		}
	}
	return lines
}

// fetchFailed reports whether the first fetch of a base was tried in vain. A process does not wait for a source
// that cannot be reached to get requests.
func (x *indexer) fetchFailed() bool {
	return x != nil && x.fetcher != nil && x.fetcher.state().failed > 0
}

// lostVectors reports the chunks of a base whose vectors this process cannot read.
func lostVectors(b *Bases, id string, content *knowledge.Content) []string {
	if content == nil || b.state.library == nil || library.LostVectors(b.state.library, id) == 0 {
		return nil
	}
	embedded, of := content.Embedded()
	return []string{fmt.Sprintf("knowledge %s: files of vectors are missing or damaged in the state folder: %s of %s are found by words alone",
		id, terminal.Thousands(of-embedded), terminal.Plural(of, "chunk"))}
}

// soFar describes how much of a base's folder has been read; "" if it is not being read.
func soFar(b *Bases, id string) string {
	x := b.made.Load().indexers[id]
	if x == nil {
		return ""
	}
	i := x.status()
	if !i.running || i.progress.Files == 0 {
		return ""
	}
	return fmt.Sprintf(", %s of %s read", terminal.Thousands(i.progress.Done), terminal.Plural(i.progress.Files, "file"))
}

// waitsFor says what a base without content is waiting for.
func (b *Bases) waitsFor(id string) string {
	if b.state.library == nil || b.state.library.Standing() == library.Writing {
		return "indexing"
	}
	if b.state.library.Standing() == library.NotOpen {
		return "waits for the state folder"
	}
	if b.isStored(id) {
		return "is being opened"
	}
	if b.made.Load().indexers[id] != nil {
		return "is not in the state folder as it is configured here, and is read when this process writes it"
	}
	return "is not in the state folder yet"
}

// isStored reports whether the state folder has a base as it is configured here.
func (b *Bases) isStored(id string) bool {
	stored, err := b.state.library.Stored(context.Background(), id)
	if err != nil {
		return false
	}
	_, settled, _ := store.ReadOrigin(stored.Origin)
	return settled && b.state.asConfigured(stored)
}

// InPart reports which of the bases have folders that were only read in part.
func (b *Bases) InPart(ids []string) (lines []string) {
	for _, id := range ids {
		if base := b.made.Load().embedded[id]; base != nil && base.Content() != nil && base.Content().Partial() {
			lines = append(lines, "knowledge "+id+": "+inPart)
		}
	}
	return lines
}

// inPart describes a base whose folder was only read in part.
const inPart = "its folder was not read to its end"

// ofBase prefixes a line with the name of its base, unless it has that prefix.
func ofBase(id, line string) string {
	name := "knowledge " + id + ": "
	return name + strings.TrimPrefix(line, name)
}
