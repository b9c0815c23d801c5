package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sidenote/retrieval/engine"
)

// version is the version of the schema. A new one only adds to it, so that Sidenotes of the old
// version read on while and after it is migrated; if that cannot be, version.readable_by rises.
const version = 1

//go:embed schema.sql
var schemaSQL string

// migrations are the statements to each version, from version 1.
func (s *Server) migrations() string {
	return strings.NewReplacer("SCHEMA_TEXT", quoteText(s.options.Namespace), "SCHEMA", s.schema).Replace(schemaSQL)
}

// Setup returns the SQL that creates the schema, or migrates it, and adds a base. It can be run
// again. For a table of others it says that nothing is needed.
func (s *Server) Setup(base string) (string, error) {
	if m := s.tables[base]; m != nil {
		return "-- " + m.Table + " is a table that others write: Sidenote changes nothing.\n", nil
	}
	return s.migrations() + "\nselect " + s.schema + ".create_base(" + quoteText(base) + ");\n", nil
}

// Init runs what Setup returns. It changes nothing if the schema is up to date.
func (s *Server) Init(ctx context.Context, base string) error {
	if s.tables[base] != nil {
		return nil
	}
	found, err := s.schemaVersion(ctx)
	if err != nil {
		return err
	}
	if found > version {
		return schemaError(found)
	}
	c, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer c.release(ctx)
	if found < version {
		// Two Sidenotes that start at the same time would otherwise create the same table.
		sql := "begin; select pg_advisory_xact_lock(hashtext('sidenote schema'));" + s.migrations() + "; commit"
		if _, err := c.conn.Conn().PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			return s.failure(ctx, err)
		}
	}
	create := statement{"select " + s.schema + ".create_base($1)", []any{base}}
	err = c.run(ctx, []statement{create}, func(_ int, r *row) { s.learn(base, r.count()) })
	return s.failure(ctx, err)
}

// learn keeps the number of a base.
func (s *Server) learn(base string, id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id > 0 {
		s.ids[base] = id
	}
}

// schemaVersion returns the version of the schema in the database, 0 if there is none.
func (s *Server) schemaVersion(ctx context.Context) (int, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	found := 0
	err := s.read(ctx, "", []statement{{sql: "select version from " + s.schema + ".version"}}, func() { found = 0 },
		func(_ int, r *row) { found = r.count() })
	if isMissing(err) {
		return 0, nil
	}
	return found, err
}

func schemaError(found int) error {
	return fmt.Errorf("postgres: the schema has version %d, this Sidenote knows %d: %w", found, version, engine.ErrSchema)
}

// States returns the states of bases. What is wrong with Sidenote's schema is an error unless tables of
// others were asked for, too.
func (s *Server) States(ctx context.Context, bases []string) ([]engine.State, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	states := make([]engine.State, len(bases))
	var own []string
	var places []int
	for i, base := range bases {
		states[i].Base = base
		if s.tables[base] == nil {
			own, places = append(own, base), append(places, i)
			continue
		}
		state, err := s.tableState(ctx, base)
		switch {
		case isOfTable(err):
			states[i].Trouble = err.Error()
		case err != nil:
			return nil, err
		default:
			states[i] = state
		}
	}
	if len(own) == 0 {
		return states, nil
	}
	found, err := s.ownStates(ctx, own)
	if len(own) < len(bases) && (errors.Is(err, engine.ErrSchema) || isDenied(err)) {
		for _, place := range places {
			states[place].Trouble = err.Error()
		}
		return states, nil
	}
	if err != nil {
		return nil, err
	}
	for i, place := range places {
		states[place] = found[i]
	}
	return states, nil
}

// stateColumns are the columns of a state, as readState reads them, of the table bases b.
const stateColumns = "b.digest, b.documents, b.chunks, b.bytes, b.length, b.distinct_terms, b.embedded, b.space, b.dimensions, b.measures_version"

// readState reads stateColumns.
func (s *Server) readState(base string, r *row) engine.State {
	state := engine.State{
		Base: base, Generation: r.text(), Documents: r.count(), Chunks: r.count(), Bytes: int64(r.count()),
		Length: uint64(r.count()), Distinct: uint64(r.count()), Embedded: r.count(), //nolint:gosec // not negative
		Space: r.text(), Dimensions: r.count(), Measures: r.text(),
	}
	if s.pgvector().schema == "" {
		if state.Space != "" {
			s.noteVectors()
		}
		state.Embedded, state.Space, state.Dimensions = 0, "", 0
	}
	return state
}

// ownStates returns the states of bases in Sidenote's schema. It also learns their numbers and the
// version of pgvector.
func (s *Server) ownStates(ctx context.Context, bases []string) ([]engine.State, error) {
	index := map[string][]int{}
	for i, base := range bases {
		index[base] = append(index[base], i)
	}
	var states []engine.State
	readableBy, denied := 0, ""
	err := s.read(ctx, "", []statement{{s.stateSQL(), []any{bases}}},
		func() { states, readableBy, denied = zeroStates(bases), 0, "" }, func(_ int, r *row) {
			readableBy, denied = r.count(), r.text()
			s.sawVectors(newExtension(r.text(), r.text()))
			name := r.text()
			if index[name] == nil {
				return // none of the bases exists
			}
			s.learn(name, r.count())
			state := s.readState(name, r)
			for _, i := range index[name] {
				states[i] = state
			}
		})
	if isMissing(err) {
		return zeroStates(bases), nil
	}
	switch {
	case err != nil:
		return states, err
	case readableBy > version:
		return states, schemaError(readableBy)
	case denied != "":
		return states, needs(readRights, fmt.Errorf("postgres: %w: permission denied for table %s", engine.ErrDenied, denied))
	}
	return states, nil
}

// stateSQL reads readable_by, a table that searches need and may not read, the columns of extensionSQL,
// and the bases with some names: a row for each, or one without a name. It is read every second by
// every Sidenote, so it is one statement.
func (s *Server) stateSQL() string {
	var denied strings.Builder
	for _, table := range []string{"documents", "chunks", "terms"} {
		fmt.Fprintf(&denied, " when not has_any_column_privilege(%s, 'select') then '%s'", quoteText(s.schema+"."+table), table)
	}
	return "select (select max(readable_by) from " + s.schema + ".version), case" + denied.String() + " end, e.*, b.name, b.id, " + stateColumns +
		" from (" + extensionSQL + ") e left join " + s.schema + ".bases b on b.name = any($1)"
}

// extensionSQL reads the schema and the version of pgvector, both "" if there is none.
const extensionSQL = `select coalesce(e.extnamespace::regnamespace::text, ''), coalesce(e.extversion, '') from (select) one
	left join pg_extension e on e.extname = 'vector'`

func zeroStates(bases []string) []engine.State {
	states := make([]engine.State, len(bases))
	for i, base := range bases {
		states[i].Base = base
	}
	return states
}

// The versions of pgvector that matter: halfvec came with 0.7, iterative scans with 0.8.
const (
	halfvecMinor   = 7
	iterativeMinor = 8
)

// newExtension returns pgvector of a version; one without halfvec is as good as none.
func newExtension(schema, version string) extension {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(minor)
	if err != nil || major == "0" && n < halfvecMinor {
		return extension{version: version}
	}
	return extension{schema, version, major != "0" || n >= iterativeMinor}
}

// sawVectors keeps which pgvector there is.
func (s *Server) sawVectors(e extension) {
	message := ""
	switch {
	case e.version == "":
		message = "pgvector is not installed in the database: bases are searched by words only. A superuser may run: create extension vector"
	case e.schema == "":
		message = fmt.Sprintf("pgvector %s is older than 0.7: bases are searched by words only", e.version)
	}
	s.mu.Lock()
	s.vectors, s.known, s.lacks = e, true, message
	s.mu.Unlock()
	if message == "" || s.options.Vectors {
		s.noteVectors()
	}
}

// noteVectors notes what pgvector lacks, which matters if a base has vectors or is to have some.
func (s *Server) noteVectors() {
	s.mu.Lock()
	lacks := s.lacks
	s.mu.Unlock()
	s.note("pgvector", lacks)
}
