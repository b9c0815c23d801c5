package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"sidenote/cmd/internal/console"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/demo"
	"sidenote/cmd/sidenote/internal/engine"
	"sidenote/cmd/sidenote/internal/output"
	"sidenote/cmd/sidenote/internal/ports"
	"sidenote/cmd/sidenote/internal/serving"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
)

type demoCmd struct {
	Question string `arg:"" optional:"" help:"What to ask the handbook."`
	Serve    bool   `help:"Go on serving, to ask it something yourself."`
	Full     bool   `help:"Show every line that was added."`
	JSON     bool   `name:"json" help:"Print it all as JSON."`
}

// Help shows how demo is used.
func (demoCmd) Help() string {
	return "Ends with 0 only if the sources arrived at the model, which is a stub that knows nothing else.\n\n" +
		"sidenote demo \"May I work from abroad?\"\n\nsidenote demo --serve"
}

// Run sends one question through Sidenote to a stub upstream and shows what happened.
func (c *demoCmd) Run(a *app) error {
	if c.Question == "" {
		c.Question = demo.Question
	}
	stub := &demo.Stub{}
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("start stub upstream: %w", err)
	}
	server := &http.Server{Handler: stub, ReadHeaderTimeout: 10 * time.Second}
	panics.Go(a.panicked, func() { _ = server.Serve(upstream) }, nil) // ends with Close
	defer func() { _ = server.Close() }()

	e, ls, err := c.engine(a, upstream.Addr().String())
	defer ls.Close()
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	ctx, stop := context.WithCancel(a.ctx)
	defer stop()
	reports := make(firstReport, 1)
	log := io.Discard
	if c.Serve {
		log = a.stderr
	}
	out := output.New(log, e.Config.Telemetry.Log)
	defer out.Close()
	var told error // not returned by begin: the server below ends without an error when it is stopped
	parts := serving.Parts{Engine: e, Ports: ls, Output: out, Reports: reports}
	served := serving.Serve(ctx, parts, func(ctx context.Context) error {
		story, err := c.tell(ctx, e, stub, ls.Data[0].Addr().String(), reports)
		if err == nil {
			err = c.show(a, story)
		}
		if told = err; !c.Serve || err != nil {
			stop()
		}
		return nil
	})
	return errors.Join(told, served)
}

// engine wires the demo on the default ports, or, with a message, on free ones where those
// are taken.
func (c *demoCmd) engine(a *app, upstream string) (*engine.Engine, ports.Listeners, error) {
	flags := config.Flags{Upstream: "http://" + upstream, Knowledge: []string{"demo=corpus"}}
	load := func(listen, admin string) (*config.Config, error) {
		flags.Listen, flags.Admin = listen, admin
		return config.Load(config.Source{Path: "demo.yaml", Flags: flags, Read: func(string) ([]byte, error) {
			// With an encoding, so that counts are exact.
			return []byte("models: [{match: demo, encoding: o200k_base}]\nexplain: {bodies: full}"), nil
		}})
	}
	cfg, err := load("127.0.0.1:8080", "127.0.0.1:8081")
	if err != nil {
		return nil, ports.Listeners{}, err
	}
	ls, err := ports.Open(a.ctx, cfg, func(slog.Level, string) {})
	if err != nil {
		fmt.Fprintf(a.stderr, "%v; using free ports instead\n", err)
		if cfg, err = load("127.0.0.1:0", "127.0.0.1:0"); err != nil {
			return nil, ports.Listeners{}, err
		}
		if ls, err = ports.Open(a.ctx, cfg, func(slog.Level, string) {}); err != nil {
			return nil, ports.Listeners{}, err
		}
	}
	e, err := engine.New(a.ctx, cfg, engine.Options{})
	return e, ls, err
}

// firstReport keeps the first Report.
type firstReport chan report.Report

// Record keeps r unless there is one.
func (f firstReport) Record(r *report.Report) {
	select {
	case f <- *r:
	default:
	}
}

// next waits for the next Report.
func (f firstReport) next(ctx context.Context) (report.Report, error) {
	select {
	case r := <-f:
		return r, nil
	case <-ctx.Done():
		return report.Report{}, ctx.Err()
	}
}

// tell indexes the corpus, asks the question twice, and returns what happened.
func (c *demoCmd) tell(ctx context.Context, e *engine.Engine, stub *demo.Stub, address string, reports firstReport) (demo.Story, error) {
	start := time.Now()
	content, indexed, err := knowledge.FromFS(ctx, demo.Corpus(), folder.Folder{ID: "demo"}, e.Reader.Deps())
	if err != nil {
		return demo.Story{}, err
	}
	e.Bases.Swap("demo", content, indexed)
	story := demo.Story{
		Question: c.Question, Documents: content.Documents(), Chunks: content.Chunks(), Address: address, Index: time.Since(start),
	}
	if story.Original, err = json.Marshal(map[string]any{"model": "demo", "messages": []map[string]string{
		{"role": "system", "content": demo.SystemText}, {"role": "user", "content": c.Question},
	}}); err != nil {
		return demo.Story{}, err
	}
	if story.Answer, err = ask(ctx, address, story.Original); err != nil {
		return demo.Story{}, err
	}
	story.Rewritten = stub.LastRequest()
	first, err := reports.next(ctx)
	if err != nil {
		return demo.Story{}, err
	}
	story.Ledger = first.Rewrite.Ledger.Whole()
	story.Search, story.Fit, story.Edit = first.Rewrite.RetrieveTook, first.Rewrite.FitTook, first.Rewrite.EditTook
	if _, err = ask(ctx, address, story.Original); err != nil {
		return demo.Story{}, err
	}
	second, err := reports.next(ctx)
	story.Again, story.Cached = second.Rewrite.RetrieveTook, second.Rewrite.Retrieval.Cache == "hit"
	return story, err
}

// ask sends a chat request and returns the answer's text.
func ask(ctx context.Context, address string, body []byte) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Choices) == 0 {
		return "", fmt.Errorf("ask: answer %s: %w", resp.Status, errors.Join(err, errors.New("no choices")))
	}
	return answer.Choices[0].Message.Content, nil
}

func (c *demoCmd) show(a *app, story demo.Story) error {
	if c.JSON {
		text, err := story.JSON()
		if err != nil {
			return fmt.Errorf("print story: %w", err)
		}
		fmt.Fprintf(a.stdout, "%s\n", text)
	} else {
		noColor, _ := a.env("NO_COLOR")
		fmt.Fprint(a.stdout, demo.Render(story, demo.Look{Full: c.Full, Color: noColor == "" && console.IsTerminal(a.stdout)}))
	}
	if !story.Arrived() {
		return errors.New("no sources arrived at the model")
	}
	return nil
}
