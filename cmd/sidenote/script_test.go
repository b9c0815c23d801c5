package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sidenote/cmd/sidenote/internal/demo"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval/knowledge/extract/extracttest"
	"sidenote/retrieval/knowledge/extract/pdf"
	"sidenote/retrieval/knowledge/store"
)

// The scripts of testdata/script run the program as a user would.
func TestScripts(t *testing.T) {
	path := releasedPath(t)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			stub := httptest.NewServer(&demo.Stub{})
			e.Defer(stub.Close)
			e.Setenv("HOME", e.WorkDir) // the state of each script is its own
			healthy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/healthz" {
					http.Error(w, "indexing", http.StatusServiceUnavailable)
				}
			}))
			e.Defer(healthy.Close)
			for _, name := range []string{"DATA", "ADMIN", "TELEMETRY"} {
				address, err := freeAddress()
				if err != nil {
					return err
				}
				e.Setenv(name, address)
			}
			e.Setenv("GORACE", "atexit_sleep_ms=0") // or each process of a test with -race ends a second late
			e.Setenv("PATH", path)
			e.Setenv("STUB", stub.URL)
			e.Setenv("HEALTHY", healthy.URL)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "ready": ready, "digest": digest, "post": post, "garble": garble, "documents": documents, "id": id, "plays": plays},
	})
}

// freeAddress returns an address on which nothing listens at the moment. Its port is outside the
// range that systems give to connections, which could take it before the test listens on it.
func freeAddress() (string, error) {
	var err error
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		if _, again := handedOut.LoadOrStore(address, true); again {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", err
}

// handedOut has the addresses that freeAddress has returned.
var handedOut sync.Map

// exits CODE PROGRAM ARGS… runs a program and compares its exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = fmt.Sprint(exit.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// ready ADDRESS waits until /readyz of an address answers 200 and all folders have been read, which
// is reported after their documents can be found.
func ready(ts *testscript.TestScript, _ bool, args []string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-tick.C {
		resp, err := http.Get("http://" + args[0] + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK && foldersRead(args[0]) {
				return
			}
		}
	}
	ts.Fatalf("%s does not get ready", args[0])
}

// foldersRead reports whether each base that has a folder was read; if the address does not report
// it, there is nothing to wait for.
func foldersRead(address string) bool {
	resp, err := http.Get("http://" + address + "/v1/knowledge")
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	var list struct{ Data []explain.Base }
	if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&list) != nil {
		return true
	}
	return !slices.ContainsFunc(list.Data, func(b explain.Base) bool { return b.Ingest != nil && b.Ingest.Runs == 0 })
}

// post URL FILE [LINE…] sends a request with header lines; the answer goes to the file "answer",
// head first.
func post(ts *testscript.TestScript, _ bool, args []string) {
	req, err := http.NewRequest(http.MethodPost, args[0], strings.NewReader(ts.ReadFile(args[1])))
	ts.Check(err)
	req.Header.Set("Content-Type", "application/json")
	for _, line := range args[2:] {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer func() { _ = resp.Body.Close() }()
	f, err := os.Create(ts.MkAbs("answer"))
	ts.Check(err)
	ts.Check(resp.Write(f))
	ts.Check(f.Close())
}

// id sets the variable ID to the Sidenote-Id of the last answer.
func id(ts *testscript.TestScript, _ bool, _ []string) {
	_, rest, _ := strings.Cut(ts.ReadFile("answer"), report.HeaderID+": ")
	id, _, _ := strings.Cut(rest, "\r\n")
	ts.Setenv("ID", id)
}

// plays FILE… starts an upstream that gives the answers in the files one after another, in the
// format of package looptest. Its address is in PLAYED.
func plays(ts *testscript.TestScript, _ bool, args []string) {
	d := answertest.Dialogue{Name: strings.Join(args, " ")}
	for _, name := range args {
		answer, err := answertest.ParseAnswer(ts.ReadFile(name))
		ts.Check(err)
		d.Answers = append(d.Answers, answer)
	}
	ts.Setenv("PLAYED", answertest.Start(played{ts}, d, answertest.Habits()[0]).URL+"/v1")
}

// A played makes a script an answertest.TB.
type played struct{ *testscript.TestScript }

func (p played) Helper()                           {}
func (p played) Cleanup(f func())                  { p.Defer(f) }
func (p played) Errorf(format string, args ...any) { p.Logf(format, args...) }

// garble FILE writes bytes that are not text.
func garble(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte("caf\xe9 \x00"), 0o600))
}

// documents DIR writes files that a script cannot hold: a PDF, a DOCX, a page in Latin-1, and
// damaged and hostile ones.
func documents(ts *testscript.TestScript, _ bool, args []string) {
	seedCode(ts)
	write := func(name string, data []byte) {
		ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[0]), name), data, 0o600))
	}
	write("visa.pdf", extracttest.PDF("Visas for business trips are paid for by the travel desk."))
	write("kitchen.docx", extracttest.DOCX(extracttest.Paragraph("Heading1", "Kitchen")+extracttest.Paragraph("", "Whoever empties the dishwasher first gets the quiche.")))
	write("canteen.html", []byte("<title>Canteen</title><nav>Home</nav><main><h1>Canteen</h1><p>The caf\xe9 serves cr\xeapes on Thursdays, until there are none.</p></main>"))
	write("torn.pdf", extracttest.PDF("x")[:200])
	write("loop.pdf", extracttest.PDFLoop())
	write("bomb.docx", extracttest.ZipClaim(1<<40))
	write("deep.html", []byte(strings.Repeat("<div>", 100_000)))
	write("line.txt", nil)
	ts.Check(os.Truncate(filepath.Join(ts.MkAbs(args[0]), "line.txt"), 100<<20))
}

// seedCode puts the machine code of the PDF reader into the state folder: every command would
// compile it again.
func seedCode(ts *testscript.TestScript) {
	_, err := pdf.New(extracttest.CodeCache()).Read(context.Background(), extracttest.PDF("compile"))
	ts.Check(err)
	state := filepath.Join(ts.Getenv("HOME"), ".local", "state", "sidenote")
	code := store.CodeFolder(state)
	ts.Check(os.MkdirAll(state, 0o700))
	ts.Check(os.CopyFS(code, os.DirFS(extracttest.CodeCache())))
	ts.Check(os.Chmod(code, 0o700)) //nolint:gosec // a folder
}

// digest checks that the last output has a key and its digest.
func digest(ts *testscript.TestScript, _ bool, _ []string) {
	out := ts.ReadFile("stdout")
	_, rest, _ := strings.Cut(out, tenant.KeyPrefix)
	rest, _, _ = strings.Cut(rest, "\n")
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(tenant.KeyPrefix+rest))); len(rest) != 43 || !strings.Contains(out, sum) {
		ts.Fatalf("no key with its digest in %q", out)
	}
}

// A process that is asked to stop exits cleanly.
func TestRunStops(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs strings.Builder
	env := func(string) (string, bool) { return "", false }
	if code := Run(cancelled, []string{"serve", "--upstream", "http://127.0.0.1:9", "--listen", "127.0.0.1:0", "--admin", "off"}, strings.NewReader(""), &out, &errs, env); code != exitDone {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}
