package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sidenote/retrieval/engine"
)

// A schemaServer has a schema only. Other methods are nil.
type schemaServer struct {
	engine.Server
	err   error // of all methods
	calls []string
}

func (s *schemaServer) Setup(base string) (string, error) {
	s.calls = append(s.calls, "setup "+base)
	return "CREATE SCHEMA sidenote;\n", s.err
}

func (s *schemaServer) Init(_ context.Context, base string) error {
	s.calls = append(s.calls, "init "+base)
	return s.err
}

func (s *schemaServer) States(_ context.Context, bases []string) ([]engine.State, error) {
	s.calls = append(s.calls, "states "+strings.Join(bases, " "))
	return []engine.State{{}}, s.err
}

func (s *schemaServer) Trouble() []string { return []string{"no index"} }

// init creates the schema, and with --print it only says how.
func TestKnowledgeInit(t *testing.T) {
	for _, c := range []struct {
		print bool
		err   error
		calls string
		out   string // what is printed, or the error
	}{
		{false, nil, "[init manuals states manuals]", "warning: knowledge manuals: no index\nmanuals: ready, in Postgres\n"},
		{true, nil, "[setup manuals]", "CREATE SCHEMA sidenote;\n"},
		{false, errors.New("no answer"), "[init manuals]", "no answer"},
		{true, errors.New("a filter"), "[setup manuals]", "a filter"},
		{false, fmt.Errorf("create schema: %w", engine.ErrDenied), "[init manuals]", "create schema: permission denied by the engine; `sidenote knowledge init manuals --print` prints what somebody else may run"},
		{false, fmt.Errorf("connect: %w", engine.ErrLogin), "[init manuals]", "connect: user, password or key refused by the engine"},
	} {
		at, out, report := &schemaServer{err: c.err}, strings.Builder{}, initReport{ID: "manuals"}
		cmd := initCmd{ID: "manuals", Print: c.print}
		if err := cmd.do(&app{ctx: t.Context(), stderr: &out}, at, &report); err != nil {
			out.WriteString(err.Error())
		} else {
			cmd.print(&out, report, "in Postgres")
		}
		if got := fmt.Sprint(at.calls); got != c.calls || out.String() != c.out || report.Ready != (c.err == nil && !c.print) {
			t.Errorf("%+v: calls %s, printed %q, %+v", c, got, out.String(), report)
		}
	}
}
