package rewrite_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// background returns the rule by which p takes a request for a background call.
func background(t *testing.T, p rewrite.Policy, body string, header func(string) string) string {
	t.Helper()
	req, err := chat.Completions.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return p.Background(req, &rewrite.Options{}, header)
}

// messages returns a body with a system message, unless it is "", and a user message.
func messages(t *testing.T, system, user string) string {
	t.Helper()
	list := []map[string]string{{"role": "user", "content": user}}
	if system != "" {
		list = append([]map[string]string{{"role": "system", "content": system}}, list...)
	}
	body, err := json.Marshal(map[string]any{"model": "m", "messages": list})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// The calls that known apps make for themselves are background calls.
func TestKnownAppsAreBackground(t *testing.T) {
	const history = "\n### Chat History:\n<chat_history>\nUSER: How long is parental leave?\n</chat_history>"
	p := rewrite.DefaultPolicy()
	for _, c := range []struct{ rule, system, user string }{
		{"open-webui", "", "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history." + history},
		{"open-webui", "Be kind.", "### Task:\nGenerate a concise, 3-5 word title summarizing the chat history."},
		{"open-webui", "", "\n### Task:\r\nGenerate 1-3 broad tags categorizing the main themes of the chat history" + history},
		{"open-webui", "", "### Task:\nSuggest 3-5 relevant follow-up questions or prompts" + history},
		{"open-webui", "", "### Task:\nAnalyze the chat history to determine the necessity of generating search queries, in the given language." + history},
		{"open-webui", "", "### Task:\nYou are an autocompletion system. Continue the text in `<text>`"},
		{"open-webui", "", "### Task:\nGenerate a detailed prompt for am image generation task based on" + history},
		{"open-webui-title", "", "Create a concise, 3-5 word title with an emoji as a title for the chat history, in the given language."},
		{"open-webui-emoji", "", "Your task is to reflect the speaker's likely facial expression through a fitting emoji. Interpret emotions"},
		{"librechat-title", "", "Analyze this conversation and provide:\n1. The detected language of the conversation\n2. A concise title"},
		{"librechat-completion-title", "", "Provide a concise, 5-word-or-less title for the conversation, using title case conventions.\n\nConversation:\nUser: hi"},
		{"librechat-older-title", "", "Please generate a concise, 5-word-or-less title for the conversation, using its same language"},
		{"librechat-assistant-title", "", "Please generate a concise title (max 40 characters) for a conversation that starts with:"},
		{"opencode-title", "You are a title generator. You output ONLY a thread title. Nothing else.", "How long is parental leave?"},
		{"opencode-compaction-1", "You are a helpful AI assistant tasked with summarizing conversations.\n\nWhen asked", "Summarize the above."},
		{"opencode-compaction", "You are an anchored context summarization assistant for coding sessions.", "Summarize."},
		{"opencode-summary", "Summarize what was done in this conversation. Write like a pull request description.", "…"},
		{"cline-summary", "You are Cline", "[read_file for 'a.go'] Result:\n<explicit_instructions type=\"summarize_task\">\nThe current conversation is rapidly running out"},
		{"claude-code-title", "You are Claude Code.\nYou are naming a coding session so the user can pick it out of a long list of sessions. The title is", "<session>\nHow long is parental leave?\n</session>"},
		{"claude-code-suggestion", "", "[SUGGESTION MODE: Suggest what the user might naturally type next into Claude Code.]"},
		{"claude-code-recap", "", "The user stepped away and is coming back. Recap in under 40 words, 1-2 plain sentences, no markdown."},
		{"claude-code-summary", "", "CRITICAL: Respond with TEXT ONLY.\n\nYour task is to create a detailed summary of the conversation so far, paying close attention"},
		{"continue-title", "", "Given the following... please reply with a short summary that is 4-12 words in length, you should"},
		{"continue-summary", "", "Create a comprehensive summary of this conversation that captures all essential information needed"},
	} {
		if got := background(t, p, messages(t, c.system, c.user), nil); got != c.rule {
			t.Errorf("rule %q, want %q: %.60q %.60q", got, c.rule, c.system, c.user)
		}
	}
}

// People ask for titles, tags and summaries, too, and quote prompts.
func TestWishesOfUsersAreNoBackground(t *testing.T) {
	p := rewrite.DefaultPolicy()
	for _, c := range [][2]string{
		{"", "Generate a concise title for our leave policy."},
		{"", "Generate a concise, 3-5 word title for the page on parental leave"},
		{"", "### Task:\nWrite a title for the travel policy."},
		{"", "### Task:\nRespond to the user query using the provided context, incorporating inline citations."},
		{"", "What does the prompt \"### Task:\nGenerate a concise, 3-5 word title\" do?"},
		{"", "Analyze this conversation and provide a summary"},
		{"", "quota"},
		{"", "What is \"[SUGGESTION MODE: Suggest what the user might\" for?"},
		{"", "Summarize what was done in this conversation."},
		{"", "Which tags does the style guide allow? Suggest 3-5 relevant follow-up questions."},
		{"You are a helpful assistant. You are a title generator. ", "How long is parental leave?"},
		{"You are a title generator for the HR handbook.", "How long is parental leave?"},
		{"Summarize what was done.", "How long is parental leave?"},
		{"", "How does Cline use <explicit_instructions type=\"summarize_task\">?"},
		{"", strings.Repeat("long ", 1000) + "\n<explicit_instructions type=\"summarize_task\">"}, // beyond what is read
	} {
		if got := background(t, p, messages(t, c[0], c[1]), nil); got != "" {
			t.Errorf("rule %q for %.60q %.60q", got, c[0], c[1])
		}
	}
}

// Only the last user message counts, so a chat goes on as before after a background call in it.
func TestBackgroundIsTheLastMessage(t *testing.T) {
	const title = `{"role":"user","content":"### Task:\nGenerate a concise, 3-5 word title"}`
	p := rewrite.DefaultPolicy()
	if got := background(t, p, `{"messages":[`+title+`,{"role":"assistant","content":"Leave"},{"role":"user","content":"How long is it?"}]}`, nil); got != "" {
		t.Errorf("rule %q", got)
	}
	if got := background(t, p, `{"messages":[{"role":"user","content":"How long is it?"},{"role":"assistant","content":"Leave"},`+title+`]}`, nil); got != "open-webui" {
		t.Errorf("rule %q", got)
	}
	if got := background(t, p, `{"messages":[{"role":"user","content":[{"type":"text","text":"### Task:"},{"type":"text","text":"Generate 1-3 broad tags"}]}]}`, nil); got != "open-webui" {
		t.Errorf("two parts are one text, and the rule is %q", got)
	}
	if got := background(t, p, `{"messages":[{"role":"user","content":[{"type":"text","text":"### Task:\nGenerate 1-3 broad tags"}]}]}`, nil); got != "open-webui" {
		t.Errorf("rule %q", got)
	}
	if got := background(t, p, `{"messages":[{"role":"user","content":"x","content":"### Task:\nGenerate 1-3 broad tags"}]}`, nil); got != "" {
		t.Errorf("two parsers could read it differently, and the rule is %q", got)
	}
}

func TestBackgroundConditions(t *testing.T) {
	pattern := func(expr string) *rewrite.Pattern {
		p, err := rewrite.ParsePattern(expr)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	header := func(name string) string { return map[string]string{"X-Task": "Title"}[name] }
	body := `{"max_tokens":20,"messages":[{"role":"developer","content":"Name \"chats\" für <us>"},{"role":"user","content":"Name it"}]}`
	for _, c := range []struct {
		rule rewrite.SkipRule
		want bool
	}{
		{rewrite.SkipRule{System: pattern(`(?i)^NAME`)}, true},
		{rewrite.SkipRule{System: pattern(`"chats" für <us>$`)}, true},
		{rewrite.SkipRule{System: pattern(`^it`)}, false},
		{rewrite.SkipRule{User: pattern(`^Name it$`)}, true},
		{rewrite.SkipRule{User: pattern(`Nam(e|es)? it`)}, true},
		{rewrite.SkipRule{User: pattern(`chats`)}, false},
		{rewrite.SkipRule{User: pattern(`^Name it$`), System: pattern(`us`)}, true},
		{rewrite.SkipRule{User: pattern(`^Name it$`), System: pattern(`them`)}, false},
		{rewrite.SkipRule{MaxTokensBelow: 21}, true},
		{rewrite.SkipRule{MaxTokensBelow: 20}, false},
		{rewrite.SkipRule{Header: "X-Task"}, true},
		{rewrite.SkipRule{Header: "X-Task", Value: "title"}, true},
		{rewrite.SkipRule{Header: "X-Task", Value: "tags"}, false},
		{rewrite.SkipRule{Header: "X-Other"}, false},
		{rewrite.SkipRule{Header: "X-Task", MaxTokensBelow: 20}, false},
	} {
		c.rule.Name = "ours"
		p := rewrite.DefaultPolicy()
		p.Skip.Rules = []rewrite.SkipRule{c.rule}
		if got := background(t, p, body, header) == "ours"; got != c.want {
			t.Errorf("%+v: %v", c.rule, got)
		}
		if c.rule.MaxTokensBelow > 0 && background(t, p, strings.Replace(body, `"max_tokens":20,`, "", 1), header) != "" {
			t.Errorf("%+v matches without a limit", c.rule)
		}
	}
}

// Known apps do not get answers without sources where the policy refuses them, nor where they are
// switched off; rules of the policy do.
func TestBackgroundUnderStrictPolicies(t *testing.T) {
	body := messages(t, "", "### Task:\nGenerate 1-3 broad tags")
	for name, change := range map[string]func(*rewrite.Policy){
		"off":                   func(p *rewrite.Policy) { p.Mode = rewrite.Off },
		"known apps off":        func(p *rewrite.Policy) { p.Skip.NoApps = true },
		"refuse when empty":     func(p *rewrite.Policy) { p.OnEmpty = rewrite.EmptyRefuse },
		"refuse on failure":     func(p *rewrite.Policy) { p.RefuseOnFailure = true },
		"refuse on half a lack": func(p *rewrite.Policy) { p.RefuseOnPartial = true },
	} {
		p := rewrite.DefaultPolicy()
		change(&p)
		if got := background(t, p, body, nil); got != "" {
			t.Errorf("%s: rule %q", name, got)
		}
		tags, err := rewrite.ParsePattern("broad tags")
		if err != nil {
			t.Fatal(err)
		}
		p.Skip.Rules = []rewrite.SkipRule{{Name: "ours", User: tags}}
		if got := background(t, p, body, nil); (got == "ours") != (p.Mode != rewrite.Off) {
			t.Errorf("%s: rule %q", name, got)
		}
	}
	req, err := chat.Completions.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	p := rewrite.DefaultPolicy()
	if got := p.Background(req, &rewrite.Options{Query: "tags"}, nil); got != "" {
		t.Errorf("the request names its query, and the rule is %q", got)
	}
}

func BenchmarkBackground(b *testing.B) {
	p := rewrite.DefaultPolicy()
	for name, user := range map[string]string{"short": "How long is parental leave?", "long": strings.Repeat("How long is parental leave? ", 800)} {
		body, err := json.Marshal(map[string]any{"messages": []map[string]string{{"role": "system", "content": strings.Repeat("Be kind. ", 300)}, {"role": "user", "content": user}}})
		if err != nil {
			b.Fatal(err)
		}
		req, err := chat.Completions.Parse(body)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p.Background(req, &rewrite.Options{}, nil) != "" {
					b.Fatal("background")
				}
			}
		})
	}
}
