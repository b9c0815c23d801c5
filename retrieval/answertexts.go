package retrieval

// answers are the answers of one search. They read the texts of candidates that are hits.
type answers []answer

// texts returns the Texts of a candidate's answer.
func (all answers) texts(c *candidate) Texts { return all[c.from].res.Texts }

// read reads the texts of chosen hits into sources, the list made of chosen.
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

// same reports whether two candidates whose keys do not differ have the same text. It reads the
// texts that an engine keeps.
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

// whole returns a candidate's source with its text; false if the text cannot be read, an error
// that is reported when the candidate is selected.
func (all answers) whole(c *candidate) (Source, bool) {
	src := c.result()
	if c.hit == nil {
		return src, true
	}
	err := all.texts(c).Read([]*Source{&src})
	return src, err == nil
}

// identity returns a candidate's document and the ordinal of its chunk.
func (all answers) identity(c *candidate) (doc string, chunk int) {
	if c.source != nil {
		return c.source.Doc, c.source.Chunk
	}
	// A read error is reported when the candidate is selected or recorded.
	_ = all.texts(c).Label([]*Hit{c.hit}, func(label Label) { doc, chunk = string(label.Doc), label.Chunk })
	return doc, chunk
}

// sketch returns the sketch of a hit's text; an empty one, similar to nothing, if it cannot be
// read.
func (all answers) sketch(c *candidate) Sketch {
	of, _ := all.texts(c).Sketch(c.hit)
	return of
}

// An excludedWriter records excluded candidates in reusable memory.
type excludedWriter struct {
	packed excludedPacker
	entry  Excluded
	hits   []*Hit
	rest   []exclusion // not written yet
	next   func(Label) // add as a func value, made once
}

// write encodes excluded candidates in order. Labels of consecutive hits of one answer are read by
// one call.
func (w *excludedWriter) write(all answers, list []exclusion, floor float64) (ExcludedList, error) {
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
	return w.packed.List(), nil
}

func (w *excludedWriter) add(label Label) {
	w.rest[0].write(&w.entry)
	w.packed.Add(&w.entry, label)
	w.rest = w.rest[1:]
}

// reset drops all references.
func (w *excludedWriter) reset() {
	clear(w.hits[:cap(w.hits)])
	w.rest, w.entry = nil, Excluded{}
}
