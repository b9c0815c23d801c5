package inspector_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// bad is a page with a fault of each kind.
const bad = `<!DOCTYPE html><title></title><style>
.pale { color: #999 } .small { font-size: 9px } .wide { width: 2000px } .field { border: 1px solid #eee } .dim { background: rgba(0,0,0,.5) }
</style>
<body><h1>One</h1><h3>Three</h3><h1></h1><nav>nav</nav><input class=field><a href="/x"></a><p tabindex=3 id=a>tab</p><p id=a class=pale>pale</p><p class=small>small</p>
<table><thead><tr><th>x<tbody><tr><td>1<td>2</table><img src="http://evil.example/x.png"><svg></svg><p style="color:red" onclick="x()">own</p><p class=wide>wide</p><p class=dim>dim</p>
<script>console.error("oh"); undefined.x</script></body>`

// check finds the faults that it looks for, and so do the console and network listeners.
func TestAudit(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, bad)
	}))
	defer s.Close()
	tb := openTab(t, s.URL)
	tb.open("/")
	tb.look(360, "light")
	found := eval[[]string](tb, "("+audit+")()")
	for _, want := range []string{
		"the page has no language", "the page has no title", "the page has 2 h1", "a heading skips a level", "a heading is empty", "there is not one header", "there is not one main",
		"a nav has no label", "there is no link to the content", "an id stands twice", "a field has no label", "a link or button has no name", "a tabindex changes the order",
		"a table has no caption", "a th has no scope", "a row has other cells than the head", "a picture has no text", "a drawing has no text", "an element has a style of its own",
		"an element has a script of its own", "there is a script within the page", "the page is ", "a contrast is 2.8", "a text has 9 pixels", "a field cannot be told from the page", "a background is half transparent",
	} {
		if !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, want) }) {
			t.Errorf("not found: %s", want)
		}
	}
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if said := strings.Join(tb.errors, "\n"); !strings.Contains(said, "error: ") || !strings.Contains(said, "TypeError") {
		t.Errorf("the console: %s", said)
	}
	if !slices.Equal(tb.foreign, []string{"http://evil.example/x.png"}) {
		t.Errorf("other hosts: %q", tb.foreign)
	}
	tb.errors, tb.foreign, tb.allowed = nil, nil, []string{"evil.example"}
}
