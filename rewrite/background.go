package rewrite

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"

	"sidenote/rewrite/chat"
)

// A Skip says which requests are background calls: chat apps ask models for titles, tags and
// summaries of a chat. They are relayed without a search. The zero Skip knows KnownApps only.
type Skip struct {
	Rules  []SkipRule `json:",omitempty"` // in addition to KnownApps
	NoApps bool       `json:",omitempty"` // without KnownApps
}

// A SkipRule recognizes background calls. All of its conditions must hold; a zero field is none.
type SkipRule struct {
	Name           string
	System         *Pattern `json:",omitempty"` // matches the first system or developer message
	User           *Pattern `json:",omitempty"` // matches the last user message
	MaxTokensBelow int      `json:",omitempty"` // the request limits its answer to fewer tokens
	Header         string   `json:",omitempty"` // name of a header that the request has
	Value          string   `json:",omitempty"` // value of that header, in any case; "" for any value
}

// skipHead is how much of a message a pattern sees, in bytes of JSON.
const skipHead = 4 << 10

// A Pattern is a regular expression for the beginning of a message.
type Pattern struct {
	expr *regexp.Regexp
	// Every text that matches begins with prefix and contains literal, both as they are in JSON;
	// they are "" if unknown. They spare decoding nearly all messages.
	prefix, literal string
}

// ParsePattern compiles a regular expression in the syntax of RE2.
func ParsePattern(expr string) (*Pattern, error) {
	compiled, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	p := &Pattern{expr: compiled, literal: literalOf(tree)}
	if rare := strings.IndexAny(p.literal, "_#*|"); rare > 0 && len(p.literal)-rare >= 8 { // a text that begins with a rare byte is found fast
		p.literal = p.literal[rare:]
	}
	if tree.Op == syntax.OpConcat && tree.Sub[0].Op == syntax.OpBeginText && tree.Sub[1].Op == syntax.OpLiteral && tree.Sub[1].Flags&syntax.FoldCase == 0 {
		p.prefix = string(tree.Sub[1].Rune)
		if end := strings.IndexFunc(p.prefix, mayEscape); end >= 0 {
			p.prefix = p.prefix[:end]
		}
	}
	return p, nil
}

// MarshalText returns the expression.
func (p *Pattern) MarshalText() ([]byte, error) { return []byte(p.expr.String()), nil }

// matches reports whether the pattern matches the beginning of a message.
func (p *Pattern) matches(h chat.Head) bool {
	if p.prefix != "" {
		if !h.Begins(p.prefix) {
			return false
		}
	} else if p.literal != "" && !h.Contains(p.literal) {
		return false
	}
	text := h.Text()
	return text != "" && !h.Ambiguous() && p.expr.MatchString(text)
}

// literalOf returns the longest text known to be in every match that JSON writers do not escape.
func literalOf(re *syntax.Regexp) (longest string) {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return ""
		}
		for s := range strings.FieldsFuncSeq(string(re.Rune), mayEscape) {
			if len(s) > len(longest) {
				longest = s
			}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return literalOf(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if s := literalOf(sub); len(s) > len(longest) {
				longest = s
			}
		}
	}
	return longest
}

// mayEscape reports whether some JSON writer escapes r.
func mayEscape(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\/<>&'+=`+"`", r) }

// KnownApps returns the rules for the background calls of open-webui, LibreChat, opencode, Cline,
// Continue and Claude Code. Each matches words that only the app's prompt has. If a user asks for a title in
// other words, the request is searched. The result must not be modified.
var KnownApps = sync.OnceValue(func() []SkipRule {
	pattern := func(expr string) *Pattern {
		p, err := ParsePattern(expr)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		return p
	}
	return []SkipRule{
		{Name: "open-webui", User: pattern(`^### Task:\s+(?:(?:Generate|Create) a concise, 3-5 word title|Generate 1-3 broad tags|Suggest 3-5 relevant follow-up|` +
			`Analyze the chat history to determine the necessity of generating search queries|Generate a detailed prompt for am? image generation|You are an autocompletion system)`)},
		{Name: "open-webui-title", User: pattern(`^Create a concise, 3-5 word (?:title with an emoji as a title for the|phrase as a header for the following)`)}, // until 0.5
		{Name: "open-webui-emoji", User: pattern(`^Your task is to reflect the speaker's likely facial expression through a fitting emoji`)},
		{Name: "librechat-title", User: pattern(`^Analyze this conversation and provide:\s+1\. The detected language`)},
		{Name: "librechat-completion-title", User: pattern(`^Provide a concise, 5-word-or-less title for the conversation`)},
		{Name: "librechat-older-title", User: pattern(`^Please generate a concise, 5-word-or-less title for the conversation`)},
		{Name: "librechat-assistant-title", User: pattern(`^Please generate a concise title \(max 40 characters\) for a conversation`)},
		{Name: "opencode-title", System: pattern(`^You are a title generator\.`)},
		{Name: "opencode-compaction", System: pattern(`^You are an anchored context summarization assistant`)},
		{Name: "opencode-compaction-1", System: pattern(`^You are a helpful AI assistant tasked with summarizing conversations`)}, // of earlier versions
		{Name: "opencode-summary", System: pattern(`^Summarize what was done in this conversation\.`)},
		{Name: "cline-summary", User: pattern(`(?:^|\n)<explicit_instructions type="(?:summarize_task|condense)">`)},
		{Name: "continue-title", User: pattern(`^Given the following\.\.\. please reply with a short summary that is 4-12 words`)},
		{Name: "claude-code-title", System: pattern(`You are naming a coding session so the user can pick it out of a long list of sessions\.`)},
		{Name: "claude-code-suggestion", User: pattern(`(?:^|\n)\[SUGGESTION MODE: Suggest what the user might`)},
		{Name: "claude-code-recap", User: pattern(`(?:^|\n)The user stepped away and is coming back\. Recap in under`)},
		{Name: "claude-code-summary", User: pattern(`(?:^|\n)Your task is to create a detailed summary of (?:the|this) conversation`)},
		{Name: "claude-code-quota", User: pattern(`^quota$`), MaxTokensBelow: 2},
		{Name: "continue-summary", User: pattern(`^Create a comprehensive summary of this conversation that captures all essential information`)},
	}
})

// Background returns the name of the rule by which a request is a background call, "" if it is
// none. header returns the value of a header, "" if the request does not have it; nil stands for
// no headers.
//
// A request that brings its own query, texts or chunks is none, and no pattern matches a message
// that two parsers could read differently. KnownApps do not count if the policy refuses to
// answer without sources, because a user could write such a prompt.
func (p *Policy) Background(req *chat.Request, o *Options, header func(name string) string) string {
	if p.Mode == Off || o.Query != "" || o.Components != nil || o.Chunks != nil || o.ChunkResult != nil {
		return ""
	}
	c := call{req, req.SystemHead(skipHead), req.UserHead(skipHead), header}
	if rule := c.matched(p.Skip.Rules); rule != "" {
		return rule
	}
	if p.Skip.NoApps || p.RefuseOnFailure || p.RefuseOnPartial || p.Empty() == EmptyRefuse {
		return ""
	}
	return c.matched(KnownApps())
}

// A call is a request as rules see it.
type call struct {
	req          *chat.Request
	system, user chat.Head
	header       func(name string) string
}

// matched returns the name of the first rule that matches, "" if none does.
func (c *call) matched(rules []SkipRule) string {
	for i := range rules {
		if c.matches(&rules[i]) {
			return rules[i].Name
		}
	}
	return ""
}

// matches reports whether all conditions of the rule hold.
func (c *call) matches(r *SkipRule) bool {
	if r.MaxTokensBelow > 0 && (c.req.MaxTokens == 0 || c.req.MaxTokens >= r.MaxTokensBelow) {
		return false
	}
	if r.Header != "" {
		if c.header == nil {
			return false
		}
		value := c.header(r.Header)
		if value == "" || r.Value != "" && !strings.EqualFold(value, r.Value) {
			return false
		}
	}
	return (r.System == nil || r.System.matches(c.system)) && (r.User == nil || r.User.matches(c.user))
}
