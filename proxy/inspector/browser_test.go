package inspector_test

import (
	"context"
	_ "embed"
	"fmt"
	"net/url"
	"os"
	"os/exec"
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
)

// browser is the browser shared by all tests; the first test that needs it starts it.
var browser = struct {
	start func() (context.Context, error)
	stop  func()
}{stop: func() {}}

func TestMain(m *testing.M) {
	browser.start = sync.OnceValues(func() (context.Context, error) {
		path, err := findBrowser()
		if err != nil {
			return nil, err
		}
		// A browser that runs as root has no sandbox; these pages come from this process, and no
		// other host can be resolved.
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-gpu", true),
			chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
			chromedp.Flag("renderer-process-limit", "1")) // starting a process takes longer than most pages
		allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, _ := chromedp.NewContext(allocator)
		browser.stop = func() {
			_ = chromedp.Cancel(ctx)
			stop()
		}
		return ctx, chromedp.Do(ctx)
	})
	code := m.Run()
	browser.stop()
	os.Exit(code)
}

func findBrowser() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

// A tab is a browser tab. Errors in it fail the test.
type tab struct {
	context.Context
	t    *testing.T
	base string // URL of the pages

	mu      sync.Mutex
	errors  []string // of the console
	foreign []string // requested addresses of other hosts
	allowed []string // parts of expected errors
}

// openTab opens a tab for the pages at base. Without a browser the test is skipped; in CI it
// fails.
func openTab(t *testing.T, base string) *tab {
	t.Helper()
	parent, err := browser.start()
	if err != nil {
		missing := "no chromium to look at the pages with (deploy/test.sh installs it): " + err.Error()
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	ctx, cancel := chromedp.NewContext(parent)
	tb := &tab{t: t, base: base}
	if err := chromedp.Listen(ctx, tb.hear); err != nil {
		t.Fatal(err)
	}
	limited, stop := context.WithTimeout(ctx, time.Minute)
	tb.Context = limited
	t.Cleanup(func() {
		stop()
		cancel()
		tb.mu.Lock()
		defer tb.mu.Unlock()
		for _, e := range tb.errors {
			t.Errorf("the console says %s", e)
		}
		for _, address := range tb.foreign {
			t.Errorf("another host was asked for %s", address)
		}
	})
	return tb
}

// hear records events that pages must not cause.
func (tb *tab) hear(event any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		tb.note(fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *runtime.EventExceptionThrown:
		tb.note((&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
	case *runtime.EventConsoleAPICalled:
		tb.note(fmt.Sprintf("%s: %v", e.Type, e.Args))
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme != "data" && u.Scheme+"://"+u.Host != tb.base {
			tb.foreign = append(tb.foreign, e.Request.URL)
		}
	}
}

func (tb *tab) note(text string) {
	for _, part := range tb.allowed {
		if strings.Contains(text, part) {
			return
		}
	}
	tb.errors = append(tb.errors, text)
}

// allow permits console messages that contain part.
func (tb *tab) allow(part string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.allowed = append(tb.allowed, part)
}

// do runs browser actions. One whose node the page replaced before it began is run again.
func (tb *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	for _, step := range steps {
		err := chromedp.Do(tb, step)
		for err != nil && tb.Err() == nil && strings.Contains(err.Error(), "Could not find node with given id") {
			err = chromedp.Do(tb, step)
		}
		if err != nil {
			tb.t.Fatal(err)
		}
	}
}

// open opens one of our pages.
func (tb *tab) open(path string) {
	tb.t.Helper()
	tb.do(chromedp.Navigate(tb.base + path))
}

// look sets the width and the colour scheme.
func (tb *tab) look(width int64, scheme string) {
	tb.t.Helper()
	tb.do(chromedp.EmulateViewport(width, 900), func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return chromedp.Void{}, err
	})
}

// eval returns the value of a script.
func eval[T any](tb *tab, script string) T {
	tb.t.Helper()
	v, err := chromedp.Run(tb, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		tb.t.Fatalf("%.200s: %v", script, err)
	}
	return v
}

// until waits until a condition is true; it is checked when the page changes.
func (tb *tab) until(condition string) {
	tb.t.Helper()
	eval[bool](tb, `new Promise((resolve) => {
		const check = () => { if (`+condition+`) { observer.disconnect(); resolve(true); } };
		const observer = new MutationObserver(check);
		observer.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
		check();
	})`)
}

//go:embed testdata/audit.js
var audit string

// check looks for faults of the open page: missing support for screen readers and keyboards,
// contrast in light and dark, and its width on a phone.
func (tb *tab) check() {
	tb.t.Helper()
	// After a form was sent, the page may still wait for its styles.
	eval[bool](tb, `new Promise((resolve) => document.readyState === "complete" ? resolve(true) : addEventListener("load", () => resolve(true)))`)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1200, 360} {
			tb.look(width, scheme)
			for _, fault := range eval[[]string](tb, "("+audit+")()") {
				tb.t.Errorf("%s, %d pixels: %s", scheme, width, fault)
			}
		}
	}
	tb.look(1200, "light")
	tb.checkFocus()
}

// focusable selects the elements that the keyboard reaches, in page order.
const focusable = `[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
	.filter((e) => !e.disabled && e.checkVisibility({visibilityProperty: true}))`

// checkFocus tabs through the page: every element is reached in page order, with a visible focus.
func (tb *tab) checkFocus() {
	tb.t.Helper()
	// Parts that are made anew meanwhile may have other elements.
	eval[bool](tb, `(() => { for (let i = setTimeout(() => {}); i > 0; i--) clearTimeout(i); window.setTimeout = () => 0; window.fetch = () => new Promise(() => {}); return true; })()`)
	n := eval[int](tb, `(`+focusable+`).length`)
	if first := eval[string](tb, `(() => { const e = (`+focusable+`)[0]; e.focus({focusVisible: true}); return e.className })()`); first != "skip" {
		tb.t.Errorf("the first that the keyboard reaches is no link to the content: %q", first)
	}
	for i := range n {
		if i > 0 {
			tb.do(chromedp.KeyEvent("\t"))
		}
		at := eval[struct {
			Index   int  `json:"index"`
			Visible bool `json:"visible"`
		}](tb, `(() => { const s = getComputedStyle(document.activeElement); const r = document.activeElement.getBoundingClientRect();
			return {index: (`+focusable+`).indexOf(document.activeElement),
				visible: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 && r.right > 0 && r.bottom > 0}; })()`)
		if at.Index != i {
			tb.t.Fatalf("after %d tabs the keyboard is at %d: %s", i, at.Index, eval[string](tb, `document.activeElement.outerHTML`))
		}
		if !at.Visible {
			tb.t.Errorf("nobody sees that the keyboard is at %s", eval[string](tb, `document.activeElement.outerHTML`))
		}
	}
}
