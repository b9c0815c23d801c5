package server

import (
	"fmt"
	"io"
	"log/slog"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/audit"
)

// openAudit returns the audit of a configuration. log, which may be nil, gets the lines of audit:
// stderr, and those that the file does not take.
func openAudit(cfg *config.Config, log io.Writer, m Monitor) *audit.Log {
	l := &audit.Log{Count: m.Metrics.Audited}
	switch {
	case cfg.Audit.Stderr:
		l.Out = log
	case cfg.Audit.File != "":
		l.Out = audit.NewFile(cfg.Audit.File)
		l.Failed = func(err error, line []byte) {
			m.Log(slog.LevelError, fmt.Sprintf("audit: a line was not written, so it stands here: %v", err))
			if log != nil {
				_, _ = log.Write(line) // there is no third place
			}
		}
		if err := l.Open(); err != nil {
			m.Log(slog.LevelError, l.Problem())
		}
	}
	m.Metrics.Watch("audit_write_errors_total", "Lines of the audit that its file did not take.", nil, true, func() float64 { return float64(l.Lost()) })
	return l
}

// CommandAudit returns the audit of a command that changes the state folder itself. Lines of audit:
// stderr go to log.
func CommandAudit(cfg *config.Config, log io.Writer, user string) *audit.Log {
	l := &audit.Log{By: "command of " + user}
	switch {
	case cfg.Audit.Stderr:
		l.Out = log
	case cfg.Audit.File != "":
		l.Out = audit.NewFile(cfg.Audit.File)
		l.Failed = func(err error, line []byte) {
			fmt.Fprintf(log, "audit: a line was not written, so it stands here: %v\n%s", err, line)
		}
	}
	return l
}

// Audit returns the audit.
func (e *Engine) Audit() *audit.Log { return e.audit }
