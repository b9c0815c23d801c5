package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"sidenote/cmd/sidenote/internal/client"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/demo"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/cmd/sidenote/internal/serving"
	"sidenote/proxy/panics"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
)

// A demoRun is a configured run of the demo.
type demoRun struct {
	Question string // "": demo.Question
	Staged   bool   // answer in stages
	Serve    bool   // keep serving
	JSON     bool
	Look     demo.Look

	Stdout, Stderr io.Writer
	Panicked       panics.Handler
}

// demoPreset is the stages preset of a staged demo.
const demoPreset = "medical"

// A told is the result of the demo.
type demoStory struct {
	id     string // of the request
	screen func(demo.Look) string
	json   func() ([]byte, error)
	wrong  error // nil: everything reached the model
}

// Run sends one question through Sidenote to a stub upstream and shows what happened.
func (d *demoRun) Run(ctx context.Context) error {
	if d.Question == "" {
		d.Question = demo.Question
	}
	stub := &demo.Stub{}
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("start stub upstream: %w", err)
	}
	server := &http.Server{Handler: stub, ReadHeaderTimeout: 10 * time.Second}
	panics.Go(d.Panicked, func() { _ = server.Serve(upstream) }, nil) // ends with Close
	defer func() { _ = server.Close() }()

	e, ls, err := d.engine(ctx, upstream.Addr().String())
	defer ls.Close()
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	log := io.Discard
	if d.Serve {
		log = d.Stderr
	}
	out := serving.NewOutput(log, e.Config.Telemetry.Log)
	defer out.Close()
	address := ls.Data[0].Addr().String()
	asker := &demoAsker{
		demoRun: d, engine: e, stub: stub, address: address,
		client: &client.Chat{
			HTTP:    &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
			BaseURL: "http://" + address + "/v1", Reports: client.NewReports(),
		},
	}
	var failed error // begin does not return it: serving ends without an error when it is stopped
	parts := serving.Parts{Engine: e, Ports: ls, Output: out, Reports: asker.client.Reports}
	served := serving.Serve(ctx, parts, func(ctx context.Context) error {
		story, err := asker.tell(ctx)
		if err == nil {
			err = d.show(story)
		}
		if address := serving.InspectorURL(ls.Admin); err == nil && d.Serve && !d.JSON && address != "" {
			fmt.Fprintf(d.Stdout, "What the model was shown:  %srequests/%s\nAll requests from now on:  %[1]s\n", address, story.id)
		}
		if failed = err; !d.Serve || err != nil {
			stop()
		}
		return nil
	})
	return errors.Join(failed, served)
}

// engine wires the demo on the default ports or, if they are in use, on free ones with a message.
func (d *demoRun) engine(ctx context.Context, upstream string) (*server.Engine, serving.Listeners, error) {
	flags := config.Flags{Upstream: "http://" + upstream, Knowledge: []string{"demo=corpus"}}
	load := func(listen, admin string) (*config.Config, error) {
		flags.Listen, flags.Admin = listen, admin
		return config.Load(config.Source{Path: "demo.yaml", Flags: flags, Read: func(string) ([]byte, error) {
			// With an encoding, so that counts are exact.
			text := "models: [{match: demo, encoding: o200k_base}]\nexplain: {bodies: full}\n"
			if d.Staged {
				text += "policies: {default: {mode: staged, stages: " + demoPreset + "}}\n"
			}
			return []byte(text), nil
		}})
	}
	cfg, err := load("127.0.0.1:8080", "127.0.0.1:8081")
	if err != nil {
		return nil, serving.Listeners{}, err
	}
	ls, err := serving.OpenPorts(ctx, cfg, func(slog.Level, string) {})
	if err != nil {
		fmt.Fprintf(d.Stderr, "%v; using free ports instead\n", err)
		if cfg, err = load("127.0.0.1:0", "127.0.0.1:0"); err != nil {
			return nil, serving.Listeners{}, err
		}
		if ls, err = serving.OpenPorts(ctx, cfg, func(slog.Level, string) {}); err != nil {
			return nil, serving.Listeners{}, err
		}
	}
	e, err := server.New(ctx, cfg, server.Options{})
	return e, ls, err
}

func (d *demoRun) show(story demoStory) error {
	if d.JSON {
		text, err := story.json()
		if err != nil {
			return fmt.Errorf("print story: %w", err)
		}
		fmt.Fprintf(d.Stdout, "%s\n", text)
	} else {
		fmt.Fprint(d.Stdout, story.screen(d.Look))
	}
	return story.wrong
}

// An asker asks the question of the demo.
type demoAsker struct {
	*demoRun
	engine  *server.Engine
	stub    *demo.Stub
	address string // where apps would send requests
	client  *client.Chat
}

// tell indexes the corpus and asks the question.
func (a *demoAsker) tell(ctx context.Context) (demoStory, error) {
	start := time.Now()
	content, indexed, err := knowledge.FromFS(ctx, demo.Corpus(), folder.Folder{ID: "demo"}, a.engine.Reader.Deps())
	if err != nil {
		return demoStory{}, err
	}
	a.engine.Bases.Swap("demo", content, indexed)
	took := time.Since(start)
	body, err := json.Marshal(map[string]any{"model": "demo", "messages": []map[string]string{
		{"role": "system", "content": demo.SystemText}, {"role": "user", "content": a.Question},
	}})
	if err != nil {
		return demoStory{}, err
	}
	answer, err := a.client.Ask(ctx, body, client.Follow{})
	if err != nil {
		return demoStory{}, err
	}
	if a.Staged {
		story := a.staged(&answer)
		story.Documents, story.Chunks, story.Index, story.Original = content.Documents(), content.Chunks(), took, body
		return demoStory{answer.Report.ID, func(look demo.Look) string { return demo.RenderStaged(story, look) }, story.JSON, story.Check()}, nil
	}
	rewritten := a.stub.LastRequest()
	again, err := a.client.Ask(ctx, body, client.Follow{})
	if err != nil {
		return demoStory{}, err
	}
	first, second := &answer.Report.Rewrite, &again.Report.Rewrite
	story := demo.Story{
		Question: a.Question, Documents: content.Documents(), Chunks: content.Chunks(), Address: a.address, Index: took,
		Original: body, Rewritten: rewritten, Answer: answer.Text, Ledger: first.Ledger.WithExcluded(),
		Search: first.RetrieveTook, Fit: first.FitTook, Edit: first.EditTook,
		Again: second.RetrieveTook, Cached: second.Retrieval.Cache == "hit",
	}
	var wrong error
	if !story.Arrived() {
		wrong = errors.New("no sources arrived at the model")
	}
	return demoStory{answer.Report.ID, func(look demo.Look) string { return demo.Render(story, look) }, story.JSON, wrong}, nil
}

// staged returns the story of an answer in stages, as the stub saw it.
func (a *demoAsker) staged(answer *client.Answer) *demo.StagedStory {
	story := &demo.StagedStory{
		Question: a.Question, Preset: demoPreset, Address: a.address, Sources: answer.Sources(), Cited: client.Cited(answer.Text),
		Answer: answer.Text, ID: answer.ID, Finish: answer.Finish, Status: answer.Result("").Status, Took: answer.Took,
	}
	stages := answer.Report.Stages
	if stages == nil {
		return story
	}
	story.Of = stages.Total
	seen := a.stub.Exchanges()
	for i, s := range stages.Called {
		stage := demo.StageStory{Name: s.Name, At: s.At, Outcome: string(s.Outcome), Sent: s.Request, Took: s.Took}
		if i < len(seen) {
			stage.Exchange = seen[i]
		}
		story.Stages = append(story.Stages, stage)
	}
	return story
}
