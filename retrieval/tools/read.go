package tools

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"sidenote/retrieval"
)

// A Reading is the result of Read.
type Reading struct {
	Sources []retrieval.Source // in the order of the references, with neighbouring chunks
	Missing []Ref              // chunks that do not exist, or not for this caller
	Cut     []Ref              // chunks that did not fit, or only in part
}

// maxNeighbours is how many chunks before and after a requested chunk may be read with it.
const maxNeighbours = 2

// leastCut is the minimum number of characters to which a text is cut.
const leastCut = 200

// Read returns the texts of some chunks, of at most maxChars characters in total: first the
// requested ones, in order, then those that follow and precede them in the same section. It
// reduces maxChars until fits accepts the result.
func (k *Knowledge) Read(ctx context.Context, as retrieval.Query, refs []Ref, maxChars int, fits func(Reading) bool) (Reading, error) {
	found, missing, err := k.around(ctx, as, refs)
	if err != nil {
		return Reading{}, err
	}
	for ; ; maxChars = maxChars * 3 / 4 {
		out := read(found, maxChars)
		out.Missing = missing
		if fits(out) || maxChars == 0 {
			return out, nil
		}
	}
}

// A place is a requested chunk with its neighbours.
type place struct {
	Ref
	list []retrieval.Source
	at   int // index of the chunk in list
}

// around reads chunks with their neighbours, without duplicates.
func (k *Knowledge) around(ctx context.Context, as retrieval.Query, refs []Ref) (found []place, missing []Ref, err error) {
	seen := map[Ref]bool{}
	for _, ref := range refs {
		if seen[ref] {
			continue
		}
		seen[ref] = true
		first := max(0, ref.Chunk-maxNeighbours)
		list, err := k.Reader.Passage(ctx, as, retrieval.Passage{Knowledge: ref.Knowledge, Doc: ref.Doc, First: first, End: ref.Chunk + 1 + maxNeighbours})
		if err != nil && !errors.Is(err, retrieval.ErrNoHit) {
			return nil, nil, fmt.Errorf("read %s: %w", ref, err)
		}
		at := ref.Chunk - first
		if at >= len(list) {
			missing = append(missing, ref)
			continue
		}
		found = append(found, place{ref, list, at})
	}
	return found, missing, nil
}

// read selects what fits into maxChars characters.
func read(found []place, maxChars int) (out Reading) {
	var around [][]retrieval.Source // by source: the chunk and its neighbours
	there := map[Ref]bool{}
	room := maxChars
	for _, p := range found {
		src := p.list[p.at]
		if n := utf8.RuneCountInString(src.Text); n > room {
			out.Cut = append(out.Cut, p.Ref)
			if room < leastCut {
				continue
			}
			src.Text = cut(src.Text, len(firstRunes(src.Text, room)))
		}
		room -= utf8.RuneCountInString(src.Text)
		there[p.Ref] = true
		out.Sources, around = append(out.Sources, src), append(around, p.list)
	}
	if len(out.Cut) == 0 {
		widen(out.Sources, around, there, room)
	}
	return out
}

// firstRunes returns the first n characters of a text.
func firstRunes(text string, n int) string {
	for i := range text {
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}

// widen extends sources by neighbouring chunks of the same section, one chunk at a time, as long
// as there is room. No chunk is added twice.
func widen(sources []retrieval.Source, around [][]retrieval.Source, there map[Ref]bool, room int) {
	ends := make([][2]int, len(sources)) // first and last chunk of each source
	for i := range sources {
		ends[i] = [2]int{sources[i].Chunk, sources[i].Chunk}
	}
	add := func(i, chunk int) {
		src := &sources[i]
		at := chunk - around[i][0].Chunk
		ref := Ref{src.Knowledge, src.Doc, chunk}
		if at < 0 || at >= len(around[i]) || around[i][at].Section != src.Section || there[ref] {
			return
		}
		text := around[i][at].Text
		n := utf8.RuneCountInString(text) + len("\n\n")
		if n > room {
			return
		}
		room, there[ref] = room-n, true
		src.Tokens = 0 // the text has changed
		if chunk > ends[i][1] {
			src.Text, ends[i][1] = src.Text+"\n\n"+text, chunk
		} else {
			src.Text, src.Chunk, ends[i][0] = text+"\n\n"+src.Text, chunk, chunk
		}
	}
	for range maxNeighbours {
		for i := range sources {
			add(i, ends[i][1]+1)
			add(i, ends[i][0]-1)
		}
	}
}
