package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os/user"
	"slices"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"

	"sidenote/cmd/sidenote/internal/client"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy/admin"
	"sidenote/proxy/panics"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// baseFlags choose the state folder whose bases a command manages.
type baseFlags struct {
	Config         string `placeholder:"FILE" help:"Configuration, YAML."`
	State          string `placeholder:"DIR" help:"Where bases are kept ($XDG_STATE_HOME/sidenote)."`
	AdminTokenFile string `placeholder:"FILE" help:"Token of the admin port of the process that writes the state folder ($SIDENOTE_ADMIN_TOKEN)."`
	JSON           bool   `name:"json" help:"Print the answer as JSON."`
	shownFlags
}

// manage calls do with a client of an admin port: that of the process that writes the state folder
// or, without one, a port in the memory of this process. A command thus works, and fails, the same
// way whether or not a serve is running.
func (f baseFlags) manage(a *app, write bool, do func(*client.Admin) error) error {
	cfg, err := configFlags{Config: f.Config, Flags: config.Flags{State: f.State, AdminTokenFile: f.AdminTokenFile}}.load(a, true)
	if err != nil {
		return err
	}
	token := cfg.AdminToken(time.Now()).Reveal()
	if cfg.State.Path == store.Memory {
		return usageError{errors.New("there is no state folder; name one by --state")}
	}
	if !write {
		// The writer knows more, such as what it is reading now. If it does not answer, the state
		// folder is read here.
		if who := store.Writer(cfg.State.Path); who != nil {
			c, err := client.AdminOfWriter(a.ctx, who, token, f.certificate(cfg))
			if err == nil && c.Do(a.ctx, http.MethodGet, client.KnowledgePath()+"?limit=1", nil, nil) == nil {
				return do(a.asking(c, who))
			}
		}
	}
	library, err := f.open(a, cfg, write)
	if locked, ok := errors.AsType[*store.LockedError](err); ok {
		c, why := client.AdminOfWriter(a.ctx, locked, token, f.certificate(cfg))
		if why != nil {
			return fmt.Errorf("%w; %w", err, why)
		}
		return do(a.asking(c, locked))
	}
	if errors.Is(err, fs.ErrNotExist) && slices.ContainsFunc(cfg.KnowledgeNames(), func(name config.Name) bool { return cfg.Knowledge[name].Remote() }) {
		return fmt.Errorf("state: %s holds no knowledge; the state of bases in engines is known to a running serve: name its state folder by --state", cfg.State.Path)
	}
	if err != nil {
		return server.StateError(err, cfg.State, false)
	}
	return a.alone(cfg, library, write, do)
}

// asking prints which process is called, and returns c.
func (a *app) asking(c *client.Admin, who *store.LockedError) *client.Admin {
	fmt.Fprintf(a.stderr, "asked the process at %s, which writes %s\n", who.Address, who.Dir)
	return c
}

// open opens the state folder in this process.
func (f baseFlags) open(a *app, cfg *config.Config, write bool) (*library.Library, error) {
	library, err := server.OpenLibrary(a.ctx, cfg.State.Path, library.Options{
		ReadOnly: !write,
		Trouble:  func(t library.Trouble) { fmt.Fprintf(a.stderr, "state: %v\n", t.Err) },
	})
	if err != nil {
		return nil, err
	}
	if err := library.Load(a.ctx, nil); err != nil { // bases that did load can be used
		if a.ctx.Err() != nil {
			return nil, errors.Join(err, library.Close())
		}
		fmt.Fprintf(a.stderr, "state: %v\n", err)
	}
	return library, nil
}

// userName returns the name of the user who runs this process.
func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// alone calls do with an admin port of this process, and closes the library at the end.
func (a *app) alone(cfg *config.Config, library *library.Library, write bool, do func(*client.Admin) error) (err error) {
	opened := "opened"
	if !write {
		opened = "opened for reading"
	}
	fmt.Fprintf(a.stderr, "%s %s\n", opened, cfg.State.Path)
	token := rand.Text()
	events := server.CommandAudit(cfg, a.stderr, userName())
	defer func() { err = errors.Join(err, events.Close()) }()
	handler := &admin.Handler{
		Manager: server.NewManager(cfg, library), Audit: events,
		Tokens: []admin.Token{{SHA256: sha256.Sum256([]byte(token)), Scope: admin.ScopeAdmin}},
	}
	srv := admin.NewServer(handler.Handle, slog.New(slog.DiscardHandler))
	ln := fasthttputil.NewInmemoryListener()
	served := make(chan error, 1)
	panics.Go(a.panicked, func() { served <- srv.Serve(ln) }, func() { close(served) })
	defer func() {
		_ = ln.Close() // an in-memory listener: no response is cut off
		<-served
		err = errors.Join(err, library.Close())
	}()
	return do(client.NewAdmin("localhost", token, func(context.Context) (net.Conn, error) { return ln.Dial() }))
}
