package retrieval_test

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval"
)

// A lent is an engine that puts what it finds into the memory that it is lent.
type lent struct {
	found retrieval.Func
	mu    *sync.Mutex
	rooms *[][]retrieval.Source // that it was lent
}

func (l lent) note(room []retrieval.Source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*l.rooms = append(*l.rooms, room)
}

func (l lent) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	l.note(nil)
	return l.found(ctx, q)
}

func (l lent) RetrieveInto(ctx context.Context, q retrieval.Query, room []retrieval.Source) (retrieval.Result, error) {
	res, err := l.found(ctx, q)
	res.Sources = append(room[:0], res.Sources...)
	l.note(room)
	return res, err
}

// Memory is lent to an engine that is asked in the caller's goroutine, and is empty whenever it
// is lent. Nothing of a result changes when the next search uses it.
func TestRoomIsLent(t *testing.T) {
	var rooms [][]retrieval.Source
	var mu sync.Mutex // searches of two bases run side by side
	n := 0
	p := &retrieval.Pipeline{Terms: words, Punctual: true, Bases: func(string) retrieval.Retriever {
		return lent{mu: &mu, rooms: &rooms, found: func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, src := range rooms {
				if len(src) > 0 || cap(src) > 0 && src[:1][0] != (retrieval.Source{}) {
					t.Errorf("lent memory holds %+v", src[:1][0])
				}
			}
			n++
			texts := []string{"one two three", "four five six", "seven eight nine"}
			return has(0, chunk("a.md", n, 3, texts[n%3]), chunk("b.md", n, 2, texts[(n+1)%3]))(ctx, q)
		}}
	}}
	var first, copied retrieval.Result
	for i := range 5 {
		res, err := p.Retrieve(t.Context(), asking("hr"))
		if err != nil || len(res.Sources) != 2 {
			t.Fatalf("%+v, %v", res, err)
		}
		if i == 0 {
			first, copied = res, res
			copied.Sources = append([]retrieval.Source(nil), res.Sources...)
		}
		if cap(rooms[i]) < asking("hr").Settings.NumCandidates {
			t.Fatalf("search %d was lent memory for %d candidates", i, cap(rooms[i]))
		}
	}
	if diff := cmp.Diff(copied, first); diff != "" {
		t.Errorf("the first result has changed (-was +is):\n%s", diff)
	}

	rooms = nil
	if _, err := p.Retrieve(t.Context(), asking("hr", "it")); err != nil {
		t.Fatal(err)
	}
	for _, room := range rooms {
		if room != nil {
			t.Error("memory is lent to goroutines")
		}
	}
}
