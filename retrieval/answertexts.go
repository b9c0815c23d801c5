package retrieval

// answers are those of one search. Of candidates that are hits their texts are read.
type answers []answer

// texts returns the texts of the answer that a hit is of.
func (all answers) texts(c *candidate) Texts { return all[c.from].res.Texts }

// read completes what was chosen of hits, which are some of sources.
func (all answers) read(chosen []*candidate, sources []Source, room *[]*Source) error {
	for from := range all {
		of := (*room)[:0]
		for i, c := range chosen {
			if c.from == from && c.hit != nil {
				of = append(of, &sources[i])
			}
		}
		if *room = of; len(of) == 0 {
			continue
		}
		if err := all[from].res.Texts.Read(of); err != nil {
			return unreadable(from, err)
		}
	}
	return nil
}

// same tells whether two candidates that their keys do not tell apart have the same text. Texts
// that an engine keeps are only read for that.
func (all answers) same(a, b *candidate) bool {
	if a.hit == nil && b.hit == nil {
		return a.source.Text == b.source.Text
	}
	x, ok := all.whole(a)
	if !ok {
		return false
	}
	y, ok := all.whole(b)
	return ok && x.Text == y.Text
}

// whole returns a candidate with its text; false where it cannot be read, which shows when it is
// selected.
func (all answers) whole(c *candidate) (Source, bool) {
	src := c.result()
	if c.hit == nil {
		return src, true
	}
	err := all.texts(c).Read([]*Source{&src})
	return src, err == nil
}

// identity returns the document of a candidate and its place there.
func (all answers) identity(c *candidate) (doc string, chunk int) {
	if c.source != nil {
		return c.source.Doc, c.source.Chunk
	}
	// What cannot be read shows when it is selected, or written.
	_ = all.texts(c).Label([]*Hit{c.hit}, func(label Label) { doc, chunk = string(label.Doc), label.Chunk })
	return doc, chunk
}

// sketch returns that of a hit's text. What cannot be read resembles nothing.
func (all answers) sketch(c *candidate) Sketch {
	of, _ := all.texts(c).Sketch(c.hit)
	return of
}

// A fallenWriter writes what fell, in memory that is used again.
type fallenWriter struct {
	packed excludedPacker
	entry  Excluded
	hits   []*Hit
	rest   []fell      // what is still to be written
	next   func(Label) // writes the first of it; made once
}

// write writes what fell of some answers, with the labels that engines have, of one answer after the
// other as they come in the order.
func (w *fallenWriter) write(all answers, list []fell, floor float64) (ExcludedList, error) {
	if w.next == nil {
		w.next = w.add
	}
	w.packed.Reset(floor)
	for w.rest = list; len(w.rest) > 0; {
		first := w.rest[0]
		if src := first.source; first.hit == nil {
			w.add(Label{Doc: []byte(src.Doc), Chunk: src.Chunk, Name: []byte(src.Name), Section: []byte(src.Section)})
			continue
		}
		w.hits = w.hits[:0]
		for _, f := range w.rest {
			if f.from != first.from || f.hit == nil {
				break
			}
			w.hits = append(w.hits, f.hit)
		}
		if err := all.texts(first.candidate).Label(w.hits, w.next); err != nil {
			return ExcludedList{}, unreadable(first.from, err)
		}
	}
	return w.packed.Fallen(), nil
}

func (w *fallenWriter) add(label Label) {
	w.rest[0].write(&w.entry)
	w.packed.Add(&w.entry, label)
	w.rest = w.rest[1:]
}

// reset lets go of all that was written.
func (w *fallenWriter) reset() {
	clear(w.hits[:cap(w.hits)])
	w.rest, w.entry = nil, Excluded{}
}
