package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/valyala/fasthttp/fasthttputil"

	"sidenote/cmd/sidenote/internal/adminclient"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/engine"
	"sidenote/proxy"
	"sidenote/proxy/admin"
	"sidenote/proxy/panics"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/store"
)

// baseFlags say where the bases are that a command is about.
type baseFlags struct {
	Config         string `placeholder:"FILE" help:"Configuration, YAML."`
	State          string `placeholder:"DIR" help:"Where bases are kept ($XDG_STATE_HOME/sidenote)."`
	AdminTokenFile string `placeholder:"FILE" help:"Token of the admin port of the process that writes the state folder ($SIDENOTE_ADMIN_TOKEN)."`
	JSON           bool   `name:"json" help:"Print the answer as JSON."`
}

// manage calls f with what manages the bases: the admin port of the process that
// writes the state folder, and where none does, one that this process opens for itself
// alone. So a command does the same, and is refused the same, with a serve and without.
func (f baseFlags) manage(a *app, write bool, do func(*adminclient.Client) error) error {
	cfg, err := configFlags{Config: f.Config, State: f.State, AdminTokenFile: f.AdminTokenFile}.load(a, true)
	if err != nil {
		return err
	}
	token := cfg.Admin.Token.Value.Reveal()
	if cfg.State.Path == store.Memory {
		return usageError{errors.New("there is no state folder; name one by --state")}
	}
	if !write {
		// The writer knows best, what it is reading at the moment included. One that does
		// not answer, or not us, is done without.
		if who := store.Writer(cfg.State.Path); who != nil {
			c, err := adminclient.ToWriter(a.ctx, who, token)
			if err == nil && c.Do(a.ctx, http.MethodGet, adminclient.KnowledgePath()+"?limit=1", nil, nil) == nil {
				return do(a.asking(c, who))
			}
		}
	}
	kept, err := f.open(a, cfg, write)
	var locked *store.LockedError
	if errors.As(err, &locked) {
		c, why := adminclient.ToWriter(a.ctx, locked, token)
		if why != nil {
			return fmt.Errorf("%w; %w", err, why)
		}
		return do(a.asking(c, locked))
	}
	if err != nil {
		return engine.StateError(err, cfg.State, false)
	}
	return a.alone(cfg, kept, write, do)
}

// asking says who is asked.
func (a *app) asking(c *adminclient.Client, who *store.LockedError) *adminclient.Client {
	fmt.Fprintf(a.stderr, "asked the process at %s, which writes %s\n", who.Address, who.Dir)
	return c
}

// open opens the state folder in this process.
func (f baseFlags) open(a *app, cfg *config.Config, write bool) (*knowledge.Library, error) {
	kept, err := engine.OpenLibrary(a.ctx, cfg.State.Path, knowledge.LibraryOptions{
		ReadOnly: !write,
		Trouble:  func(t knowledge.Trouble) { fmt.Fprintf(a.stderr, "state: %v\n", t.Err) },
	})
	if err != nil {
		return nil, err
	}
	if err := kept.Load(a.ctx, nil); err != nil { // the other bases are none the worse
		if a.ctx.Err() != nil {
			return nil, errors.Join(err, kept.Close())
		}
		fmt.Fprintf(a.stderr, "state: %v\n", err)
	}
	return kept, nil
}

// alone answers out of the state folder itself, which is closed in the end.
func (a *app) alone(cfg *config.Config, kept *knowledge.Library, write bool, do func(*adminclient.Client) error) (err error) {
	opened := "opened"
	if !write {
		opened = "opened for reading"
	}
	fmt.Fprintf(a.stderr, "%s %s\n", opened, cfg.State.Path)
	token := rand.Text()
	server := admin.NewServer((&admin.Handler{Keeper: engine.NewManager(cfg, kept), Token: proxy.NewSecret(token)}).Handle, slog.New(slog.DiscardHandler))
	ln := fasthttputil.NewInmemoryListener()
	served := make(chan error, 1)
	panics.Go(a.panicked, func() { served <- server.Serve(ln) }, func() { close(served) })
	defer func() {
		_ = ln.Close() // what is in memory needs no good bye
		<-served
		err = errors.Join(err, kept.Close())
	}()
	return do(adminclient.New("localhost", token, func(context.Context, string, string) (net.Conn, error) { return ln.Dial() }))
}
