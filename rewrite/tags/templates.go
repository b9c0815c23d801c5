package tags

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A template lists the tokens with which the chat templates of a family of models delimit turns,
// roles, tools and media. A server that finds such a token in a text may take it for the
// template's own, so that a document could end its turn and begin another one.
//
// In a name '_' also matches the '▁' of SentencePiece, and '#' a number.
type template struct {
	family string
	barred string // <|name|>, also without the second bar
	halved string // <|name> and <name|>
	plain  string // <name> and </name>
	square string // [name] and [/name]
	upper  string // the same, but only in capitals, because manuals write [args] and [prefix]
}

// templates are those of known families. A name used by several families is listed once.
var templates = []template{
	{
		family: "ChatML, GPT, Qwen",
		barred: "im_start im_end im_sep endoftext endofprompt startoftext fim_prefix fim_middle fim_suffix fim_pad repo_name file_sep extra_# pad " +
			"object_ref_start object_ref_end box_start box_end quad_start quad_end vision_start vision_end vision_pad image_pad video_pad " +
			"audio audio_bos audio_eos audio_start audio_end audio_pad",
		plain: "think tool_call tool_response",
	},
	{
		family: "harmony (GPT-OSS)",
		barred: "start end message channel constrain return call reserved_#",
	},
	{
		family: "Llama 2",
		plain:  "s bos eos unk pad", // and <<SYS>>; [INST] is listed under Mistral
	},
	{
		family: "Llama 3",
		barred: "begin_of_text end_of_text start_header_id end_header_id eot_id eom_id python_tag finetune_right_pad_id step_id image reserved_special_token_#",
	},
	{
		family: "Llama 4",
		barred: "header_start header_end eot eom step finetune_right_pad patch image_start image_end tile_x_separator tile_y_separator python_start python_end " +
			"text_post_train_reserved_special_token_# vision_reserved_special_token_# reasoning_reserved_special_token_# reasoning_thinking_start reasoning_thinking_end",
	},
	{
		family: "Mistral",
		square: "inst system_prompt available_tools tool_results tool_calls tool_content call_id img_break img_end begin_audio model_settings control_#",
		upper:  "args img audio transcribe prefix middle suffix think",
		plain:  "special_#",
	},
	{
		family: "Gemma",
		barred: "file_separator",
		halved: "turn channel tool tool_call tool_response image audio video think",
		plain:  "start_of_turn end_of_turn start_of_image end_of_image image_soft_token start_of_audio end_of_audio audio_soft_token mask unused#",
	},
	{
		family: "Phi",
		barred: "system user assistant end tool tool_call tool_response placeholder# image_# audio_# dummy_#",
	},
	{
		family: "DeepSeek",
		barred: "begin_of_sentence end_of_sentence user assistant tool_calls_begin tool_calls_end tool_call_begin tool_call_end tool_sep " +
			"tool_outputs_begin tool_outputs_end tool_output_begin tool_output_end fim_begin fim_hole fim_end _pad_ place_holder_no_# search_begin search_end latest_reminder dsml", // <｜DSML｜ begins longer tokens
	},
	{
		family: "Command R",
		barred: "start_of_turn_token end_of_turn_token system_token user_token chatbot_token user_#_token extra_#_token yes_token no_token good_token bad_token " +
			"start_response end_response start_thinking end_thinking start_action end_action start_tool_result end_tool_result start_text end_text start_img end_img new_file " +
			"beginning_of_prefix_fim_token beginning_of_middle_fim_token beginning_of_suffix_fim_token",
		plain: "bos_token eos_token pad_token unk_token mask_token eop_token cls sep",
	},
	{
		family: "Granite",
		barred: "start_of_role end_of_role start_of_cite end_of_cite start_of_plugin end_of_plugin start_of_text",
		plain:  "fim_prefix fim_middle fim_suffix fim_pad",
	},
	{
		family: "GLM",
		barred: "observation nothink begin_of_image end_of_image begin_of_video end_of_video begin_of_audio end_of_audio begin_of_box end_of_box " +
			"begin_of_transcription end_of_transcription code_prefix code_middle code_suffix",
		plain:  "sop eop arg_key arg_value",
		square: "gmask smask",
		upper:  "mask",
	},
	{
		family: "Kimi",
		barred: "im_user im_assistant im_system im_middle tool_calls_section_begin tool_calls_section_end tool_call_argument_begin " +
			"media_start media_begin media_content media_end media_pad",
		square: "start_header_id end_header_id extra_id_#",
		upper:  "bos eos eot pad unk cls sep",
	},
	{
		family: "InternLM",
		barred: "action_start action_end interpreter plugin",
	},
}

// A form is one of the ways in which templates write tokens.
type form struct {
	names   [][]string // by the ASCII character with which they may begin
	others  []string   // all names
	capital bool       // only in capitals
}

// The forms.
var (
	barred = newForm(func(t template) string { return t.barred + " " + t.halved }, false)
	halved = newForm(func(t template) string { return t.halved }, false)
	plain  = newForm(func(t template) string { return t.plain }, false)
	square = newForm(func(t template) string { return t.square }, false)
	upper  = newForm(func(t template) string { return t.upper }, true)
)

func newForm(of func(template) string, capital bool) (f form) {
	f.capital = capital
	f.names = make([][]string, utf8.RuneSelf)
	known := map[string]bool{}
	for _, t := range templates {
		for _, name := range strings.Fields(of(t)) {
			if known[name] {
				continue
			}
			known[name] = true
			f.others = append(f.others, name)
			for c := range rune(utf8.RuneSelf) {
				if first := rune(name[0]); readsAs(c, first) && (!capital || unicode.IsUpper(c)) {
					f.names[c] = append(f.names[c], name)
				}
			}
		}
	}
	return f
}

// candidates returns the names with which text may begin.
func (f *form) candidates(text string) []string {
	if text == "" {
		return nil
	}
	if r, _ := nextChar(text); r < utf8.RuneSelf {
		return f.names[r]
	}
	return f.others
}

// read reads a name at text[i:], followed by what ends accepts, and returns where that ends.
func (f *form) read(text string, i int, ends func(i int) (end int, ok bool)) (end int, ok bool) {
	for _, name := range f.candidates(text[i:]) {
		if end, ok := matchToken(text, i, name, f.capital); ok {
			if end, ok = ends(end); ok {
				return end, true
			}
		}
	}
	return 0, false
}

// disarmedSquare replaces the square bracket of a token; "[" would leave it as it is.
const disarmedSquare = "("

// isSquare and isSquareCloser report whether r is a square bracket or looks like one.
func isSquare(r rune) bool       { return r == '[' || r == '\uff3b' }
func isSquareCloser(r rune) bool { return r == ']' || r == '\uff3d' }

// isBar reports whether r is '|' or looks like it.
func isBar(r rune) bool {
	return strings.ContainsRune("|\uff5c\uffe8\u2502\u2503\u2223\u2758\u2759\u23d0\u01c0", r)
}

// readToken reads a template's token with the bracket r at text[start:open].
func readToken(text string, r rune, start, open int) (t tag, ok bool) {
	t = tag{start: start, open: open, with: disarmedBracket, token: true}
	if isSquare(r) {
		t.with = disarmedSquare
		t.end, ok = readSquare(text, open)
	} else {
		t.end, ok = readPointed(text, open)
	}
	return t, ok
}

// readSquare reads the rest of a token after its square bracket.
func readSquare(text string, i int) (end int, ok bool) {
	i = skipSlash(text, i)
	closes := func(i int) (int, bool) { return accept(text, i, isSquareCloser) }
	if end, ok = square.read(text, i, closes); !ok {
		end, ok = upper.read(text, i, closes)
	}
	return end, ok
}

// readPointed reads the rest of a token after its '<'.
func readPointed(text string, i int) (end int, ok bool) {
	i = skipSlash(text, i)
	if i == len(text) {
		return 0, false
	}
	if inner, ok := accept(text, i, isOpener); ok { // <<SYS>>
		if strings.HasPrefix(text[inner:], " ") || strings.HasPrefix(text[inner:], "\t") { // cin >> s << sys >> t
			return 0, false
		}
		if end, ok = matchToken(text, skipSlash(text, inner), "sys", false); !ok {
			return 0, false
		}
		if end, ok = accept(text, end, isCloser); !ok {
			return 0, false
		}
		return accept(text, end, isCloser)
	}
	behind, first := accept(text, i, isBar)
	if first {
		i = skipSlash(text, behind)
	}
	closes := func(i int) (int, bool) { return accept(text, i, isCloser) }
	if !first {
		if end, ok = plain.read(text, i, closes); ok {
			return end, true
		}
		return halved.read(text, i, func(i int) (end int, ok bool) {
			if end, ok = accept(text, i, isBar); ok {
				end, ok = closes(end)
			}
			return end, ok
		})
	}
	if end, ok = barred.read(text, i, func(i int) (int, bool) {
		if bar, last := accept(text, i, isBar); last {
			i = bar
		}
		return closes(i)
	}); ok {
		return end, true
	}
	if end, ok = matchToken(text, i, "dsml", false); ok {
		end, ok = accept(text, end, isBar)
	}
	return end, ok
}

// accept skips fillers and reads a character for which is returns true.
func accept(text string, i int, is func(rune) bool) (end int, ok bool) {
	for i < len(text) {
		r, size := nextChar(text[i:])
		if is(r) {
			return i + size, true
		}
		if !isFiller(r) {
			break
		}
		i += size
	}
	return i, false
}

// skipSlash returns the end of the fillers and slashes at text[i:].
func skipSlash(text string, i int) int {
	for i < len(text) {
		r, size := nextChar(text[i:])
		if !isSlash(r) && !isFiller(r) {
			break
		}
		i += size
	}
	return i
}

// matchToken reads a template's name at text[i:], as matchName does.
func matchToken(text string, i int, name string, capital bool) (end int, ok bool) {
	digits := 0 // in the number being read
	for name != "" {
		if i == len(text) {
			return i, digits > 0 && name == "#"
		}
		letter := rune(name[0])
		r, size := nextChar(text[i:])
		switch {
		case letter == '#' && unicode.IsDigit(fold(r)):
			digits++
		case letter == '#' && digits > 0 && !isFiller(r):
			name, digits = name[1:], 0
			continue
		case letter == '_' && r == '\u2581', readsAs(r, letter) && (!capital || unicode.IsUpper(r) || letter == '_'):
			name = name[1:]
		case !isFiller(r):
			return 0, false
		}
		i += size
	}
	return i, true
}
