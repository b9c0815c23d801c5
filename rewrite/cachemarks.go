package rewrite

import (
	"bytes"

	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// Sources change from turn to turn, and upstreams cache prompts by their beginnings. Under PlaceAuto
// sources stand behind everything else, and a mark before them keeps them out of the cached part
// where an upstream caches what ends at a mark.

// CacheMarks says whether a rewrite marks the end of what the application sent.
type CacheMarks string

// The choices. The empty string stands for MarksAuto under PlaceAuto, else for MarksOff.
const (
	MarksAuto CacheMarks = "auto" // one mark, if the upstream takes marks
	MarksOff  CacheMarks = "off"
)

// A CacheMarkState says whether a mark was set. It is a closed set.
type CacheMarkState string

// The states.
const (
	MarkSet         CacheMarkState = "set"
	MarkApplication CacheMarkState = "application" // the application has one at the same place
	MarkFull        CacheMarkState = "full"        // the application uses as many as the upstream takes
	MarkOff         CacheMarkState = "off"         // the application turned caching off
	MarkNoPlace     CacheMarkState = "no-place"    // the application sent no text there, or the API takes no mark there
	MarkRefused     CacheMarkState = "refused"     // the upstream has refused a mark for this model
)

// editCacheMark names the edits that set a mark.
const editCacheMark = "cache-mark"

// WithoutMarks returns the policy for a model whose upstream refuses marks.
func (p Policy) WithoutMarks() Policy {
	p.NoMarks = true
	return p
}

// CacheOf returns how the upstream of a policy caches the prompts of a model. What the upstream says
// comes first. The marks of Anthropic's models are known only from its own API.
func (p *Policy) CacheOf(m *model.Model, api chat.API) tokens.PromptCache {
	switch {
	case p.PromptCache != tokens.CacheUnknown:
		return p.PromptCache
	case m.PromptCache == tokens.CacheControl && api != chat.Messages, m.PromptCache == tokens.CacheBreakpoints && api == chat.Messages:
		return tokens.CacheUnknown
	}
	return m.PromptCache
}

// Automatic returns what PlaceAuto stands for where prompts are cached so.
func Automatic(c tokens.PromptCache) Placement {
	if c.Known() {
		return PlaceSplit
	}
	return PlaceSystem
}

// wants returns the policy's placement with PlaceAuto resolved.
func (j *job) wants() Placement {
	if j.policy.Placement != PlaceAuto {
		return j.policy.Placement
	}
	return Automatic(j.policy.CacheOf(&j.model, j.req.API))
}

// A cacheMark is the mark of one rewrite.
type cacheMark struct {
	state    CacheMarkState // "": none was to be set
	kind     chat.CacheMark
	at       chat.MarkPlace
	message  int  // index of the message at whose end it is
	explicit bool // nothing else is to be cached
}

// findMark decides whether a mark is set, and where. placement must be known.
func (j *job) findMark() {
	p, m := j.policy, &j.mark
	if marks := p.CacheMarks; marks == MarksOff || marks == "" && p.Placement != PlaceAuto || p.Mode == Staged {
		return
	}
	cache := p.CacheOf(&j.model, j.req.API)
	if !cache.Marked() {
		return
	}
	m.kind, m.message = chat.MarkControl, j.markedMessage()
	if cache == tokens.CacheBreakpoints {
		m.kind = chat.MarkBreakpoint
	}
	options, ok := j.req.PromptCacheOptions(), false
	if m.message >= 0 {
		m.at, ok = j.req.MarkAfter(m.message, m.kind)
	}
	theirs, most := m.kind.CountIn(j.req.Body), chat.MaxCacheMarks
	if m.kind == chat.MarkBreakpoint {
		if m.explicit = j.marksAlone(options); !m.explicit && !explicitMode(options) {
			most-- // the upstream sets one itself
		}
	}
	switch {
	case p.NoMarks:
		m.state = MarkRefused
	case m.kind == chat.MarkBreakpoint && theirs == 0 && explicitMode(options):
		m.state = MarkOff
	case !ok:
		m.state = MarkNoPlace
	case m.at.Marked:
		m.state = MarkApplication
	case theirs >= most:
		m.state = MarkFull
	default:
		m.state = MarkSet
		if m.kind == chat.MarkControl && j.laterForHour(options) {
			m.kind = chat.MarkHour
		}
	}
}

// markedMessage returns the index of the message at whose end the sources are added, -1 without one.
func (j *job) markedMessage() int {
	switch {
	case j.cites, j.placement == PlaceLastUser, j.placement == PlaceSplit:
		return j.last
	case j.placement == PlaceSystem:
		return j.req.Operator()
	}
	return -1
}

// laterForHour reports whether a mark after ours is for an hour. Such marks must come before those
// for five minutes.
func (j *job) laterForHour(automatic []byte) bool {
	return bytes.Contains(automatic, []byte(`"1h"`)) || chat.ForHour(j.req.After(j.mark.message))
}

// marksAlone reports whether the upstream is told to set no mark of its own. It would set one behind
// the sources, where nothing is read again unless rounds with tools follow.
func (j *job) marksAlone(options []byte) bool {
	return options == nil && len(j.req.Tools) == 0 && j.policy.Mode < Tools && j.last >= 0 && j.req.LastMessage(j.last) &&
		!bytes.Contains(j.req.Body, []byte(`"prompt_cache_retention"`))
}

// explicitMode reports whether prompt_cache_options turn off the mark that the upstream sets itself.
func explicitMode(options []byte) bool { return bytes.Contains(options, []byte(`"explicit"`)) }

// markEdits returns the edits that set the mark.
func (j *job) markEdits(in *fitResult) (edits []Edit) {
	m := &j.mark
	if m.state != MarkSet {
		return nil
	}
	mark := m.kind.JSON()
	if n := j.places.n - 1; m.at.Text != (chat.Span{}) && in.insertions[n] == nil { // nothing else makes it a list
		edits = append(edits, Edit{Name: editCacheMark, Offset: m.at.Text.Start, Insert: EditText{j.places.at[n].Wrapping()}})
		mark = append(mark, chat.EndAsOnlyPart...)
	}
	edits = append(edits, Edit{Name: editCacheMark, Offset: m.at.Offset, Insert: EditText{mark}})
	if m.explicit {
		edits = append(edits, Edit{Name: editCacheMark, Offset: j.req.FirstMember(), Insert: EditText{[]byte(`"prompt_cache_options":{"mode":"explicit"},`)}})
	}
	return edits
}

// endOf returns the place at the end of a message, which is a part of its own if the mark is before
// it.
func (j *job) endOf(i int) chat.Place {
	if m := &j.mark; m.state == MarkSet && m.message == i && m.at.Text != (chat.Span{}) {
		return j.req.EndAsPart(i)
	}
	return j.req.EndOf(i)
}
