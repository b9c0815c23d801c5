package server

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/valyala/fasthttp"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/folder"
)

// A process is ready while its bases are being indexed, and lists them.
func TestReadyWhileIndexing(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(config.Source{Flags: config.Flags{Upstream: "http://127.0.0.1:9", Knowledge: []string{"handbook=" + t.TempDir()}}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(t.Context(), cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	watched := e.telemetry()
	if watched.Ready != nil && len(watched.Ready()) > 0 {
		t.Errorf("not ready: %v", watched.Ready())
	}
	if lines := watched.Trouble(); len(lines) != 1 || lines[0] != "knowledge handbook: indexing" {
		t.Errorf("trouble %q", lines)
	}
}

// A process that is still reading one of several bases is ready, reports the progress, and answers
// from the others with a partial result.
func TestReadyWhileOneOfSeveralIsRead(t *testing.T) {
	root := t.TempDir()
	for _, id := range []string{"a", "b"} {
		write(t, filepath.Join(root, id, "leave.md"), "# Leave\n\nParental leave is paid.\n")
	}
	e, _ := engineOf(t, fmt.Sprintf("upstream: http://127.0.0.1:9\nstate: {path: %q}\nknowledge: {a: %q, b: %q}\n",
		t.TempDir(), filepath.Join(root, "a"), filepath.Join(root, "b")))
	if err := e.Bases.state.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Bases.indexOne(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	readyz := func() (status int, body string) {
		var ctx fasthttp.RequestCtx
		ctx.Request.SetRequestURI("http://127.0.0.1/readyz")
		e.telemetry().Handle(&ctx)
		return ctx.Response.StatusCode(), string(ctx.Response.Body())
	}
	slow := e.Bases.made.Load().indexers["a"]
	asked := retrieval.Query{Text: "parental leave", Bases: []retrieval.Ref{{Knowledge: "a"}, {Knowledge: "b"}}}
	done := slow.read(t.Context(), func(_ context.Context, f folder.Folder, progress func(folder.Progress)) (folder.Report, error) {
		progress(folder.Progress{Knowledge: f.ID, Done: 12, Files: 3400, Chunks: 99})
		if status, body := readyz(); status != 200 || body != `{"reasons":["knowledge a: indexing, 12 of 3,400 files read"],"status":"degraded"}` {
			t.Errorf("%d %s", status, body)
		}
		if all := Readings(e.Bases); len(all) != 1 || all[0].Progress != (folder.Progress{Knowledge: "a", Done: 12, Files: 3400, Chunks: 99}) {
			t.Errorf("readings %+v", all)
		}
		res, err := e.Rewriter.Retriever.Retrieve(t.Context(), asked)
		if err != nil || !res.Partial || res.Reason != retrieval.ReasonIndexing || len(res.Sources) != 1 || res.Sources[0].Knowledge != "b" {
			t.Errorf("%+v, %v", res, err)
		}
		return slow.library.Sync(t.Context(), f, progress)
	})
	if done.err != nil {
		t.Fatal(done.err)
	}
	if status, body := readyz(); status != 200 || body != `{"status":"ready"}` || len(Readings(e.Bases)) != 0 {
		t.Errorf("%d %s, readings %v", status, body, Readings(e.Bases))
	}
	res, err := e.Rewriter.Retriever.Retrieve(t.Context(), asked)
	if err != nil || res.Partial || len(res.Sources) == 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

// A follower reports which bases are being opened, and which are missing in the state folder or
// configured differently. A process waiting for the folder's lock is a follower too.
func TestFollowerSaysWhatIsBeingOpened(t *testing.T) {
	state, docs, other := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{docs, other} {
		write(t, filepath.Join(dir, "leave.md"), "# Leave\n\nParental leave is paid.\n")
	}
	const yaml = "upstream: http://127.0.0.1:9\nstate: {path: %q%s}\nknowledge: {a: %q, b: %q, %s: {engine: embedded}}\n"
	writer, _ := engineOf(t, fmt.Sprintf(yaml, state, "", docs, docs, "kept"))
	if err := writer.Bases.Index(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	const locked = "is not in the state folder as it is configured here, and is read when this process writes it"
	for more, want := range map[string]struct{ opening, opened string }{
		", follow: true": {
			`"knowledge a: is being opened","knowledge b: is being opened","knowledge kept: is being opened","knowledge more: is not in the state folder yet"`,
			`"knowledge more: is not in the state folder yet"`,
		},
		"": { // the folder is locked
			`"knowledge a: is being opened","knowledge b: ` + locked + `","knowledge kept: is being opened","knowledge more: is not in the state folder yet"`,
			`"knowledge b: ` + locked + `","knowledge more: is not in the state folder yet"`,
		},
	} {
		follower, _ := engineOf(t, fmt.Sprintf(yaml, state, more, docs, other, "kept: {engine: embedded}, more"))
		readyz := func() string {
			var ctx fasthttp.RequestCtx
			ctx.Request.SetRequestURI("http://127.0.0.1/readyz")
			follower.telemetry().Handle(&ctx)
			return string(ctx.Response.Body())
		}
		if got := readyz(); got != `{"reasons":[`+want.opening+`],"status":"degraded"}` {
			t.Errorf("state%s, before it was opened: %s", more, got)
		}
		if err := follower.Bases.Index(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if got := readyz(); got != `{"reasons":[`+want.opened+`],"status":"degraded"}` {
			t.Errorf("state%s, opened: %s", more, got)
		}
	}
}
