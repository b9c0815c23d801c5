package vectorstore

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A lister is an API whose state never changes, and which lists its files.
type lister struct {
	total int
	list  func(after string) string // "" fails
	asked []string                  // after parameters of the requests
}

func (l *lister) answer(r *http.Request) string {
	if strings.HasSuffix(r.URL.Path, "/files") {
		after := r.URL.Query().Get("after")
		l.asked = append(l.asked, after)
		return l.list(after)
	}
	return fmt.Sprintf(`{"id":"vs","status":"completed","usage_bytes":9,"file_counts":{"completed":%d,"total":%d}}`, l.total, l.total)
}

// generation reads the state and returns the generation.
func (l *lister) generation(t *testing.T, b *Base) string {
	t.Helper()
	if err := b.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b.Ref().Generation
}

// Replacing a document by one of equal size, or changing attributes, changes the generation, so
// that cached results are not used again.
func TestChangesOfEqualSizeShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const whole = `{"data":[%s],"has_more":false,"first_id":"a"}`
		file := func(id string, created int, attributes string) string {
			return fmt.Sprintf(`{"id":%q,"object":"vector_store.file","usage_bytes":9,"created_at":%d,"status":"completed","last_error":null,"attributes":%s}`, id, created, attributes)
		}
		a, c := file("a", 1, `{"audience":"public","year":2024}`), file("c", 2, `null`)
		l := &lister{total: 2}
		b := recorded(l.answer)
		defer b.stop()
		show := func(files ...string) string {
			l.list = func(string) string { return fmt.Sprintf(whole, strings.Join(files, ",")) }
			return l.generation(t, b)
		}
		first := show(a, c)
		for what, got := range map[string]string{
			"again":               show(a, c),
			"in another order":    show(c, a),
			"written otherwise":   show(` { "attributes" : {"year": 2024, "audience": "public"},`+strings.TrimSuffix(a[1:], `,"attributes":{"audience":"public","year":2024}}`)+`}`, c),
			"after a last search": show(strings.Replace(a, `"object"`, `"last_active_at":7,"object"`, 1), c),
			"half a minute after": func() string { <-time.After(2 * window); return show(a, c) }(),
		} {
			if got != first {
				t.Errorf("%s: another generation", what)
			}
		}
		seen := map[string]string{first: "as at first"}
		for what, got := range map[string]string{
			"exchanged":             show(file("d", 3, `{"audience":"public","year":2024}`), c),
			"exchanged in place":    show(file("a", 3, `{"audience":"public","year":2024}`), c),
			"an attribute":          show(file("a", 1, `{"audience":"staff","year":2024}`), c),
			"its type":              show(file("a", 1, `{"audience":"public","year":"2024"}`), c),
			"a new one":             show(file("a", 1, `{"audience":"public","year":2024,"x":true}`), c),
			"of another":            show(a, file("c", 2, `{"audience":"public"}`)),
			"moved":                 show(file("a", 1, `null`), file("c", 2, `{"audience":"public","year":2024}`)),
			"a number beyond 2^53":  show(file("a", 1, `{"n":9007199254740993}`), c),
			"and the one before it": show(file("a", 1, `{"n":9007199254740992}`), c),
		} {
			if other, twice := seen[got]; twice {
				t.Errorf("%s: the generation is that of %s", what, other)
			}
			seen[got] = what
		}
	})
}

// All pages of the list are read.
func TestListIsReadToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := map[string]string{
			"":  `{"data":[{"id":"a"},{"id":"b"}],"has_more":true}`,
			"b": `{"data":[{"id":"c"},{"id":"d"}],"has_more":true}`,
			"d": `{"data":[{"id":"e","attributes":{"x":1}}],"has_more":false}`,
		}
		l := &lister{total: 5, list: func(after string) string { return pages[after] }}
		b := recorded(l.answer)
		defer b.stop()
		first := l.generation(t, b)
		if got := fmt.Sprint(l.asked); got != "[ b d]" {
			t.Errorf("asked after %s", got)
		}
		<-time.After(window)
		if b.Ref().Generation != first {
			t.Error("what is all told ages")
		}
		pages["d"] = strings.Replace(pages["d"], `"x":1`, `"x":2`, 1)
		if l.generation(t, b) == first {
			t.Error("a change on the last page does not show")
		}
	})
}

// For a store that does not list all of its files, cached results expire within half a minute;
// changes that it does report take effect at once.
func TestWhatIsNotListedAges(t *testing.T) {
	f := func(what string, total, most int, list func(string) string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			l := &lister{total: total, list: list}
			b := recorded(l.answer)
			defer b.stop()
			<-time.After(window - time.Duration(time.Now().UnixNano())%window) // wait for the beginning of a window
			first := l.generation(t, b)
			if len(l.asked) > most {
				t.Errorf("%s: %d pages were asked for", what, len(l.asked))
			}
			<-time.After(window - time.Nanosecond)
			if b.Ref().Generation != first || l.generation(t, b) != first {
				t.Errorf("%s: changed within a window", what)
			}
			l.total++
			if l.generation(t, b) == first {
				t.Errorf("%s: a file more does not show", what)
			}
			l.total--
			<-time.After(time.Nanosecond)
			if b.Ref().Generation == first || l.generation(t, b) == first {
				t.Errorf("%s: the same in the next window", what)
			}
		})
	}
	f("no list", 3, 1, func(string) string { return "" })
	f("something else", 3, 1, func(string) string { return `{"id":"vs"}` })
	f("no ids", 3, 1, func(string) string { return `{"data":[{"object":"file"}]}` })
	f("the same page for ever", 3, 2, func(string) string { return `{"data":[{"id":"a"}],"has_more":true}` })
	f("an empty page for ever", 3, 1, func(string) string { return `{"data":[],"has_more":true}` })
	f("very many files", maxFiles+1, 0, func(string) string { return `{"data":[],"has_more":false}` })
	n := 0
	f("more than it said", 3, 11, func(string) string {
		var page []string
		for range filesOfPage {
			n++
			page = append(page, fmt.Sprintf(`{"id":"f%d"}`, n))
		}
		return `{"data":[` + strings.Join(page, ",") + `],"has_more":true}`
	})
}
