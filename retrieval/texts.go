package retrieval

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"sidenote/retrieval/packed"
	"sidenote/retrieval/sketch"
)

// A Place says of a hit where its engine has the text. Only that engine reads the numbers;
// they are worth nothing in another generation of the base.
type Place struct {
	Kept          bool // the engine has the text and reads it on demand; false: it came with the hit
	Segment, Text int
}

// Append appends a place.
func (p Place) Append(b []byte) []byte {
	if !p.Kept {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(p.Segment)+1) //nolint:gosec // counted from 0
	return binary.AppendUvarint(b, uint64(p.Text))   //nolint:gosec // likewise
}

// ReadPlace reads what Append wrote.
func ReadPlace(r *packed.Reader) Place {
	segment := r.Uvarint()
	if segment == 0 {
		return Place{}
	}
	return Place{Kept: true, Segment: int(segment - 1), Text: int(r.Uvarint())} //nolint:gosec // a hint, see Locator
}

// A Mark is what an engine noted of a text when it read it in. Duplicates are found by marks,
// without the texts.
type Mark struct {
	Sketch sketch.Sketch
	Bytes  int    // length of the text
	Sum    uint32 // equal texts of one Texts have equal sums
}

// Texts are the texts of the hits of one Result, in the generation that was searched. They are
// read for what is selected only.
//
// An error wraps ErrUnavailable, and is a *UnreadableError where it is about one base. It is
// safe for concurrent use.
type Texts interface {
	// Marks fills in the mark of each hit.
	Marks(hits []Source, marks []Mark) error
	// Read completes sources by Name, Section, Text, Before, After and Tokens.
	Read(sources []*Source) error
	// Names calls add with the Name and the Section of each hit, in their order. The bytes are not
	// to be kept.
	Names(hits []*Source, add func(name, section []byte)) error
}

// A Locator finds the texts of hits again, of which a cache kept base, document, chunk and
// place.
type Locator interface {
	// Locate returns the texts of hits of q.Bases, in these generations, and corrects their
	// places. The error wraps ErrGone where a base has another generation by now, and ErrNoHit
	// where there is no such chunk.
	Locate(ctx context.Context, q Query, hits []*Source) (Texts, error)
}

// The errors of a Locator.
var (
	ErrGone  = fmt.Errorf("the generation that was searched is gone: %w", ErrUnavailable)
	ErrNoHit = errors.New("no such chunk")
)

// An UnreadableError is about a base whose texts cannot be read, such as one whose file is
// damaged. It wraps ErrUnavailable.
type UnreadableError struct {
	Knowledge string
	Err       error
}

func (e *UnreadableError) Error() string {
	return "read texts of base " + e.Knowledge + ": " + e.Err.Error()
}

// Unwrap returns ErrUnavailable and the cause.
func (e *UnreadableError) Unwrap() []error { return []error{ErrUnavailable, e.Err} }

// Whole is a Retriever that reads the texts of all hits of an engine, for callers that show
// them all.
type Whole struct{ Next Retriever }

// Retrieve answers with Next's sources and their texts.
func (w Whole) Retrieve(ctx context.Context, q Query) (Result, error) {
	res, err := w.Next.Retrieve(ctx, q)
	if err != nil || res.Texts == nil {
		return res, err
	}
	res.Sources = append([]Source(nil), res.Sources...) // others may share them
	all := make([]*Source, len(res.Sources))
	for i := range res.Sources {
		all[i] = &res.Sources[i]
	}
	if err := res.Texts.Read(all); err != nil {
		return Result{Bases: res.Bases, Reason: ReasonError, Partial: true, Cache: res.Cache}, err
	}
	for i := range res.Sources {
		res.Sources[i].At = Place{} // the text is here
	}
	res.Texts = nil
	return res, nil
}

// An unreadableAnswer is an answer whose texts cannot be read.
type unreadableAnswer struct {
	from      int    // its number
	knowledge string // the base because of which; "" if it is not known
	err       error
}

func (e *unreadableAnswer) Error() string { return e.err.Error() }
func (e *unreadableAnswer) Unwrap() error { return e.err }

func unreadable(from int, err error) *unreadableAnswer {
	broken := &unreadableAnswer{from: from, err: unavailable(err)}
	if base, ok := errors.AsType[*UnreadableError](err); ok {
		broken.knowledge = base.Knowledge
	}
	return broken
}

// marks fills in the marks of some sources of an engine's answer, as far as it keeps their
// texts.
func (r *Result) marks(found []Source, marks []Mark) error {
	if r.Texts == nil || len(found) == 0 {
		return nil
	}
	return r.Texts.Marks(found, marks)
}

// read reads what answers have of the sources of res, and the names of what fell.
func (s *selection) read(answers []answer, res *Result) error {
	for from := range answers {
		texts := answers[from].res.Texts
		if texts == nil {
			continue
		}
		s.hits = s.hits[:0]
		for i, c := range s.chosen {
			if c.from == from && c.mark != nil {
				s.hits = append(s.hits, &res.Sources[i])
			}
		}
		if len(s.hits) == 0 {
			continue
		}
		if err := texts.Read(s.hits); err != nil {
			return unreadable(from, err)
		}
	}
	return s.readNames(answers)
}

// readNames reads the names of what fell, of one answer after the other as they come in the order.
func (s *selection) readNames(answers []answer) error {
	kept := s.fallen
	for len(kept) > 0 {
		from, n := kept[0].from, 0
		s.hits = s.hits[:0]
		for ; n < len(kept) && kept[n].from == from; n++ {
			if kept[n].source.At.Kept {
				s.hits = append(s.hits, kept[n].source)
			}
		}
		if kept = kept[n:]; len(s.hits) == 0 {
			continue
		}
		texts := answers[from].res.Texts
		if texts == nil {
			texts = locatedTexts{} // the engine keeps them, but has not said where
		}
		if err := texts.Names(s.hits, s.names.add); err != nil {
			return unreadable(from, err)
		}
	}
	return nil
}

// same tells whether two candidates that their keys do not tell apart have the same text. Texts
// that an engine keeps are only read for that.
func (s *selection) same(a, b *candidate) bool {
	if a.mark == nil && b.mark == nil {
		return a.source.Text == b.source.Text
	}
	x, ok := s.readText(a)
	if !ok {
		return false
	}
	y, ok := s.readText(b)
	return ok && x == y
}

// readText returns the text; false where it cannot be read, which shows when it is selected.
func (s *selection) readText(c *candidate) (string, bool) {
	if c.mark == nil {
		return c.source.Text, true
	}
	src := *c.source
	err := s.answers[c.from].res.Texts.Read([]*Source{&src})
	return src.Text, err == nil
}

// withoutUnreadable removes what choose could not read: the base that is known to be the
// reason, else all of the answer.
func withoutUnreadable(answers []answer, err error) []answer {
	e, ok := errors.AsType[*unreadableAnswer](err)
	if !ok {
		return nil
	}
	a := &answers[e.from].res
	of := func(src Source) bool { return src.Knowledge == e.knowledge }
	if e.knowledge == "" || !slices.ContainsFunc(a.Sources, of) {
		return slices.Delete(answers, e.from, e.from+1)
	}
	a.Sources = slices.DeleteFunc(slices.Clone(a.Sources), of) // others may be reading the list
	a.Bases = slices.DeleteFunc(slices.Clone(a.Bases), func(ref Ref) bool { return ref.Knowledge == e.knowledge })
	if len(a.Bases) == 0 {
		return slices.Delete(answers, e.from, e.from+1)
	}
	return answers
}

// Locate finds the texts of sources again that this Pipeline found.
func (p *Pipeline) Locate(ctx context.Context, q Query, hits []*Source) (Texts, error) {
	var all locatedTexts
	found := 0
	for _, refs := range p.groups(q.Bases) {
		var of []*Source
		for _, hit := range hits {
			if slices.ContainsFunc(refs, func(ref Ref) bool { return ref.Knowledge == hit.Knowledge }) {
				of = append(of, hit)
			}
		}
		if found += len(of); len(of) == 0 {
			continue
		}
		base, ok := p.Bases(refs[0].Knowledge).(Locator)
		if !ok {
			return nil, fmt.Errorf("%s: keeps no texts: %w", named(refs), ErrNoHit)
		}
		q.Bases = refs
		texts, err := base.Locate(ctx, q, of)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", named(refs), err)
		}
		all = append(all, located{refs, texts})
	}
	if found < len(hits) { // what a store returned may name any base
		return nil, fmt.Errorf("of another base: %w", ErrNoHit)
	}
	if len(all) == 1 {
		return all[0].texts, nil
	}
	return all, nil
}

// located are texts that belong to some bases.
type located struct {
	refs  []Ref
	texts Texts
}

func (l located) has(knowledge string) bool {
	return slices.ContainsFunc(l.refs, func(ref Ref) bool { return ref.Knowledge == knowledge })
}

// locatedTexts are the texts of several engines.
type locatedTexts []located

// Marks is not asked for: what a Pipeline has found was compared already.
func (locatedTexts) Marks([]Source, []Mark) error { return errors.ErrUnsupported }

func (all locatedTexts) Read(sources []*Source) error {
	for _, l := range all {
		of := slices.DeleteFunc(slices.Clone(sources), func(src *Source) bool { return !l.has(src.Knowledge) })
		if err := l.texts.Read(of); err != nil {
			return err
		}
	}
	return nil
}

func (all locatedTexts) Names(hits []*Source, add func(name, section []byte)) error {
	for i := range hits {
		at := slices.IndexFunc(all, func(l located) bool { return l.has(hits[i].Knowledge) })
		if at < 0 {
			add(nil, nil)
			continue
		}
		if err := all[at].texts.Names(hits[i:i+1], add); err != nil {
			return err
		}
	}
	return nil
}
