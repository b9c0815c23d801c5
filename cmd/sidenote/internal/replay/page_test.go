package replay_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"golang.org/x/net/html"

	"sidenote/cmd/sidenote/internal/replay"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// hostile is a text that tries to leave its place in a page.
const hostile = `</style></bdi></title><script>alert(1)</script><img src=http://evil.example onerror=alert(1)>" onload="alert(1)` + "\u202e\u2066\x00"

// reportOf returns a report with everything that a page can show.
func reportOf(t *testing.T) *replay.Report {
	t.Helper()
	text := func(from, to int) (block string) {
		for i := from; i < to; i++ {
			block += fmt.Sprintf("Line %d says that leave takes %d weeks, as the handbook has it.\n", i, i)
		}
		return block
	}
	tally := replay.NewTally(replay.KeepAll)
	at := time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC)
	usd := 0.0031
	tally.Add(&replay.Outcome{
		ID: "01K", Time: at, Tenant: "acme", Question: "How long is parental leave?", Earlier: []string{"Hello", hostile}, Change: 0.61,
		Sources: []replay.Source{
			{Knowledge: "kb", Doc: "leave.md", Chunk: 1, Change: "moved", Before: 2, Now: 1}, {Knowledge: "kb", Doc: "law.md", Change: "added", Now: 2},
			{Knowledge: "kb", Doc: "pay.md", Change: "removed", Before: 1}, {Knowledge: "old", Doc: "x.md", Change: "not_searched", Before: 3},
		},
		Before: replay.Side{Policy: "default", Model: "gpt-4o", Outcome: rewrite.Injected, Sources: 3, Tokens: 700, CostUSD: &usd, Retrieval: 3.2, Block: text(0, 12) + "An old line.\n" + text(12, 14)},
		Now:    replay.Side{Policy: "careful", Model: "gpt-4o", Outcome: rewrite.Injected, Sources: 2, Tokens: 500, CostUSD: &usd, Retrieval: 1.1, Block: text(0, 12) + "A new line.\n" + strings.Repeat("word", 400) + "\n" + text(12, 14)},
	})
	tally.Add(&replay.Outcome{
		ID: hostile, Time: at, Tenant: hostile, Question: hostile, Change: 1, Sources: []replay.Source{{Knowledge: hostile, Doc: hostile, Name: hostile, Change: "removed", Before: 1}},
		Before: replay.Side{Policy: hostile, Model: hostile, Outcome: rewrite.Injected, Sources: 1, Block: hostile + "\n" + hostile},
		Now:    replay.Side{Policy: hostile, Model: hostile, Outcome: rewrite.Untouched, Reason: rewrite.Reason(retrieval.ReasonNoMatch)},
	})
	tally.Add(&replay.Outcome{ID: "4", Time: at, Tenant: "acme", Change: .1, Sources: []replay.Source{{Knowledge: "kb", Doc: "a.md", Change: "added", Now: 1}}})
	for _, cause := range []string{replay.CauseTenant, hostile} {
		tally.Add(&replay.Outcome{ID: "2", Time: at, Skipped: &replay.Cause{Code: cause, Names: []string{hostile}}})
	}
	tally.Add(&replay.Outcome{ID: "3", Time: at, Incomparable: &replay.Cause{Code: replay.CauseRepeat}})
	r := tally.Report()
	r.Policy, r.Model = hostile, hostile
	r.Answers = &replay.Answers{BudgetUSD: 2, SpentUSD: 1.5, Answered: 10, Compared: 9, NotAsked: 3, Errors: []replay.Count{{Cause: "429", Records: 2}}}
	r.Bases = []replay.Base{{ID: hostile, Same: 1, Other: 2}}
	return r
}

func page(t *testing.T, r *replay.Report) string {
	t.Helper()
	var out strings.Builder
	if err := replay.WritePage(&out, r); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// No text of a record becomes markup, and the page asks for nothing.
func TestPageIsHarmless(t *testing.T) {
	text := page(t, reportOf(t))
	if strings.ContainsAny(text, "\u202e\u2066\x00") {
		t.Error("the page has invisible characters of a record")
	}
	tree, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for n := range tree.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "script" || n.Data == "img" || n.Data == "iframe" || n.Data == "form" {
			t.Errorf("there is a %s", n.Data)
		}
		for _, a := range n.Attr {
			outside := (a.Key == "href" || a.Key == "src") && !strings.HasPrefix(a.Val, "#") && a.Val != "data:,"
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || outside {
				t.Errorf("%s has %s=%q", n.Data, a.Key, a.Val)
			}
		}
	}
}

// An empty report has a page, too.
func TestEmptyPage(t *testing.T) {
	if text := page(t, replay.NewTally(1).Report()); !strings.Contains(text, "Nothing changed.") {
		t.Error(text)
	}
}

// The page can be read in light and dark, on a phone, and by keyboard.
func TestPageInBrowser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "replay.html")
	if err := os.WriteFile(path, []byte(page(t, reportOf(t))), 0o600); err != nil {
		t.Fatal(err)
	}
	audit, err := os.ReadFile("../../../../proxy/inspector/testdata/audit.js")
	if err != nil {
		t.Fatal(err)
	}
	tab, said := open(t)
	do(t, tab, chromedp.Navigate((&url.URL{Scheme: "file", Path: path}).String()))
	evaluate[int](t, tab, `[...document.querySelectorAll("details")].map((e) => e.open = true).length`)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1200, 360} {
			look(t, tab, width, scheme)
			for _, fault := range evaluate[[]string](t, tab, "("+string(audit)+")()") {
				t.Errorf("%s, %d pixels: %s", scheme, width, fault)
			}
			if dir := os.Getenv("SIDENOTE_PICTURES"); dir != "" {
				shot, err := chromedp.Run(tab, chromedp.FullScreenshot(100))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("replay-%s-%d.png", scheme, width)), shot, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	evaluate[int](t, tab, `[...document.querySelectorAll("details")].map((e) => e.open = false).length`)
	do(t, tab, chromedp.KeyEvent("\t"), chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r"))
	if opened := evaluate[string](t, tab, `[...document.querySelectorAll("details[open] h3")].map((e) => e.textContent).join()`); !strings.HasPrefix(opened, "</style>") {
		t.Errorf("the keyboard opened %q", opened)
	}
	for _, line := range said() {
		t.Error(line)
	}
}

// open opens a tab. said returns what the browser says of the page, and the addresses that it asks
// for. Without a browser the test is skipped; in CI it fails.
func open(t *testing.T) (tab context.Context, said func() []string) {
	t.Helper()
	path, err := findBrowser()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no chromium to look at the page with (deploy/test.sh installs it)")
		}
		t.Skip("no chromium to look at the page with (deploy/test.sh installs it)")
	}
	allocator, stop := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-gpu", true))...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	var mu sync.Mutex
	var lines []string
	err = chromedp.Listen(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *log.EventEntryAdded:
			lines = append(lines, e.Entry.Text)
		case *runtime.EventExceptionThrown, *runtime.EventConsoleAPICalled:
			lines = append(lines, fmt.Sprintf("%+v", e))
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, "file:") && !strings.HasPrefix(e.Request.URL, "data:") {
				lines = append(lines, "asks for "+e.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return ctx, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return lines
	}
}

func findBrowser() (path string, err error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err = exec.LookPath(name); err == nil {
			break
		}
	}
	return path, err
}

func do(t *testing.T, tab context.Context, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(tab, steps...); err != nil {
		t.Fatal(err)
	}
}

func evaluate[T any](t *testing.T, tab context.Context, script string) T {
	t.Helper()
	v, err := chromedp.Run(tab, chromedp.Evaluate[T](script))
	if err != nil {
		t.Fatalf("%.200s: %v", script, err)
	}
	return v
}

// look sets the width and the colour scheme.
func look(t *testing.T, tab context.Context, width int64, scheme string) {
	t.Helper()
	do(t, tab, chromedp.EmulateViewport(width, 900), func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return chromedp.Void{}, err
	})
}
