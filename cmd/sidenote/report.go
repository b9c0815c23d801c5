package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/logreport"
)

type reportCmd struct {
	Files  []string `arg:"" optional:"" name:"file" help:"Log files, also gzip-compressed; - is stdin (stdin)."`
	Since  string   `placeholder:"24h|TIME" help:"Only requests since an age, as in 24h or 7d, or a time, as in 2026-11-23 or 2026-11-23T14:00:00Z (all)."`
	Config string   `placeholder:"FILE" help:"Configuration with prices. Neither secrets nor folders are needed."`
	JSON   bool     `name:"json" help:"Print everything as JSON."`
}

// Help shows how report is used.
func (reportCmd) Help() string {
	return "Reads a JSON log: how many chats got sources, what they cost, which questions no document answered, what shadow mode would do. Nothing is sent anywhere.\n\n" +
		"sidenote report --since 24h sidenote.log\n\nkubectl logs deploy/sidenote | sidenote report --json"
}

// Run reads the logs and prints a summary.
func (c *reportCmd) Run(a *app) error {
	tally := new(logreport.Tally)
	var err error
	if tally.Since, err = sinceOf(c.Since, time.Now()); err != nil {
		return usageError{err}
	}
	if c.Config != "" {
		cfg, err := config.Load(config.Source{Path: c.Config, Env: a.env, Offline: true, NoSecrets: true})
		if err != nil {
			return err
		}
		tally.Prices = config.PriceTable(cfg.Prices)
	}
	unread, err := c.read(a, tally)
	if err != nil {
		return err
	}
	r := tally.Report()
	if l := r.Lines; l.Requests+l.Before == 0 && l.Other+l.Broken > 0 {
		return errors.Join(unread, fmt.Errorf("none of %s is a request; the log must be JSON (telemetry.log.format: json)", terminal.Plural(l.Read, "line")))
	}
	if c.JSON {
		err = printJSON(a.stdout, r)
	} else {
		r.Print(a.stdout)
	}
	if unread != nil {
		return partError{unread}
	}
	return err
}

// read counts the lines of all files. unread names the files that could not be read to the end.
func (c *reportCmd) read(a *app, to *logreport.Tally) (unread, err error) {
	show, stop := newProgress(a)
	defer stop()
	files := c.Files
	if len(files) == 0 {
		files = []string{"-"}
	}
	for _, name := range files {
		if name == "-" {
			err = to.Read(a.ctx, a.stdin)
		} else {
			err = readLog(a, name, to, show)
		}
		if a.ctx.Err() != nil {
			return nil, a.ctx.Err()
		}
		if errors.Is(err, errNoLog) {
			return nil, err
		}
		if err != nil {
			unread = errors.Join(unread, fmt.Errorf("%s was read in part: %w", name, err))
		}
	}
	return unread, nil
}

// errNoLog means that a file cannot be read at all.
var errNoLog = errors.New("no log")

func readLog(a *app, name string, to *logreport.Tally, show *terminal.Progress) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoLog, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		return fmt.Errorf("%w: %s is a folder", errNoLog, name)
	}
	return to.Read(a.ctx, &watched{Reader: f, work: terminal.Work{Name: name, Total: int(info.Size()), Unit: "bytes"}, show: show})
}

// A watched reader shows how much of it has been read.
type watched struct {
	io.Reader
	work terminal.Work
	show *terminal.Progress
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.work.Done += n
	w.show.Show(w.work)
	return n, err
}

// sinceOf parses a time or a duration before now; "" is the zero time.
func sinceOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	ago, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 15)
		ago = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || ago <= 0 {
		return time.Time{}, fmt.Errorf("--since %q is no time such as 2026-11-23, nor how long ago one is such as 24h or 7d", text)
	}
	return now.Add(-ago), nil
}
