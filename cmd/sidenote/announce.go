package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"sidenote/cmd/internal/console"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/engine"
)

// say writes a line about what is served, in order.
func (o *output) say(name, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	o.inOrder(func() { o.write(name, detail) })
}

// write writes such a line now: as text for a person, otherwise as a line of the log.
func (o *output) write(name, detail string) {
	if o.log != nil {
		o.logger.Info(name, "detail", detail)
		return
	}
	fmt.Fprintf(o.writer, "%-11s%s\n", name, detail)
}

// pause delays the lines of inOrder until resume is called.
func (o *output) pause() (resume func()) {
	o.order.Lock()
	defer o.order.Unlock()
	o.paused = true
	return func() {
		o.order.Lock()
		defer o.order.Unlock()
		for _, write := range o.waiting {
			write()
		}
		o.paused, o.waiting = false, nil
	}
}

// inOrder calls write now, or after pause when the lines are resumed. It does not wait.
func (o *output) inOrder(write func()) {
	o.order.Lock()
	defer o.order.Unlock()
	if o.paused {
		o.waiting = append(o.waiting, write)
		return
	}
	write()
}

// indexed writes what became of reading a base, in order.
func (o *output) indexed(i engine.Indexed) { o.inOrder(func() { o.writeIndexed(i) }) }

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

// reached is the address at which a program on this machine calls a listener.
func reached(l net.Listener) string { return local(config.Address(l.Addr().String())) }

// announce writes where requests come in and where they go. It probes all upstreams at once
// in the background; lines of inOrder are written after their results, and wait returns when
// they have been.
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
	resume := o.pause()
	told.Go(func() {
		asked.Wait()
		for i, base := range bases {
			o.write("upstream", upstreamLine(base, states[i]))
		}
		resume()
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

// upstreamLine shows where requests go.
func upstreamLine(base *url.URL, state string) string {
	path := strings.TrimSuffix(base.Path, "/")
	if !strings.HasSuffix(path, "/v1") {
		path += "/v1"
	}
	return fmt.Sprintf("/v1/chat/completions → %s://%s%s/chat/completions   (%s)", base.Scheme, base.Host, path, state)
}

// announceLimits writes what each request may get, and what replicas share.
func (o *output) announceLimits(ctx context.Context, e *engine.Engine) {
	cfg := e.Config
	if names := cfg.TenantNames(); len(names) == 1 {
		p, _ := cfg.Tenant(names[0])
		search := p.Rewrite.Search
		o.say("budget", "%s tokens a request, at most %d sources, %s ms", console.Thousands(p.Rewrite.ContextTokens), search.TopK, console.Thousands(int(search.Deadline.Milliseconds())))
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
	resp, err := probeClient().Do(req)
	if err != nil {
		return console.Cause(err)
	}
	return resp.Body.Close()
}
