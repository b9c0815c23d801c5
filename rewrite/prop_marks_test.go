package rewrite_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// markedBodyGen draws requests of an API with marks of the application, some of them too many or in a
// wrong order, with texts that look like marks, and with odd but valid JSON.
func markedBodyGen(api chat.API, turns int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space") }
		str := func(most int) string {
			if rapid.IntRange(0, 9).Draw(t, "special") == 0 {
				return rapid.SampledFrom([]string{`"cache_control"`, `"prompt_cache_breakpoint"`, `"1h"`, `"\"cache_control\""`, `"\u0022cache_control\u0022:{}"`, `""`, `" "`, `"\u0061\n"`}).Draw(t, "literal")
			}
			b, _ := json.Marshal(textGen(most).Draw(t, "text"))
			return string(b)
		}
		markKinds := []string{"", "", "", `,"prompt_cache_breakpoint":{"mode":"explicit"}`}
		if api == chat.Messages {
			markKinds = []string{"", "", "", `,"cache_control":{"type":"ephemeral"}`, `,"cache_control": {"ttl":"1h","type":"ephemeral"}`, `,"cache_control":null`}
		}
		mark := func() string { return rapid.SampledFrom(markKinds).Draw(t, "mark") }
		textType := func(role string) string {
			if api != chat.Responses {
				return "text"
			}
			if role == "assistant" {
				return "output_text"
			}
			return "input_text"
		}
		parts := func(role string, least int) string {
			var list []string
			for range rapid.IntRange(least, 3).Draw(t, "parts") {
				switch rapid.IntRange(0, 8).Draw(t, "part") {
				case 0:
					list = append(list, map[chat.API]string{chat.Completions: `{"type":"image_url","image_url":{"url":"x"}` + mark() + `}`, chat.Responses: `{"type":"input_image","image_url":"x"` + mark() + `}`, chat.Messages: `{"type":"image","source":{"type":"url","url":"x"}` + mark() + `}`}[api])
				case 1:
					list = append(list, `{"text":`+str(3)+`}`)
				case 2:
					list = append(list, rapid.SampledFrom([]string{`{"type":"novel","content":[7]`, map[chat.API]string{chat.Completions: `{"type":"file","file":{"file_id":"x"}`, chat.Responses: `{"type":"input_file","file_id":"x"`, chat.Messages: `{"type":"document","source":{"type":"url","url":"x"}`}[api]}).Draw(t, "other")+mark()+`}`)
				case 3:
					if role == "assistant" && api == chat.Messages {
						list = append(list, `{"type":"thinking","thinking":"x","signature":"y"}`)
					}
				default:
					list = append(list, `{`+space()+`"type":"`+textType(role)+`",`+space()+`"text":`+str(6)+mark()+space()+`}`)
				}
			}
			return "[" + space() + strings.Join(list, space()+","+space()) + space() + "]"
		}
		content := func(role string) string {
			switch rapid.IntRange(0, 6).Draw(t, "form") {
			case 0:
				if api == chat.Messages {
					return `""`
				}
				return "null"
			case 1:
				return "[]"
			case 2, 3:
				return parts(role, 0)
			}
			return str(8)
		}
		var list []string
		msg := func(role, content string) {
			if rapid.Bool().Draw(t, "role first") {
				list = append(list, `{`+space()+`"role":"`+role+`",`+space()+`"content":`+space()+content+space()+`}`)
			} else {
				list = append(list, `{"content":`+content+`,"role":"`+role+`"}`)
			}
		}
		roles := []string{"system", "developer", "user", "user", "user", "assistant"}
		if api == chat.Messages {
			roles = []string{"user", "user", "assistant", "system"}
		}
		for i := range rapid.IntRange(1, turns).Draw(t, "messages") {
			role := rapid.SampledFrom(roles).Draw(t, "role")
			msg(role, content(role))
			if rapid.IntRange(0, 5).Draw(t, "tools") == 0 {
				switch api {
				case chat.Messages:
					msg("assistant", fmt.Sprintf(`[{"type":"tool_use","id":"t%d","name":"f","input":{"ttl":"1h"}%s}]`, i, mark()))
					msg("user", fmt.Sprintf(`[{"type":"tool_result","tool_use_id":"t%d","content":%s%s}]`, i, str(4), mark()))
				case chat.Completions:
					list = append(list, fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"t%d","type":"function","function":{"name":"f","arguments":"{}"}}]}`, i))
					list = append(list, fmt.Sprintf(`{"role":"tool","tool_call_id":"t%d","content":%s}`, i, str(4)))
				default:
					list = append(list, fmt.Sprintf(`{"type":"function_call","call_id":"t%d","name":"f","arguments":"{}"}`, i))
					list = append(list, fmt.Sprintf(`{"type":"function_call_output","call_id":"t%d","output":%s}`, i, str(4)))
				}
			}
		}
		name := "messages"
		if api == chat.Responses {
			name = "input"
		}
		members := []string{`"` + name + `":` + space() + `[` + space() + strings.Join(list, space()+","+space()) + space() + `]`}
		if api == chat.Responses && rapid.IntRange(0, 5).Draw(t, "string input") == 0 {
			members[0] = `"input":` + str(8)
		}
		some := func(odds int, member string) {
			if rapid.IntRange(0, odds).Draw(t, "some") == 0 {
				members = append(members, member)
			}
		}
		some(1, `"model":"m"`)
		some(2, `"sidenote":{"query":"leave"}`)
		some(2, `"stream":true`)
		switch api {
		case chat.Messages:
			members = append(members, `"max_tokens":1024`)
			some(1, `"system":`+rapid.SampledFrom([]string{"null", `""`, "[]", str(5), parts("system", 1)}).Draw(t, "system"))
			some(4, `"cache_control":{"type":"ephemeral"`+rapid.SampledFrom([]string{"", `,"ttl":"1h"`, `, "ttl": "5m"`}).Draw(t, "ttl")+`}`)
			some(3, `"tools":[{"name":"f","input_schema":{"type":"object"}`+mark()+`}]`)
		default:
			some(4, `"prompt_cache_options":`+rapid.SampledFrom([]string{"null", "{}", `{"mode":"explicit"}`, `{"mode":"implicit","ttl":"30m"}`, `{"mode": "explicit"}`}).Draw(t, "options"))
			some(6, `"prompt_cache_retention":"24h"`)
			some(6, `"tools":[{"type":"function","function":{"name":"f"}}]`)
			if api == chat.Responses {
				members = append(members, `"store":false`)
				some(2, `"instructions":`+rapid.SampledFrom([]string{"null", `""`, str(6)}).Draw(t, "instructions"))
			}
		}
		members = rapid.Permutation(members).Draw(t, "order")
		return space() + "{" + space() + strings.Join(members, space()+","+space()) + space() + "}" + space()
	})
}

// contentOf returns the content as parts, a string as one text part.
func contentOf(t *rapid.T, c json.RawMessage, api chat.API) (parts []map[string]any, isString bool) {
	var s *string
	if len(c) == 0 || string(c) == "null" {
		return nil, false
	}
	if json.Unmarshal(c, &s) == nil {
		kind := "text"
		if api == chat.Responses {
			kind = "input_text"
		}
		return []map[string]any{{"type": kind, "text": *s}}, true
	}
	if err := json.Unmarshal(c, &parts); err != nil {
		t.Fatalf("%v: %s", err, c)
	}
	return parts, false
}

// A cacheMark is one mark of a request.
type cacheMark struct{ hour, ours bool }

// inOrder reports whether the marks for an hour come first, without ours or with it.
func inOrder(marks []cacheMark, ours bool) bool {
	short := false
	for _, m := range marks {
		if m.ours && !ours {
			continue
		}
		if m.hour && short {
			return false
		}
		short = short || !m.hour
	}
	return true
}

// markOf reads a mark; ok is false if v is none.
func markOf(v any) (hour, ok bool) {
	m, ok := v.(map[string]any)
	return ok && m["ttl"] == "1h", ok
}

// Whatever the application sends, a rewrite with marks is JSON, differs in its edits alone, and sets at
// most one mark: behind the application's last text and before what is added, within the upstream's
// limit, never on what takes none, and not before one for a longer time unless the application's are
// so. Sources of earlier turns stay within the window. In the debug build the tokens are counted anew.
func TestMarksHold(t *testing.T) {
	tally := map[string]int{}
	counter := encoding(t, "o200k_base")
	rapid.Check(t, func(t *rapid.T) {
		api := rapid.SampledFrom([]chat.API{chat.Completions, chat.Responses, chat.Messages}).Draw(t, "api")
		body := []byte(markedBodyGen(api, 6).Draw(t, "body"))
		policy := policyGen().Draw(t, "policy")
		policy.Placement = rapid.SampledFrom([]rewrite.Placement{rewrite.PlaceAuto, rewrite.PlaceAuto, rewrite.PlaceSystem, rewrite.PlaceLastUser, rewrite.PlaceSplit}).Draw(t, "placement")
		policy.CacheMarks = rapid.SampledFrom([]rewrite.CacheMarks{"", rewrite.MarksAuto, rewrite.MarksAuto, rewrite.MarksOff}).Draw(t, "marks")
		policy.Repeat = rapid.SampledFrom([]rewrite.Repeat{"", rewrite.RepeatKeep, rewrite.RepeatKeep}).Draw(t, "repeat")
		policy.NoMarks = rapid.IntRange(0, 9).Draw(t, "refused") == 0
		policy.ContextTokens = rapid.SampledFrom([]int{80, 200, 2000}).Draw(t, "budget2")
		if api == chat.Messages {
			policy.SourcesFormat = rapid.SampledFrom([]rewrite.SourcesFormat{rewrite.SourcesTags, rewrite.SourcesPlain, rewrite.SourcesSearchResult}).Draw(t, "format")
		}
		policy.PromptCache = rapid.SampledFrom([]tokens.PromptCache{"", "", tokens.CacheNone, tokens.CachePrefix}).Draw(t, "upstream cache")
		cache := rapid.SampledFrom([]tokens.PromptCache{tokens.CacheUnknown, tokens.CachePrefix, tokens.CacheBreakpoints, tokens.CacheBreakpoints, tokens.CacheControl}).Draw(t, "cache")
		if api == chat.Messages {
			cache = tokens.CacheControl
		}
		window := rapid.SampledFrom([]int{0, 0, 600, 1000, 5000}).Draw(t, "window")
		policy.CountWhole = rapid.Bool().Draw(t, "whole")
		m := model.Model{Row: "test", Encoding: "o200k_base", Counter: counter, SearchResults: true, PromptCache: cache, Window: window, NoSystem: rapid.IntRange(0, 6).Draw(t, "no system") == 0}
		found := rapid.SliceOfN(sourceGen(), 0, 4).Draw(t, "sources")
		rw := rewrite.OneOfMany(&rewrite.Rewriter{Retriever: answering(found), Models: models{m}})
		req, err := api.Parse(body)
		if err != nil {
			t.Fatalf("Parse(%s): %v", body, err)
		}
		options, err := rewrite.ReadOptions(req)
		if err != nil {
			t.Fatal(err)
		}
		if policy.Repeat == rewrite.RepeatKeep {
			if turns := chat.Turns(req); len(turns) > 0 {
				for i := range turns[1:] {
					var e *rewrite.EarlierSources
					if rapid.Bool().Draw(t, "has") {
						text := "<sources>\n" + textGen(10).Draw(t, "old") + "x\n</sources>\n"
						e = &rewrite.EarlierSources{Text: text, Texts: []string{"old"}, Sources: []rewrite.SourceEntry{{ID: 100 - i, Doc: fmt.Sprint(i), Inclusion: rewrite.Included}}}
					}
					options.EarlierSources = append(options.EarlierSources, e)
				}
			}
		}
		res := rw.Rewritten(t.Context(), policy, req, options)
		out := rewrite.ApplyEdits(nil, body, res.Edits)
		editsAreSound(t, body, res.Edits)
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf(format+"\nbody %s\nout  %s\nledger %s %s", append(args, body, out, res.Ledger.CacheMark, res.Ledger.Placement)...)
		}
		if !json.Valid(out) {
			fail("not JSON")
		}
		if _, err := api.Parse(out); err != nil {
			fail("%v", err)
		}
		if window > 0 && res.Outcome == rewrite.Injected {
			w := res.Ledger.Window
			if w.Request+res.Ledger.Grown()+w.ReservedOutput > window {
				fail("window %+v grown %d", w, res.Ledger.Grown())
			}
		}
		tally[string(res.Ledger.CacheMark)]++
		if res.Ledger.Repeated != nil {
			tally["repeated"]++
		}
		var sent, got map[string]json.RawMessage
		_ = json.Unmarshal(body, &sent)
		_ = json.Unmarshal(out, &got)
		op := map[chat.API]string{chat.Messages: "system", chat.Responses: "instructions"}[api]
		list := "messages"
		if api == chat.Responses {
			list = "input"
		}
		for name, v := range sent {
			if name != list && name != op && name != "sidenote" && !bytes.Equal(v, got[name]) {
				fail("%s changed", name)
			}
		}
		addedOptions := false
		for name, v := range got {
			if sent[name] == nil && name != op {
				if name == "prompt_cache_options" && string(v) == `{"mode":"explicit"}` && res.Ledger.CacheMark == rewrite.MarkSet {
					addedOptions = true
					continue
				}
				fail("new member %s", name)
			}
		}
		if !json.Valid(got[list]) || got["sidenote"] != nil {
			fail("field")
		}
		// messages
		type message struct {
			Role    string
			Content json.RawMessage
		}
		items := func(doc map[string]json.RawMessage) (all []message) {
			if op != "" {
				all = append(all, message{"system", doc[op]})
			}
			var list2 []message
			if raw := doc[list]; len(raw) > 0 && raw[0] == '"' {
				list2 = []message{{"user", raw}}
			} else if err := json.Unmarshal(raw, &list2); err != nil {
				fail("%v", err)
			}
			return append(all, list2...)
		}
		before, after := items(sent), items(got)
		if len(after) == len(before)+1 {
			before = append([]message{{after[0].Role, nil}}, before...)
		}
		if len(before) != len(after) {
			fail("%d messages were %d", len(after), len(before))
		}
		var marks []cacheMark
		ours := 0
		name := "prompt_cache_breakpoint"
		if api == chat.Messages {
			name = "cache_control"
			var tools []map[string]any
			_ = json.Unmarshal(sent["tools"], &tools)
			for _, x := range tools {
				if h, ok := markOf(x[name]); ok {
					marks = append(marks, cacheMark{h, false})
				}
			}
		}
		for i := range before {
			if before[i].Role != after[i].Role {
				fail("role")
			}
			was, str := contentOf(t, before[i].Content, api)
			is, _ := contentOf(t, after[i].Content, api)
			if len(is) < len(was) {
				fail("parts lost in message %d", i)
			}
			for k := range is {
				h, marked := markOf(is[k][name])
				if k >= len(was) {
					if marked {
						fail("our part is marked")
					}
					kind := is[k]["type"]
					if kind != "text" && kind != "input_text" && kind != "output_text" && kind != "search_result" {
						fail("new part %v", kind)
					}
					continue
				}
				_, wasMarked := markOf(was[k][name])
				if marked {
					marks = append(marks, cacheMark{h, !wasMarked})
				}
				cp := map[string]any{}
				for n, v := range is[k] {
					cp[n] = v
				}
				if marked && !wasMarked {
					ours++
					if k != len(was)-1 {
						fail("mark is not on the last part")
					}
					if s, ok := is[k]["text"].(string); ok && s == "" || is[k]["type"] == "thinking" || is[k]["type"] == nil {
						fail("mark on %v", is[k])
					}
					delete(cp, name)
				}
				if reflect.DeepEqual(cp, was[k]) {
					continue
				}
				a, b := cp["text"], was[k]["text"]
				delete(cp, "text")
				wk := map[string]any{}
				for n, v := range was[k] {
					if n != "text" {
						wk[n] = v
					}
				}
				delete(wk, "type")
				delete(cp, "type")
				if as, ok := a.(string); str && ok && strings.HasPrefix(as, b.(string)) && len(wk) == len(cp) && !(marked && !wasMarked) {
					continue
				}
				fail("message %d part %d is %v %v was %v %v", i, k, cp, a, wk, b)
			}
		}
		total := len(marks)
		if raw, ok := sent["cache_control"]; ok && api == chat.Messages {
			h := bytes.Contains(raw, []byte("1h"))
			marks = append(marks, cacheMark{h, false})
			total++
		}
		explicit := addedOptions || bytes.Contains(sent["prompt_cache_options"], []byte("explicit"))
		if api != chat.Messages && !explicit {
			total++
		}
		if ours > 1 || ours == 1 != (res.Ledger.CacheMark == rewrite.MarkSet) {
			fail("%d marks of ours", ours)
		}
		if ours > 0 && total > 4 {
			fail("%d marks", total)
		}
		if ours > 0 && api == chat.Messages {
			if inOrder(marks, false) && !inOrder(marks, true) {
				fail("ttl order %+v", marks)
			}
		}
	})
	for _, want := range []string{string(rewrite.MarkSet), string(rewrite.MarkApplication), string(rewrite.MarkFull), string(rewrite.MarkOff), string(rewrite.MarkNoPlace), string(rewrite.MarkRefused), "repeated"} {
		if tally[want] == 0 && !testing.Short() {
			t.Errorf("no case with %q: %v", want, tally)
		}
	}
}
