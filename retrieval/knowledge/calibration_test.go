package knowledge_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index"
)

// A calibrated holds changing segments and their calibration.
type calibrated struct {
	segments index.Segments
	content  *knowledge.Content
	next     int
	files    int
	saved    []byte // of an earlier state
	word     func() string
	changes  int
}

// take adds a segment as if it were a file.
func (c *calibrated) take(image []byte, _ []int64) error {
	c.files++
	s, err := index.Open(fmt.Sprint("file", c.files), image, nil)
	if err == nil {
		c.segments = append(c.segments, s.Without(nil, nil))
	}
	return err
}

// add adds a segment of documents with one text each.
func (c *calibrated) add(t testing.TB, documents int) {
	t.Helper()
	w := index.Writer{Emit: c.take}
	for range documents {
		var text []string
		for range 12 {
			text = append(text, c.word())
		}
		c.next++
		d := index.Document{Row: int64(c.next), ID: fmt.Sprintf("d%07d", c.next), Attributes: "{}", Chunks: []chunk.Chunk{{Text: strings.Join(text, " ")}}}
		if err := w.Add(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

// show makes a new Content of the segments, and compares its floor with that of one that is
// measured from scratch. Only a change of documents changes the generation.
func (c *calibrated) show(t testing.TB, changed bool) {
	t.Helper()
	if changed {
		c.changes++
	}
	o := knowledge.ContentOptions{Generation: strconv.Itoa(c.changes)}
	want, err := knowledge.NewContent(context.Background(), c.segments, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, saved := range [][]byte{c.saved, c.saved[:len(c.saved)/2], bytes.ReplaceAll(c.saved, []byte(`"Text":`), []byte(`"Text":1`))} {
		o.Saved = saved
		restored, err := knowledge.NewContent(context.Background(), c.segments, o)
		if err != nil || restored.Noise() != want.Noise() {
			t.Errorf("after %d changes, from %.20q: noise %v, from nothing %v; %v", c.changes, saved, restored.Noise(), want.Noise(), err)
		}
	}
	if o.Saved, o.Before = nil, c.content; c.changes%2 == 0 {
		c.saved = want.Calibration()
	}
	if c.content, err = knowledge.NewContent(context.Background(), c.segments, o); err != nil {
		t.Fatal(err)
	}
	if got, want := c.content.Noise(), want.Noise(); got != want || want == 0 {
		t.Errorf("after %d changes of %d texts: noise %v, from nothing %v", c.changes, c.content.Chunks(), got, want)
	}
}

// The floor of a large base depends only on its documents, to the last bit, whether it is measured
// from scratch or updated after any number of changes.
func TestFloorAfterChanges(t *testing.T) {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.6, 150, 1_000_000)
	r := rand.New(rand.NewPCG(3, 4))
	c := &calibrated{word: func() string { return "w" + strconv.FormatUint(zipf.Uint64(), 36) }}
	c.add(t, knowledge.LargeBase)
	c.show(t, true)
	steps := 6
	if testing.Short() {
		steps = 4
	}
	for step := range steps {
		c.add(t, 1+step*step)
		if step%2 == 1 { // remove documents
			gone := map[int64]bool{}
			for range 20 {
				gone[int64(1+r.IntN(c.next))] = true
			}
			for i, s := range c.segments {
				dead := s.WithRows(gone)
				for w, bits := range s.Deleted {
					for len(dead) <= w {
						dead = append(dead, 0)
					}
					dead[w] |= bits
				}
				c.segments[i] = s.Without(dead, nil)
			}
		}
		c.show(t, true)
		if step == 3 { // the same documents in other segments
			image, _, err := index.Merge(c.segments[1:])
			if err != nil {
				t.Fatal(err)
			}
			c.segments = c.segments[:1:1]
			if err := c.take(image, nil); err != nil {
				t.Fatal(err)
			}
			c.show(t, false)
		}
	}
}
