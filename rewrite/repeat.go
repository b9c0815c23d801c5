package rewrite

import (
	"math"
	"slices"
	"strings"

	"sidenote/retrieval"
	"sidenote/rewrite/chat"
)

// Repeat says whether a follow-up gets the sources of earlier turns again.
type Repeat string

// The choices.
const (
	RepeatFresh Repeat = ""     // only those for the latest message
	RepeatKeep  Repeat = "keep" // also those of earlier messages of the user, at their ends
)

// EarlierSources are the sources that one message of the user was given. They are never changed.
type EarlierSources struct {
	Text    string        `json:"text"`    // as added, without the line feeds before it
	Sources []SourceEntry `json:"sources"` // those in Text
	Texts   []string      `json:"texts"`   // of Sources, as found
}

// A Repeated records the sources of earlier turns in a request.
type Repeated struct {
	Tokens  int           `json:"tokens"` // by which the messages grew, besides Ledger.Used
	Exact   bool          `json:"-"`
	Sources []SourceEntry `json:"sources"`
	Texts   []string      `json:"-"` // of Sources
}

// mayRepeat reports whether sources can stand in earlier messages of the user. In mode Staged only the
// block is given to the stages.
func (j *job) mayRepeat() bool {
	return j.policy.Repeat == RepeatKeep && j.policy.Mode != Staged && j.policy.ContextTokens > 0 && len(j.policy.Knowledge) > 0 && !j.cites && j.last >= 0 && (j.placement == PlaceSplit || j.placement == PlaceLastUser)
}

const (
	// maxRepeated is the limit for the tokens of earlier sources, in those that may be added to the
	// question.
	maxRepeated = 4
	// repeatStep is how many of the oldest messages lose their sources at once, so that the beginning
	// of the prompt does not change with each turn.
	repeatStep = 4
)

// An earlierTurn is a message of the user before the question, with the sources that it was given.
type earlierTurn struct {
	*EarlierSources
	number int // among the user's messages, from 0
	insertion
	tokens int // as counted
	exact  bool
}

// repeat adds the sources of earlier turns, the latest first, as far as the window has room for them
// beside what may be added to the question. earlier are those of the messages before the question,
// the latest first; nil where there are none.
func (j *job) repeat(earlier []*EarlierSources) {
	if !j.mayRepeat() {
		return
	}
	if j.firstID = j.lastID; len(earlier) == 0 || j.policy.NoRepeat {
		return
	}
	j.measureWindow()
	allowed := j.model.Allowed(j.policy.ContextTokens)
	room := maxRepeated * allowed
	if j.window.Size > 0 {
		room = min(room, j.window.Room-allowed)
	}
	for _, e := range earlier {
		j.firstID = max(j.firstID, e.lastID()) // even of those that do not fit: later turns may have them again
	}
	for _, t := range j.fitEarlier(earlier, room) {
		j.repeatTurn(&t)
	}
	if r := j.repeated; r != nil {
		r.Tokens = j.model.Billed(j.repeatedCount)
		if j.window.Size > 0 {
			j.window.Room -= r.Tokens
			j.window.Limits = j.window.Room < allowed
		}
	}
}

// fitEarlier returns the turns whose sources fit into room tokens, the latest first.
func (j *job) fitEarlier(earlier []*EarlierSources, room int) (turns []earlierTurn) {
	messages := slices.Collect(j.req.EarlierMessages(j.last))
	first, sum, least := len(messages), 0, math.MaxInt // least: the smallest id so far
	step := repeatStep
	for n, i := range messages[:min(len(messages), len(earlier))] {
		number := len(messages) - 1 - n
		if e := earlier[n]; e != nil && j.req.Ambiguity(i, utf8In(&j.messages)) == nil {
			if e.lastID() >= least { // it was not found when the source with that id was given, and never comes back
				step = 1
				break
			}
			at := j.earlierEnd(i)
			t := earlierTurn{EarlierSources: e, number: number, insertion: insertion{Place: &at, parts: []part{{text: e.Text}}}}
			t.lead, t.trail = around(at.Frame, t.parts)
			t.tokens, t.exact = t.weigh(j.model.Counter)
			if sum += t.tokens; j.model.Billed(sum) > room {
				break
			}
			for k := range e.Sources {
				least = min(least, e.Sources[k].ID)
			}
			turns = append(turns, t)
		}
		first = number
	}
	first = (first + step - 1) / step * step
	return slices.DeleteFunc(turns, func(t earlierTurn) bool { return t.number < first })
}

// Size returns the bytes of the texts.
func (e *EarlierSources) Size() (n int) {
	if e == nil {
		return 0
	}
	n = len(e.Text)
	for _, text := range e.Texts {
		n += len(text)
	}
	return n
}

// lastID returns the largest id of the sources.
func (e *EarlierSources) lastID() (id int) {
	if e != nil {
		for i := range e.Sources {
			id = max(id, e.Sources[i].ID)
		}
	}
	return id
}

// repeatTurn adds the sources of a turn.
func (j *job) repeatTurn(t *earlierTurn) {
	if j.repeated == nil {
		j.repeated = &Repeated{Exact: true}
	}
	r := j.repeated
	j.repeatedCount += t.tokens
	r.Exact = r.Exact && t.exact
	r.Sources, r.Texts = append(r.Sources, t.Sources...), append(r.Texts, t.Texts...)
	for k, text := range t.Texts {
		if t.Sources[k].Inclusion == Included { // of one that was cut, the rest may be needed
			j.given = append(j.given, GivenText(text))
		}
	}
	j.repeats = append(j.repeats, Edit{Name: editInject, Offset: t.Offset, Delete: t.Remove, Insert: t.json()})
	if open := t.Wrapping(); open != nil {
		j.repeats = append(j.repeats, Edit{Name: editInject, Offset: t.Wrap.Start, Insert: EditText{open}})
	}
}

// onlyRepeats turns the result of a rewrite that adds nothing to the question into one that adds the
// sources of earlier turns.
func (j *job) onlyRepeats(res *Result, in *fitResult) *fitResult {
	if res.Outcome != Untouched || j.repeated == nil {
		return in
	}
	if j.findPlaces(); in == nil {
		in = &fitResult{exact: true}
	}
	res.Outcome = Injected
	return in
}

// earlierEnd returns the place at the end of an earlier message. Where the question is followed by a
// mark, sources were in a part of their own.
func (j *job) earlierEnd(i int) chat.Place {
	if j.mark.state == MarkSet || j.mark.state == MarkApplication {
		if at, ok := j.req.MarkAfter(i, j.mark.kind); ok && at.Text != (chat.Span{}) {
			return j.req.EndAsPart(i)
		}
	}
	return j.req.EndOf(i)
}

// toRepeat returns what is to be repeated in later turns; nil if nothing is. Components and
// a query beside the sources may come from this request alone, and the turn's key does not cover them.
func (j *job) toRepeat(res *Result, in *fitResult) *EarlierSources {
	n := j.places.n - 1
	if !j.mayRepeat() || n == 0 && (len(j.policy.Components) > 0 || j.policy.Template.HasQuery()) || res.Outcome != Injected || in.selected == 0 || in.insertions[n] == nil {
		return nil
	}
	at := &j.places.at[n].Frame
	lead, _ := around(*at, nil)
	e := &EarlierSources{Text: strings.TrimPrefix(chat.Unescape(at.Whole(in.insertions[n].Append(nil))), lead)}
	for i := range in.sources {
		s := &in.sources[i]
		if s.Inclusion == Excluded {
			continue
		}
		e.Sources, e.Texts = append(e.Sources, *s), append(e.Texts, textOf(res.Retrieval.Sources, s))
	}
	return e
}

func textOf(sources []retrieval.Source, e *SourceEntry) string {
	for i := range sources {
		if s := &sources[i]; s.Knowledge == e.Knowledge && s.Doc == e.Doc && s.Chunk == e.Chunk {
			return s.Text
		}
	}
	return ""
}
