package tokens

import "strings"

// A PromptCache says which part of a prompt an upstream reads again from its cache, at a lower price.
type PromptCache string

// The rules.
const (
	CacheUnknown     PromptCache = ""
	CacheNone        PromptCache = "none"
	CachePrefix      PromptCache = "prefix"        // what begins like an earlier prompt
	CacheBreakpoints PromptCache = "breakpoints"   // what ended at a prompt_cache_breakpoint, or at the last message (OpenAI)
	CacheControl     PromptCache = "cache_control" // what ended at a block with cache_control (Anthropic)
)

// Known reports whether prompts are cached.
func (c PromptCache) Known() bool { return c != CacheUnknown && c != CacheNone }

// Marked reports whether marks in the prompt say what is cached.
func (c PromptCache) Marked() bool { return c == CacheBreakpoints || c == CacheControl }

// promptCaches returns the PromptCache of rows, by name; it is unknown for all others. Sources:
// developers.openai.com/api/docs/guides/prompt-caching, platform.claude.com/docs "Prompt caching",
// ai.google.dev/gemini-api/docs/caching, api-docs.deepseek.com/guides/kv_cache, docs.x.ai and
// platform.moonshot.ai. A server of open models says by its upstream's prompt_cache what it does.
func promptCaches() map[string]PromptCache {
	of := map[string]PromptCache{}
	for c, names := range map[PromptCache]string{
		CacheBreakpoints: "gpt-6* gpt-5.6*",
		CachePrefix: "gpt-5.5* gpt-5.4-mini* gpt-5.4-nano* gpt-5.4* gpt-5.3-chat* gpt-5.3-codex-spark* gpt-5.3* gpt-5.2-chat* gpt-5.2* gpt-5.1-chat* gpt-5.1-codex-mini* " +
			"gpt-5-chat* gpt-5-codex-mini* gpt-5-mini* gpt-5-nano* gpt-5* codex-mini* o1* o3-mini* o3* o4* gpt-4.5* gpt-4.1-mini* gpt-4.1-nano* gpt-4.1* gpt-4o-mini* gpt-4o* " +
			"gemini-2.5* gemini-3* gemini-4* gemini-flash-latest gemini-flash-lite-latest gemini-pro-latest " +
			"deepseek-chat* deepseek-reasoner* deepseek-v4* grok-3* grok-4* grok-code* grok-5* kimi-k3* kimi-k2.5* kimi-k2.* kimi-k2p* kimi-k2-thinking* kimi-k2*",
		CacheControl: "claude-3-7* claude-3.7* claude-3-5* claude-3.5* claude-3* claude-opus-4-8* claude-opus-4.8* claude-opus-4-7* claude-opus-4.7* " +
			"claude-opus-4-6* claude-opus-4.6* claude-opus-4-5* claude-opus-4.5* claude-opus-4* claude-sonnet-4-6* claude-sonnet-4.6* claude-sonnet-4* claude-haiku-4* " +
			"claude-opus-5* claude-sonnet-5* claude-haiku-5* claude-fable-5* claude-mythos* claude*",
	} {
		for _, name := range strings.Fields(names) {
			of[name] = c
		}
	}
	return of
}
