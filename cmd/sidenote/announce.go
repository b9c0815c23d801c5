package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"sidenote/cmd/sidenote/internal/config"
)

// say writes a line of what is served: for a person as PRODUCT.md §1 draws it,
// otherwise as a line of the log.
func (o *output) say(name, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	if o.log != nil {
		o.logger.Info(name, "detail", detail)
		return
	}
	fmt.Fprintf(o.writer, "%-11s%s\n", name, detail)
}

// indexed says what became of reading a base.
func (o *output) indexed(i indexed) {
	if o.log == nil {
		fmt.Fprintln(o.writer, i)
		return
	}
	if i.store != "" {
		o.logger.Info("knowledge", "knowledge", i.id, "detail", i.store)
		return
	}
	o.logger.Info("knowledge", "knowledge", i.id, "files", i.report.Files, "chunks", i.report.Chunks,
		"seconds", i.took.Seconds(), "skipped", i.report.Summary())
	for _, line := range i.unread() {
		o.logger.Warn("file skipped", "knowledge", i.id, "detail", line)
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

// announce says where requests come in and where they go.
func (o *output) announce(ctx context.Context, cfg *config.Config, ls listeners) {
	o.say("listening", "http://%s/v1          set OPENAI_BASE_URL to this", reached(ls.data))
	if open(cfg, ls.data) {
		o.tell(slog.LevelWarn, openLine(cfg, ls.data))
	}
	for _, name := range cfg.UpstreamNames() {
		if cfg.OnlyForKnowledge(name) {
			continue
		}
		base := cfg.Proxy().Upstreams[string(name)].BaseURL
		state := "reachable"
		if err := reachable(ctx, base.String()); err != nil {
			state = "not reachable: " + err.Error()
		}
		path := strings.TrimSuffix(base.Path, "/")
		if !strings.HasSuffix(path, "/v1") {
			path += "/v1"
		}
		o.say("upstream", "/v1/chat/completions → %s://%s%s/chat/completions   (%s)", base.Scheme, base.Host, path, state)
	}
}

// announceLimits says what each request may get.
func (o *output) announceLimits(ctx context.Context, s *stack) {
	cfg := s.cfg
	for _, name := range cfg.TenantNames() {
		if p, _ := cfg.Tenant(name); len(cfg.TenantNames()) == 1 {
			search := p.Rewrite.Search
			o.say("budget", "%s tokens a request, at most %d sources, %s ms", thousands(p.Rewrite.ContextTokens), search.TopK, thousands(int(search.Deadline.Milliseconds())))
		}
	}
	o.say("cache", "in this process, %d MiB (%s)", cfg.Cache.Memory>>20, s.shared.state(ctx))
}
