package retrieval_test

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval"
)

// A lent is an engine that records the scratch memory it is given.
type lent struct {
	found func() finder
	mu    *sync.Mutex
	rooms *[][]retrieval.Hit // scratch memory of each call
}

func (l lent) note(room []retrieval.Hit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*l.rooms = append(*l.rooms, room)
}

func (l lent) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	l.note(q.Hits)
	return l.found().Retrieve(ctx, q)
}

// An engine called in the caller's goroutine gets scratch memory, which is always empty. Results
// do not change when a later search reuses it.
func TestRoomIsLent(t *testing.T) {
	var rooms [][]retrieval.Hit
	var mu sync.Mutex // two bases are searched in parallel
	n := 0
	p := &retrieval.Pipeline{Terms: words, Punctual: true, Bases: func(id string) retrieval.Retriever {
		return lent{mu: &mu, rooms: &rooms, found: func() finder {
			mu.Lock()
			defer mu.Unlock()
			for _, room := range rooms {
				if len(room) > 0 {
					t.Errorf("lent memory holds %+v", room)
				}
			}
			n++
			texts := []string{"one two three", "four five six", "seven eight nine"}
			return finder{newLate(0, of(id, chunk("a.md", n, 3, texts[n%3])), of(id, chunk("b.md", n, 2, texts[(n+1)%3])))}
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

	used := map[*retrieval.Hit]bool{}
	for _, room := range rooms {
		used[&room[:1][0]] = true
	}
	rooms = nil
	if _, err := p.Retrieve(t.Context(), asking("hr", "it")); err != nil {
		t.Fatal(err)
	}
	for _, room := range rooms {
		if used[&room[:1][0]] {
			t.Error("a goroutine is lent memory that is used again")
		}
		used[&room[:1][0]] = true
	}
	if len(rooms) != 2 {
		t.Errorf("%d searches", len(rooms))
	}
}

// Without capacity for hits an engine returns sources, even behind other retrievers.
func TestSourcesWithoutRoom(t *testing.T) {
	engine := finder{newLate(0, of("a", chunk("x", 0, .9, "ant")), of("a", chunk("y", 0, .8, "bee")))}
	p := &retrieval.Prepare{Next: engine, Ref: catalog{"a": "1"}.Ref, HasTerms: hasWords, Join: joinShort}
	got, err := p.Retrieve(t.Context(), asking("a"))
	if err != nil || len(got.Sources) != 2 || len(got.Hits) != 0 {
		t.Errorf("%d sources, %d hits, %v", len(got.Sources), len(got.Hits), err)
	}
}
