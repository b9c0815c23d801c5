package chat

import (
	"bytes"
	"fmt"
	"strconv"
)

// limitKeys are the members of a body that affect the length and number of answers, on the routes
// chat completions, completions, responses and embeddings.
var (
	limitKeys = []string{
		"model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of", "prompt", "input", "service_tier",
	}
	streamKeys = []string{"include_usage"}
)

// A Member is the value of a key of a body.
type Member struct {
	Span      // of the value; zero if the key is missing
	Kind Kind // of the value; KindMissing if the key is missing
	N    int  // the value of a number
}

// Given reports whether there is a value other than null.
func (m Member) Given() bool { return m.Kind != KindMissing && m.Kind != KindNull }

// Limits are the members of a body that determine how much the answer may cost.
type Limits struct {
	Body   []byte
	Model  string // "" if the body names none
	Stream bool
	// ServiceTier selects the upstream's prices; "" if the body names none.
	ServiceTier string

	First int // offset after the opening brace of the body, where a member can be inserted
	Empty bool

	StreamOptions Member // the whole object
	IncludeUsage  Member // stream_options.include_usage; KindBool with N 1 is true
	OtherOptions  bool   // StreamOptions has other members

	MaxTokens, MaxCompletionTokens, MaxOutputTokens Member
	Choices                                         int    // n, or best_of if larger; 1 if neither is given
	Texts                                           int    // number of texts in prompt or input, each of which is answered; 1 if it is not a list
	Prompt                                          Member // prompt or input
}

// The largest accepted values of members that multiply the cost of an answer.
const (
	maxChoices = 128 // OpenAI's own limit of n
	maxLimit   = 100_000_000
)

// ReadLimits reads the limits of a body of any listed route in one pass. It returns an *Error:
// NotJSON; Ambiguous, if another server could read other limits; NotChat, if a limit has a value
// that servers refuse or, worse, take for "no limit", such as -1 or "5".
func ReadLimits(body []byte) (*Limits, error) {
	l := new(Limits)
	if err := new(Parser).ReadLimits(body, l); err != nil {
		return nil, err
	}
	return l, nil
}

// ReadLimits is like the function ReadLimits but allocates less. A Request that p has parsed
// remains valid and may be of the same body.
func (p *Parser) ReadLimits(body []byte, l *Limits) error { return p.readLimits(body, l, 1) }

// ReadMessageLimits is like ReadLimits for the messages route, where max_tokens may be 0: such a
// request only fills the upstream's cache.
func (p *Parser) ReadMessageLimits(body []byte, l *Limits) error { return p.readLimits(body, l, 0) }

func (p *Parser) readLimits(body []byte, l *Limits, least int) error {
	*l = Limits{Body: body, Choices: 1, Texts: 1}
	p.scanner, p.shape, p.keys = scanner{b: body, loneSurrogate: -1}, nil, keySet{}
	r := limitReader{p, l, least}
	if k := r.kind(); k != KindObject {
		r.value()
		r.end()
		r.fail(NotJSON, "body is %s, not an object", k)
		return r.err
	}
	l.First, l.Empty = r.i+1, true
	level := r.keys.level()
	r.object(func(key Span, escaped bool) {
		l.Empty = false
		name, _ := r.key(level, "", key, escaped, limitKeys)
		r.member(name)
	})
	r.end()
	switch {
	case r.err != nil:
		return r.err
	case r.keys.err != nil:
		return r.keys.err
	case r.shape != nil:
		return r.shape
	}
	return nil
}

// A limitReader collects the members of limitKeys.
type limitReader struct {
	*Parser
	l     *Limits
	least int // smallest max_tokens accepted
}

func (r limitReader) member(name string) {
	k := r.kind()
	switch name {
	case "model":
		if v := r.value(); k == KindString && r.err == nil {
			raw := v.Of(r.b)
			if text := raw[1 : len(raw)-1]; string(text) == r.r.Model && bytes.IndexByte(text, '\\') < 0 {
				r.l.Model = r.r.Model // reuse the string
				break
			}
			r.l.Model = Unquote(raw)
		}
	case "stream":
		v := r.value()
		if r.l.Stream = k == KindBool && r.b[v.Start] == 't'; k != KindBool && k != KindNull {
			r.refuse(name, v, "a boolean")
		}
	case "stream_options":
		r.streamOptions(k)
	case "max_tokens":
		r.l.MaxTokens = r.number(name, k, r.least, maxLimit)
	case "max_completion_tokens":
		r.l.MaxCompletionTokens = r.number(name, k, 1, maxLimit)
	case "max_output_tokens":
		r.l.MaxOutputTokens = r.number(name, k, 1, maxLimit)
	case "n", "best_of":
		r.l.Choices = max(r.l.Choices, r.number(name, k, 1, maxChoices).N)
	case "prompt", "input":
		r.prompt(k)
	case "service_tier":
		r.l.ServiceTier = r.tier(k)
	default:
		r.value()
	}
}

// number reads a whole number between least and most, or null.
func (r limitReader) number(name string, k Kind, least, most int) Member {
	v := r.value()
	m := Member{Span: v, Kind: k}
	if k == KindNull || r.err != nil {
		return m
	}
	n, err := strconv.Atoi(string(v.Of(r.b)))
	if k != KindNumber || err != nil || n < least || n > most {
		r.refuse(name, v, fmt.Sprintf("a whole number from %d to %d", least, most))
		return m
	}
	m.N = n
	return m
}

// maxShown is the number of bytes of a value shown in an error.
const maxShown = 40

// refuse records that a value is not what it should be.
func (r limitReader) refuse(name string, v Span, want string) {
	if r.shape == nil && r.err == nil {
		raw := v.Of(r.b)
		r.shape = &Error{Reason: NotChat, Param: name, Message: fmt.Sprintf("%s: %.*s is not %s", name, maxShown, raw, want)}
	}
}

func (r limitReader) streamOptions(k Kind) {
	r.l.StreamOptions = Member{Kind: k}
	if k != KindObject {
		r.l.StreamOptions.Span = r.value()
		return
	}
	level := r.keys.level()
	r.l.StreamOptions.Span = r.object(func(key Span, escaped bool) {
		name, _ := r.key(level, "stream_options.", key, escaped, streamKeys)
		k := r.kind()
		v := r.value()
		switch {
		case r.err != nil:
		case name == "":
			r.l.OtherOptions = true
		default:
			r.l.IncludeUsage = Member{Span: v, Kind: k}
			if k == KindBool && r.b[v.Start] == 't' {
				r.l.IncludeUsage.N = 1
			} else if k != KindBool && k != KindNull {
				r.refuse("stream_options.include_usage", v, "a boolean")
			}
		}
	})
	r.keys.leave(level)
}

// prompt reads a text, a list of texts, a list of tokens, or a list of lists of tokens.
func (r limitReader) prompt(k Kind) {
	if k != KindArray {
		r.l.Prompt = Member{Span: r.value(), Kind: k}
		return
	}
	texts := 0
	v := r.array(func(int) {
		if k := r.kind(); k != KindNumber {
			texts++
		}
		r.value()
	})
	r.l.Prompt, r.l.Texts = Member{Span: v, Kind: k}, max(r.l.Texts, texts)
}
