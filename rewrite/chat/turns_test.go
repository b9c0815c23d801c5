package chat_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/rewrite/chat"
)

func digest(t interface {
	Helper()
	Fatal(...any)
}, body string) chat.ConversationDigest {
	t.Helper()
	req, err := chat.Messages.Parse([]byte(body))
	if err != nil {
		t.Fatal(body, err)
	}
	return chat.DigestConversation(req)
}

// A turn is found again in the next one though its client moves cache marks, writes texts as blocks
// and changes the system prompt. Other messages make another conversation.
func TestTurnsAreFoundAgain(t *testing.T) {
	first := digest(t, `{"system":"Be brief.","messages":[{"role":"user","content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]}]}`)
	if first.Previous != (chat.TurnDigest{}) || first.First != first.This {
		t.Errorf("%x", first)
	}
	const answer = `{"role":"assistant","content":"Hello"}`
	second := digest(t, `{"messages":[ {"role":"user","content":"H\u0069"},`+answer+`,{"role":"user","content":"And?"}],"system":"Be long."}`)
	if second.Previous != first.This || second.First != first.First || second.This == first.This {
		t.Errorf("%x\n%x", first, second)
	}
	// Results of tools are turns, too, and a model may have answered in several messages.
	third := digest(t, `{"messages":[{"role":"user","content":"Hi"},`+answer+`,{"role":"user","content":[{"type":"text","text":"And?"}]},`+
		`{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"a":[1,2]}}]},`+answer+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}]}`)
	if third.Previous != second.This {
		t.Errorf("%x\n%x", second, third)
	}
	for _, other := range []string{
		`{"messages":[{"role":"user","content":"Hi!"},` + answer + `,{"role":"user","content":"And?"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"H"},{"type":"text","text":"i"}]},` + answer + `,{"role":"user","content":"And?"}]}`,
		`{"messages":[{"role":"user","content":"Hi"},{"role":"user","content":"Hi"},` + answer + `,{"role":"user","content":"And?"}]}`,
	} {
		if digest(t, other).Previous == first.This {
			t.Errorf("%s continues another conversation", other)
		}
	}
	if got := digest(t, `{"messages":[`+answer+`,{"role":"user","content":"And?"}]}`); got.Previous != (chat.TurnDigest{}) {
		t.Errorf("nothing precedes the answer, but %x", got.Previous)
	}
}

// Each turn of any conversation is the previous one of its next turn.
func TestTurnsFollowEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[a-z\\\n"é]{0,9}`), 1, 6).Draw(t, "texts")
		var messages []string
		var before chat.ConversationDigest
		for i, text := range texts {
			content := fmt.Sprintf("%q", strings.ToValidUTF8(text, ""))
			if rapid.Bool().Draw(t, "as a block") {
				content = `[{"type":"text","text":` + content + `,"cache_control":{"type":"ephemeral"}}]`
			}
			messages = append(messages, `{"role":"user","content":`+content+`}`)
			now := digest(t, `{"messages":[`+strings.Join(messages, ",")+`]}`)
			if i > 0 && (now.Previous != before.This || now.First != before.First) {
				t.Fatalf("turn %d of %s", i, messages)
			}
			before = now
			messages = append(messages, fmt.Sprintf(`{"role":"assistant","content":"%d"}`, i))
		}
	})
}
