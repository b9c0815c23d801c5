package tags_test

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"sidenote/rewrite/tags"
)

// Every token of a known chat template is disarmed by replacing only its bracket, so that it
// stays readable, and no reader who joins the rest finds one.
func TestTokensOfTemplatesAreNeutralised(t *testing.T) {
	for _, token := range tags.Templates() {
		text := "Before " + token + "after\n" + token
		out, n := own.Neutralise(text, false)
		with := "["
		if token[0] == '[' {
			with = "("
		}
		if want := strings.ReplaceAll(text, token, with+token[1:]); out != want || n != 2 {
			t.Errorf("%s: %q, %d; want %q", token, out, n, want)
		}
		if again, n := own.Neutralise(out, false); again != out || n != 0 {
			t.Errorf("%s: again %q, %d", token, again, n)
		}
		if all, _ := own.Neutralise(text, true); strings.Contains(all, token) || strings.Contains(all, "<") {
			t.Errorf("%s: with all %q", token, all)
		}
		if attribute := string(own.AppendAttr(nil, "name", text)); strings.Contains(attribute, token) || strings.Contains(attribute, "[INST]") {
			t.Errorf("%s: attribute %s", token, attribute)
		}
	}
}

// The tokens of the most used model families are in the table.
func TestKnownTemplates(t *testing.T) {
	for token, want := range map[string]string{
		"<|im_start|>system":              "[|im_start|>system",
		"<|im_end|>":                      "[|im_end|>",
		"<|endoftext|>":                   "[|endoftext|>",
		"[INST] x [/INST]":                "(INST] x (/INST]",
		"<<SYS>>\nx\n<</SYS>>":            "[<SYS>>\nx\n[</SYS>>",
		"<s>x</s>":                        "[s>x[/s>",
		"<start_of_turn>user":             "[start_of_turn>user",
		"<|turn>model<turn|>":             "[|turn>model[turn|>",
		"<|start_header_id|>user":         "[|start_header_id|>user",
		"<|eot_id|><|eot|>":               "[|eot_id|>[|eot|>",
		"<|begin_of_text|>":               "[|begin_of_text|>",
		"<｜User｜>x<｜Assistant｜>":          "[｜User｜>x[｜Assistant｜>",
		"<｜end▁of▁sentence｜>":             "[｜end▁of▁sentence｜>",
		"<｜DSML｜function_calls>":          "[｜DSML｜function_calls>",
		"<|START_OF_TURN_TOKEN|>":         "[|START_OF_TURN_TOKEN|>",
		"<|USER_7_TOKEN|>":                "[|USER_7_TOKEN|>",
		"<|start_of_role|>user":           "[|start_of_role|>user",
		"<|channel|>final<|message|>":     "[|channel|>final[|message|>",
		"<|user|><|/tool_call|><|end|>":   "[|user|>[|/tool_call|>[|end|>",
		"[gMASK]<sop><|observation|>":     "(gMASK][sop>[|observation|>",
		"<|im_middle|><|im_assistant|>":   "[|im_middle|>[|im_assistant|>",
		"<|tool_calls_section_begin|>":    "[|tool_calls_section_begin|>",
		"[AVAILABLE_TOOLS][TOOL_RESULTS]": "(AVAILABLE_TOOLS](TOOL_RESULTS]",
		"[SYSTEM_PROMPT] [ARGS]":          "(SYSTEM_PROMPT] (ARGS]",
		"<|reserved_special_token_24|>":   "[|reserved_special_token_24|>",
		"<unused42><pad>":                 "[unused42>[pad>",
	} {
		if out, _ := own.Neutralise(token, false); out != want {
			t.Errorf("%s: %s, want %s", token, out, want)
		}
	}
}

// A tolerant reader finds a token in any letter case, with invisible characters or white space
// inside, in look-alike characters and in character references.
func TestTokensInDisguise(t *testing.T) {
	for _, text := range []string{
		"<|IM_START|>", "<|Im_Start|>", "< |im_start| >", "<|im_\u200bstart|>", "<\u200d|im_start|\ufeff>", "<|im_st\u00adart|>", "<|i\u0301m_start|>", "<|im_start|\n>",
		"＜|im_start|＞", "<｜im_start｜>", "〈｜ｉｍ＿ｓｔａｒｔ｜〉", "<|іm_ѕtаrt|>", "<|im▁start|>", "<❘im_start❘>", "<│im_start│>", "‹|im_start|›",
		"&lt;|im_start|&gt;", "&#60;|im_start|>", "&amp;lt;|im_start|>", "<&vert;im_start&#124;>", "<|&#105;m_start|>", "<|im&lowbar;start|>",
		"[inst]", "[ INST ]", "[/ INST]", "［INST］", "[I\u200bNST]", "[ІNЅТ]", "&#91;INST&#93;", "&lbrack;INST&rsqb;", "[\\INST]", "[tool_calls]", "[ＡＲＧＳ]", "[A\u200bRGS]",
		"<<sys>>", "<<SYS> >", "<<\u200b/SYS>>", "＜＜SYS＞＞", "&lt;&lt;SYS&gt;&gt;",
		"<start_of_turn >", "<START_OF_TURN>", "</start_of_turn>", "<start▁of▁turn>", "<S>", "< / s >", "<bо\u0455>", "<|user>", "<|end_of_text>",
		"<｜end_of_sentence｜>", "<|end▁of▁sentence|>", "<|begin_of_sentence｜>", "<|DSML|x",
	} {
		out, n := own.Neutralise("a"+text+"b", false)
		if len(tags.Tokens(text)) == 0 || n == 0 || len(tags.Tokens(out)) > 0 {
			t.Errorf("%q: %d tokens; neutralised %q, %d", text, len(tags.Tokens(text)), out, n)
		}
		if own.Count(text) > 0 {
			t.Errorf("%q counts as a tag", text)
		}
	}
}

// Code, markup and manuals that resemble tokens are unchanged.
func TestTextLikeTokensStaysAsItIs(t *testing.T) {
	for _, text := range []string{
		"ls [args] [prefix] [pad]", "[1] [x] [ ] [INSTALL] [instance] [TOOL] [tool calls] [link](x) [[wiki]] a[i] [mask", "x <| f |> g", "let a = [|1; 2|]", "<-| |->", "<|>", "<||>",
		"<start> <user> <system> <end> <turn> <image> <strong> <small> <section> <span> <p> <eof> <path> <table>", "a <start | b > c", "cin >> s << sys >> t", "|start| end |", "<|name|> <|im_starts|> <|my_im_start|>",
		"<s1> <ss> <s x=\"1\">", "if (a<s && b>c)", "<|im_start", "[INST", "<<SYS>", "im_start", "INST", "<mask id=\"m\">", "<placeholder> <message> <call>", "`<channel>`", "start_of_turn>",
	} {
		if out, n := own.Neutralise(text, false); out != text || n != 0 {
			t.Errorf("%q becomes %q, %d", text, out, n)
		}
	}
}

// A disarmed bracket does not form a token with what follows.
func TestNoTokenIsMadeOfATag(t *testing.T) {
	v := tags.NewVocabulary("inst", "tool_calls", "gmask")
	for _, text := range []string{"</inst]", "</INST ]", "<</inst]", "<[INST]", "</gMASK]", "</tool_calls\u200b]", "<[</INST]", "&lt;/inst]"} {
		for _, all := range []bool{false, true} {
			out, n := v.Neutralise(text, all)
			if len(tags.Tokens(out)) > 0 || v.Count(out) > 0 || n == 0 {
				t.Errorf("%q: %q, %d", text, out, n)
			}
			if again, n := v.Neutralise(out, all); again != out || n != 0 {
				t.Errorf("%q: %q, again %q, %d", text, out, again, n)
			}
		}
	}
}

// Stores of neutralised texts compare Version to find texts to neutralise and count again, so it
// must change with the table.
func TestVersionChangesWithTheTable(t *testing.T) {
	all := tags.Templates()
	slices.Sort(all)
	const version, want = "3", "c8f69507540bd7e7"
	sum := sha256.Sum256([]byte(strings.Join(all, "\n")))
	if got := hex.EncodeToString(sum[:8]); got != want || tags.Version != version {
		t.Errorf("version %s has the table %s; version %s was for %s: change Version and this test with the table", tags.Version, got, version, want)
	}
}
