package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"sidenote/cmd/internal/terminal"
)

// A bench holds the command line.
type bench struct {
	Sidenote    string        `placeholder:"FILE" help:"The program to measure (built from the source in the current folder)."`
	Before      string        `placeholder:"FILE" help:"Another sidenote, such as that of the last release: what a request cost before."`
	Case        []string      `sep:"none" placeholder:"NAME" help:"Of the CPU cases only those whose names begin so; repeat for more."`
	Rounds      int           `default:"15" placeholder:"N" help:"Rounds of each case (${default})."`
	Round       time.Duration `default:"250ms" placeholder:"TIME" help:"How long one server's round is (${default})."`
	Connections int           `default:"32" placeholder:"N" help:"Connections that send requests at once (${default})."`
	Latencies   int           `default:"3000" placeholder:"N" help:"Requests of each kind for added latency; 0: none (${default})."`
	Streams     int           `default:"1000" placeholder:"N" help:"Open streams for memory; 0: none (${default})."`
	Stress      bool          `help:"Also stream 20,000 chats from a fast upstream and count what is lost."`
	StressChats int           `default:"20000" hidden:""`
	Growth      bool          `help:"Also a table over body size, messages, sources and connections."`
	Page        bool          `help:"Also what a request costs more, at 1,000 a second, while a page of the inspector is open."`
	Log         string        `default:"all" enum:"all,errors,none" placeholder:"WHICH" help:"Requests with a line in Sidenote's log: all, errors or none (${default})."`
	JSON        bool          `help:"Print JSON."`

	Help helpFlag `short:"h" help:"Show help."`

	progress *terminal.Progress // nil without a terminal
	dir      string             // for temporary files
}

func (b *bench) check() error {
	switch {
	case b.Rounds < 1 || b.Round <= 0 || b.Connections < 1:
		return errors.New("--rounds, --round and --connections must be above 0")
	case b.Latencies < 0 || b.Streams < 0 || b.StressChats < 0:
		return errors.New("--latencies and --streams cannot be negative")
	case len(b.works()) == 0 && len(b.Case) > 0:
		return fmt.Errorf("--case %q: no case begins so; there are %s", b.Case, strings.Join(names(works()), "; "))
	}
	return nil
}

// works returns the chosen cases.
func (b *bench) works() []work {
	if len(b.Case) == 0 {
		return works()
	}
	return slices.DeleteFunc(works(), func(w work) bool {
		return !slices.ContainsFunc(b.Case, func(name string) bool { return strings.HasPrefix(w.name, name) })
	})
}

func names(list []work) []string {
	var all []string
	for _, w := range list {
		all = append(all, w.name)
	}
	return all
}

// measure makes the measurements of the command line. With an error it returns the results so far,
// or nil.
func (b *bench) measure(ctx context.Context) (_ *results, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	raiseDescriptors()
	if b.dir, err = os.MkdirTemp("", "sidenote-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	b.progress.Show(terminal.Work{Name: "building sidenote"})
	if b.Sidenote == "" {
		if b.Sidenote, err = buildSidenote(ctx, b.dir); err != nil {
			return nil, err
		}
	}
	r := newResults(b)
	for _, step := range []struct {
		wanted bool
		do     func(context.Context, *results) error
	}{
		{true, b.measureCPU},
		{b.Latencies > 0, b.measureLatency},
		{b.Streams > 0, b.measureMemory},
		{b.Stress, b.measureStress},
		{b.Growth, b.measureGrowth},
		{b.Page, b.measurePage},
	} {
		if !step.wanted {
			continue
		}
		if err := step.do(ctx, r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// A rig holds the processes of one measurement. They are new for each, so that measurements do not
// affect each other.
type rig struct {
	upstream, relay, sidenote *server
	before                    *server // nil without --before
}

func (b *bench) newRig(ctx context.Context, p program) (_ *rig, err error) {
	b.progress.Show(terminal.Work{Name: "starting"})
	r := &rig{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.stop())
		}
	}()
	if r.upstream, err = startRole(ctx, "role-upstream"); err != nil {
		return nil, err
	}
	if r.relay, err = startRole(ctx, "role-relay", r.upstream.addr); err != nil {
		return nil, err
	}
	p.upstream = r.upstream.addr
	if r.sidenote, err = b.startSidenote(ctx, b.Sidenote, p); err != nil || b.Before == "" || p.staged {
		return r, err
	}
	r.before, err = b.startSidenote(ctx, b.Before, p)
	return r, err
}

func (r *rig) stop() error {
	var errs []error
	for _, s := range []*server{r.before, r.sidenote, r.relay, r.upstream} {
		if s != nil {
			errs = append(errs, s.stop())
			<-s.done
		}
	}
	return errors.Join(errs...)
}

// with runs f on a new rig of p.
func (b *bench) with(ctx context.Context, p program, f func(*rig) error) error {
	r, err := b.newRig(ctx, p)
	if err != nil {
		return err
	}
	return errors.Join(f(r), r.stop())
}
