package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy"
)

// Say writes a line about what is served, in order.
func (o *Output) Say(name, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	o.inOrder(func() { o.write(name, detail) })
}

// write writes such a line now: text for a person, otherwise a log record.
func (o *Output) write(name, detail string) {
	if o.log != nil {
		o.Logger.Info(name, "detail", detail)
		return
	}
	fmt.Fprintf(o.writer, "%-11s%s\n", name, detail)
}

// pause delays the lines of inOrder until resume is called.
func (o *Output) pause() (resume func()) {
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

// inOrder calls write now or, during a pause, when resume is called. It does not wait.
func (o *Output) inOrder(write func()) {
	o.order.Lock()
	defer o.order.Unlock()
	if o.paused {
		o.waiting = append(o.waiting, write)
		return
	}
	write()
}

// Indexed writes the result of reading a base, in order.
func (o *Output) Indexed(i server.Indexed) { o.inOrder(func() { o.writeIndexed(i) }) }

func (o *Output) writeIndexed(i server.Indexed) {
	if o.log == nil {
		fmt.Fprintln(o.writer, screen.IndexedLines(i))
		return
	}
	if i.Line != "" {
		o.Logger.Info("knowledge", "knowledge", i.ID, "detail", i.Line)
		return
	}
	o.Logger.Info("knowledge", "knowledge", i.ID, "files", i.Report.Files, "chunks", i.Report.Chunks,
		"seconds", i.Took.Seconds(), "skipped", i.Report.Summary(), "skipped_kinds", i.Report.SkippedLines())
	for _, line := range screen.Unread(i.Report) {
		o.Logger.Warn("file skipped", "knowledge", i.ID, "detail", line)
	}
}

// Reading writes the progress of reading a folder.
func (o *Output) Reading(r server.Reading) {
	if o.log != nil {
		o.Logger.Info("reading", "knowledge", r.Knowledge, "done", r.Done, "files", r.Files, "chunks", r.Chunks, "detail", screen.ReadingLine(r))
		return
	}
	o.write("reading", screen.ReadingLine(r))
}

// Announce writes where requests come in and where they go. It probes all upstreams concurrently
// in the background. Lines of inOrder come after the results; wait returns when all are written.
func (o *Output) Announce(ctx context.Context, cfg *config.Config, ls Listeners, reach func(context.Context, proxy.Upstream) error) (wait func()) {
	for i, l := range ls.Data {
		if _, socket := l.Addr().(*net.UnixAddr); socket {
			o.Say("listening", "%s", BaseURL(l))
		} else {
			o.Say("listening", "%s          set OPENAI_BASE_URL to this", BaseURL(l))
		}
		if IsOpen(cfg, cfg.Listen[i], l) {
			o.Log(slog.LevelWarn, OpenLine(cfg, cfg.Listen[i], l))
		}
	}
	if address := InspectorURL(ls.Admin); address != "" {
		o.Say("inspector", "%s", address)
	}
	if l := ls.MCP; l != nil {
		o.Say("mcp", "%s", MCPURL(l))
		if IsOpen(cfg, cfg.MCP.Port(), l) {
			o.Log(slog.LevelWarn, fmt.Sprintf("open: anyone who reaches %s may search, without a key", l.Addr()))
		}
	}
	var bases []proxy.Upstream
	for _, name := range cfg.UpstreamNames() {
		if !cfg.OnlyForKnowledge(name) {
			bases = append(bases, cfg.Proxy().Upstreams[string(name)])
		}
	}
	states := make([]string, len(bases))
	var asked, told sync.WaitGroup
	for i, base := range bases {
		asked.Go(func() { states[i] = reachState(reach(ctx, base)) })
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

// upstreamLine shows where requests are relayed to.
func upstreamLine(u proxy.Upstream, state string) string {
	at := u.BaseURL.Scheme + "://" + u.BaseURL.Host
	if u.Dial.Socket != "" {
		at = config.Unix + u.Dial.Socket + ":"
	}
	path := strings.TrimSuffix(u.BaseURL.Path, "/")
	if !strings.HasSuffix(path, "/v1") {
		path += "/v1"
	}
	return fmt.Sprintf("/v1/chat/completions → %s%s/chat/completions   (%s)", at, path, state)
}

// AnnounceLimits writes the context budget of a request, and what replicas share.
func (o *Output) AnnounceLimits(ctx context.Context, e *server.Engine) {
	cfg := e.Config
	if names := cfg.TenantNames(); len(names) == 1 {
		p, _ := cfg.Tenant(names[0])
		search := p.Rewrite.Search
		o.Say("budget", "%s tokens a request, at most %d sources, %s ms", terminal.Thousands(p.Rewrite.ContextTokens), search.TopK, terminal.Thousands(int(search.Deadline.Milliseconds())))
	}
	o.Say("cache", "in this process, %d MiB (%s)", cfg.Cache.Memory>>20, e.DescribeSharing(ctx))
}
