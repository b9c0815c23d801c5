package rewrite_test

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// A keptBase finds sources and holds the chunks of their document, in sections.
type keptBase struct {
	retrieval.Func
	sections []string // section of each chunk; the text of chunk 7 is "chunk7."
	err      error
	read     int // chunks read so far
}

func (k *keptBase) Locate(_ context.Context, q retrieval.Query, hits []*retrieval.Source) (retrieval.Texts, error) {
	if len(q.Bases) != 1 || q.Bases[0].Generation != "searched" {
		return nil, retrieval.ErrGone
	}
	if n := hits[0].Chunk; n >= len(k.sections) {
		return nil, retrieval.ErrNoHit
	}
	return k, k.err
}

func (k *keptBase) Mark([]retrieval.Hit) error { panic("nothing is compared") }

func (k *keptBase) Sketch(*retrieval.Hit) (retrieval.Sketch, error) { panic("nothing is compared") }

func (k *keptBase) Label([]*retrieval.Hit, func(retrieval.Label)) error { panic("nothing fell") }

func (k *keptBase) Read(sources []*retrieval.Source) error {
	for _, s := range sources {
		k.read++
		s.Text, s.Section = fmt.Sprintf("chunk%d.", s.Chunk), k.sections[s.Chunk]
	}
	return nil
}

// base returns a base whose document has sections of the given numbers of chunks.
func base(found []int, sections ...int) *keptBase {
	k := &keptBase{}
	for i, n := range sections {
		for range n {
			k.sections = append(k.sections, fmt.Sprint("part", i))
		}
	}
	res := retrieval.Result{Bases: []retrieval.Ref{{Knowledge: "handbook", Generation: "searched"}}}
	for _, n := range found {
		s := handbook("a.md", n, fmt.Sprintf("chunk%d.", n))
		s.Section, s.Before, s.After, s.At = k.sections[n], "not asked for.", "not asked for.", retrieval.Place{Kept: true, Text: n}
		res.Sources = append(res.Sources, s)
	}
	k.Func = func(context.Context, retrieval.Query) (retrieval.Result, error) { return res, nil }
	return k
}

// section returns the chunks in the prompt, in order, with a bar between sources, and the ledger.
func section(t *testing.T, k *keptBase, p rewrite.Policy, system string) (in string, l rewrite.Ledger) {
	t.Helper()
	body := []byte(fmt.Sprintf(`{"messages":[{"role":"system","content":%q},{"role":"user","content":"How long?"}]}`, system))
	req, err := chat.Completions.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	rw := &rewrite.Rewriter{Retriever: k, Models: models{model.Model{Counter: words{}}}}
	res := rw.Rewritten(t.Context(), p, req, rewrite.Options{})
	_, block, _ := strings.Cut(string(rewrite.ApplyEdits(nil, body, res.Edits)), "<sources>")
	for _, m := range regexp.MustCompile(`chunk(\d+)\.|</source>`).FindAllStringSubmatch(block, -1) {
		in += " " + cmp.Or(m[1], "|")
	}
	return in, res.Ledger
}

// Chunks of the section are added without gaps: one on each side of each source per round, up to
// four, until the section ends or another source begins. A chunk that the messages contain ends
// it, too.
func TestNeighboursOfTheSection(t *testing.T) {
	p := testPolicy(t, nil)
	p.Neighbours = rewrite.NeighboursSection
	for name, c := range map[string]struct {
		base   *keptBase
		system string
		want   string
	}{
		"the section ends":          {base([]int{4}, 3, 4, 3), "You are HR.", " 3 4 5 6 |"},
		"four on each side":         {base([]int{7}, 20), "You are HR.", " 3 4 5 6 7 8 9 10 11 |"},
		"the document ends":         {base([]int{1}, 3), "You are HR.", " 0 1 2 |"},
		"another source":            {base([]int{2, 4}, 7), "You are HR.", " 0 1 2 3 | 4 5 6 |"},
		"in the messages":           {base([]int{4}, 9), "As chunk6. says", " 0 1 2 3 4 5 |"},
		"other documents elsewhere": {base([]int{2}, 3, 9), "You are HR.", " 0 1 2 |"},
	} {
		got, l := section(t, c.base, p, c.system)
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		n := 0
		for _, s := range l.Sources {
			n += 1 + s.Neighbours
		}
		if n != len(strings.Fields(strings.ReplaceAll(c.want, "|", ""))) {
			t.Errorf("%s: %d chunks in the ledger", name, n)
		}
	}
	gone := base([]int{4}, 9)
	gone.err = retrieval.ErrUnavailable
	if got, l := section(t, gone, p, "You are HR."); got != " 4 |" || len(l.Sources) != 1 {
		t.Errorf("what cannot be read: %q", got)
	}
	p.Neighbours = rewrite.NeighboursOff
	if got, _ := section(t, base([]int{4}, 9), p, "You are HR."); got != " 4 |" {
		t.Errorf("off: %q", got)
	}
}

// Without room nothing is read; with a little, no more than the first chunk on each side that
// does not fit.
func TestNeighboursAreReadWhereRoomIs(t *testing.T) {
	p := testPolicy(t, nil)
	p.Neighbours = rewrite.NeighboursSection
	k := base([]int{4}, 9)
	_, l := section(t, k, p, "You are HR.")
	if k.read != 8 || l.Sources[0].Neighbours != 8 {
		t.Errorf("read %d, %+v", k.read, l.Sources[0])
	}
	least := l.Used - 8 // words of the block without its 8 neighbours of one word each
	for room, read := range map[int]int{0: 0, 1: 1, 2: 2, 5: 5} {
		k.read, p.ContextTokens = 0, least+room
		if _, l := section(t, k, p, "You are HR."); k.read != read || l.Sources[0].Neighbours != room || l.Used > p.ContextTokens {
			t.Errorf("room of %d: read %d, %+v", room, k.read, l.Sources[0])
		}
	}
}
