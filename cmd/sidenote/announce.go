package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/console"
	"sidenote/cmd/sidenote/internal/engine"
)

// say writes a line of what is served, in its turn.
func (o *output) say(name, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	o.inTurn(func() { o.write(name, detail) })
}

// write writes such a line now: for a person as PRODUCT.md §1 draws it, otherwise as a
// line of the log.
func (o *output) write(name, detail string) {
	if o.log != nil {
		o.logger.Info(name, "detail", detail)
		return
	}
	fmt.Fprintf(o.writer, "%-11s%s\n", name, detail)
}

// hold keeps back what is said in turn until release is called.
func (o *output) hold() (release func()) {
	o.turn.Lock()
	defer o.turn.Unlock()
	o.held = true
	return func() {
		o.turn.Lock()
		defer o.turn.Unlock()
		for _, write := range o.waiting {
			write()
		}
		o.held, o.waiting = false, nil
	}
}

// inTurn calls write now, or when what is held back may be written. It does not wait.
func (o *output) inTurn(write func()) {
	o.turn.Lock()
	defer o.turn.Unlock()
	if o.held {
		o.waiting = append(o.waiting, write)
		return
	}
	write()
}

// indexed says what became of reading a base, in its turn.
func (o *output) indexed(i engine.Indexed) { o.inTurn(func() { o.writeIndexed(i) }) }

func (o *output) writeIndexed(i engine.Indexed) {
	if o.log == nil {
		fmt.Fprintln(o.writer, indexedLines(i))
		return
	}
	if i.Line != "" {
		o.logger.Info("knowledge", "knowledge", i.ID, "detail", i.Line)
		return
	}
	o.logger.Info("knowledge", "knowledge", i.ID, "files", i.Report.Files, "chunks", i.Report.Chunks,
		"seconds", i.Took.Seconds(), "skipped", i.Report.Summary())
	for _, line := range unread(i.Report) {
		o.logger.Warn("file skipped", "knowledge", i.ID, "detail", line)
	}
}

// reached is where a program on this machine finds a listener: one on all
// interfaces has no address that could be called.
func reached(l net.Listener) string {
	at, ok := l.Addr().(*net.TCPAddr)
	if !ok || !at.IP.IsUnspecified() {
		return l.Addr().String()
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.Port))
}

// announce says where requests come in and where they go. Upstreams are asked, all at
// once, beside what the caller does next; what is said meanwhile comes after them, and
// wait returns when it has been said.
func (o *output) announce(ctx context.Context, cfg *config.Config, ls listeners, reach func(ctx context.Context, base string) error) (wait func()) {
	o.say("listening", "http://%s/v1          set OPENAI_BASE_URL to this", reached(ls.data))
	if open(cfg, ls.data) {
		o.tell(slog.LevelWarn, openLine(cfg, ls.data))
	}
	var bases []*url.URL
	for _, name := range cfg.UpstreamNames() {
		if !cfg.OnlyForKnowledge(name) {
			bases = append(bases, cfg.Proxy().Upstreams[string(name)].BaseURL)
		}
	}
	states := make([]string, len(bases))
	var asked, told sync.WaitGroup
	for i, base := range bases {
		asked.Go(func() { states[i] = reachState(reach(ctx, base.String())) })
	}
	release := o.hold()
	told.Go(func() {
		asked.Wait()
		for i, base := range bases {
			o.write("upstream", upstreamLine(base, states[i]))
		}
		release()
	})
	return told.Wait
}

func reachState(err error) string {
	switch {
	case err == nil:
		return "reachable"
	case errors.Is(err, context.Canceled):
		return "no answer yet"
	}
	return "not reachable: " + err.Error()
}

// upstreamLine says where requests go.
func upstreamLine(base *url.URL, state string) string {
	path := strings.TrimSuffix(base.Path, "/")
	if !strings.HasSuffix(path, "/v1") {
		path += "/v1"
	}
	return fmt.Sprintf("/v1/chat/completions → %s://%s%s/chat/completions   (%s)", base.Scheme, base.Host, path, state)
}

// announceLimits says what each request may get.
func (o *output) announceLimits(ctx context.Context, e *engine.Engine) {
	cfg := e.Config
	for _, name := range cfg.TenantNames() {
		if p, _ := cfg.Tenant(name); len(cfg.TenantNames()) == 1 {
			search := p.Rewrite.Search
			o.say("budget", "%s tokens a request, at most %d sources, %s ms", console.Thousands(p.Rewrite.ContextTokens), search.TopK, console.Thousands(int(search.Deadline.Milliseconds())))
		}
	}
	o.say("cache", "in this process, %d MiB (%s)", cfg.Cache.Memory>>20, e.Shared(ctx))
}

// reachable tells whether an upstream answers at all; any answer will do.
func reachable(ctx context.Context, base string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, base, nil)
	if err != nil {
		return err
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return console.Cause(err)
	}
	return resp.Body.Close()
}
