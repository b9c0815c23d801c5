package tools

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// An XMLCall is a call that a model wrote.
type XMLCall struct {
	Name      string          // of the tool, as offered
	Arguments json.RawMessage // a JSON object
	Raw       string          // the element as written
}

const (
	maxTag  = 256      // bytes of an opening tag and the following white space
	maxCall = 64 << 10 // bytes of a call
)

// An XMLScanner finds calls in the text of an answer, which arrives in pieces of any size. A call
// is an element of an offered tool, outside fenced and inline code and outside reasoning at the
// beginning of the answer. Only white space may separate its opening tag from the first tag
// inside; it ends at its first closing tag. Case, white space and attributes in tags are ignored.
// Everything else is text, also an element that is never closed or is longer than 64 KiB.
//
// A model that does not wait after a call may invent the result. Everything from an invented
// result on is ignored: it is neither text nor calls.
//
// The result does not depend on how the answer is split. An XMLScanner must not be used
// concurrently; Reset must be called first.
type XMLScanner struct {
	tools map[string]string // offered tools by element
	calls []XMLCall
	out   []byte // text for the client
	split []byte // incomplete character at the end of the text so far

	at     xmlPlace
	code   code
	begun  bool   // more than white space and reasoning was seen
	held   []byte // text from the bracket that may begin a call
	name   []byte // lower-case name of the current element, or of the reasoning
	opened int    // length of the opening tag in held
	read   int    // bytes of the answer so far
	said   int    // those before an invented result; -1 if there is none
}

// An xmlPlace is the state of the scanner.
type xmlPlace int

const (
	inText xmlPlace = iota
	inName          // after a bracket
	inTag           // after an element name
	behindTag
	inCall
	inReasoning
	behindResult // an invented one
)

// reasoning holds the elements that enclose reasoning before the answer.
var reasoning = [...]string{"think", "thinking", "thought", "reasoning"}

// Reset prepares s for the next answer of a model, to which these tools were offered.
func (s *XMLScanner) Reset(offered []string) {
	*s = XMLScanner{said: -1, tools: make(map[string]string, 2*len(offered)), out: s.out[:0], held: s.held[:0], name: s.name[:0]}
	for _, name := range offered {
		s.tools[name], s.tools[element(name)] = name, name
	}
}

// Write scans the next piece of the answer and returns the text that may be shown, including text
// held back before: text outside calls, in complete characters. It is valid until the next Write.
func (s *XMLScanner) Write(text []byte) (pass []byte) {
	s.out = append(s.out[:0], s.split...)
	for _, c := range text {
		s.read++
		s.take(c)
	}
	whole := len(s.out)
	if s.at == inText || s.at == inReasoning { // in other states a bracket follows, which cannot complete it
		whole -= incomplete(s.out)
	}
	s.split = append(s.split[:0], s.out[whole:]...)
	return s.out[:whole]
}

// Close returns the text that was held back at the end of the answer.
func (s *XMLScanner) Close() (pass []byte) {
	s.out = append(s.out[:0], s.split...)
	s.split = s.split[:0]
	s.giveUp()
	return s.out
}

// AnswerBytes returns how many bytes of the answer count: all, or those before an invented result.
func (s *XMLScanner) AnswerBytes() int {
	if s.said >= 0 {
		return s.said
	}
	return s.read
}

// Calls returns the calls found so far, in order.
func (s *XMLScanner) Calls() []XMLCall { return s.calls }

// incomplete returns the length of an incomplete character at the end of b.
func incomplete(b []byte) int {
	for n := 1; n < min(utf8.UTFMax, len(b)+1); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

func (s *XMLScanner) take(c byte) {
	switch s.at {
	case inText:
		if c != '<' || s.code.inside() {
			s.pass(c)
			return
		}
		s.held, s.name, s.at = append(s.held[:0], c), s.name[:0], inName
	case inName:
		s.takeName(c)
	case inTag:
		s.takeTag(c)
	case behindTag:
		if c == '<' {
			s.at = inCall
		}
		if c != '<' && !isSpace(c) || len(s.held) == maxTag {
			s.refuse(c)
			return
		}
		s.held = append(s.held, c)
	case inCall:
		s.held = append(s.held, c)
		if end, ok := closingTag(s.held, s.name); ok {
			s.finish(s.held[s.opened:end])
		} else if len(s.held) == maxCall {
			s.giveUp()
		}
	case inReasoning:
		s.out = append(s.out, c)
		if len(s.held) == maxTag {
			s.held = append(s.held[:0], s.held[maxTag/2:]...)
		}
		s.held = append(s.held, c)
		if _, ok := closingTag(s.held, s.name); ok {
			s.at, s.held = inText, s.held[:0]
		}
	}
}

// takeName scans a byte between a bracket and the end of the element name.
func (s *XMLScanner) takeName(c byte) {
	switch {
	case len(s.held) == maxTag:
		s.refuse(c)
		return
	case len(s.name) == 0 && isSpace(c):
	case inElementName(c):
		s.name = append(s.name, lower(c))
		if !s.mayBegin(string(s.name)) {
			s.refuse(c)
			return
		}
	case (isSpace(c) || c == '>' || c == '/') && s.known(string(s.name)):
		s.at = inTag
		s.takeTag(c)
		return
	default:
		s.refuse(c)
		return
	}
	s.held = append(s.held, c)
}

// takeTag scans a byte of an opening tag after its name.
func (s *XMLScanner) takeTag(c byte) {
	if c == '<' || len(s.held) == maxTag {
		s.refuse(c)
		return
	}
	s.held = append(s.held, c)
	if c != '>' {
		return
	}
	s.opened, s.at = len(s.held), behindTag
	switch {
	case string(s.name) == resultTag:
		s.said = s.read - len(s.held)
		s.held, s.at = s.held[:0], behindResult
	case s.tools[string(s.name)] == "":
		s.out = append(s.out, s.held...)
		s.held, s.at = s.held[:0], inReasoning
	case s.held[len(s.held)-2] == '/': // empty element
		s.finish(nil)
	}
}

// mayBegin reports whether the name of a relevant element may begin with name.
func (s *XMLScanner) mayBegin(name string) bool {
	for e := range s.tools {
		if strings.HasPrefix(e, name) {
			return true
		}
	}
	return !s.begun && slices.ContainsFunc(reasoning[:], func(e string) bool { return strings.HasPrefix(e, name) }) ||
		len(s.calls) > 0 && strings.HasPrefix(resultTag, name)
}

// known reports whether an element of this name is relevant here.
func (s *XMLScanner) known(name string) bool {
	return s.tools[name] != "" || !s.begun && slices.Contains(reasoning[:], name) || name == resultTag
}

// pass outputs a byte of text.
func (s *XMLScanner) pass(c byte) {
	s.out = append(s.out, c)
	s.code.read(c)
	s.begun = s.begun || !isSpace(c)
}

// giveUp outputs held bytes as text.
func (s *XMLScanner) giveUp() {
	switch s.at {
	case inText, inReasoning, behindResult:
		return
	}
	s.at = inText
	for _, c := range s.held {
		s.pass(c)
	}
}

// refuse outputs held bytes as text, since c cannot follow them in a call.
func (s *XMLScanner) refuse(c byte) {
	s.giveUp()
	s.take(c)
}

// finish records the held bytes as a call.
func (s *XMLScanner) finish(body []byte) {
	s.calls = append(s.calls, XMLCall{Name: s.tools[string(s.name)], Arguments: arguments(string(body)), Raw: string(s.held)})
	s.at, s.begun = inText, true
	s.code.skip()
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func inElementName(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= lower(c) && lower(c) <= 'z'
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
