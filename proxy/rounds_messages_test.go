package proxy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/tenant"
)

// askBlocks sends a Messages request with the application's tool and returns the content of the
// answer.
func askBlocks(t *testing.T, addr string, stream bool, thinking string, messages []any) (a blocksAnswer, content []map[string]any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"model": "m", "max_tokens": 4096, "stream": stream, "messages": messages, "thinking": map[string]any{"type": thinking},
		"tools": []any{map[string]any{"name": "weather", "input_schema": map[string]string{"type": "object"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post("http://"+addr+"/v1/messages", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if a, err = readBlocksAnswer(played{status: resp.StatusCode, header: resp.Header, body: string(all)}); err != nil {
		t.Fatalf("%v: %d %s", err, resp.StatusCode, all)
	}
	if s := string(all); strings.Contains(s, "search_knowledge") || strings.Contains(s, "read_knowledge") {
		t.Errorf("the client gets calls of ours: %s", s)
	}
	var message struct{ Content []map[string]any }
	if err := json.Unmarshal(a.raw, &message); err != nil {
		t.Fatal(err)
	}
	return a, message.Content
}

// A conversation whose calls of our tools the client never saw goes on, whether or not the client
// sends back the thinking, and whether or not the turns before are still stored. Each request keeps
// Anthropic's rules, and if the turns are stored, the last one has each message of the model with the
// blocks that it wrote.
func TestMessagesContinueRounds(t *testing.T) {
	const (
		search = `call search_knowledge {"query":"parental leave"}`
		both   = search + "\ncall weather {\"city\":\"Bern\"}"
	)
	for name, texts := range map[string][]string{
		"both in the first round":            {"reasoning Two things.\n" + both, "text It is 16 weeks, and it rains."},
		"theirs after a round of ours":       {"reasoning First ours.\n" + search, "call weather {}", "text It rains."},
		"thinking in each round":             {"reasoning Ours.\n" + search, "reasoning Theirs.\ncall weather {}", "text It rains."},
		"both after a round of ours":         {"reasoning Ours.\n" + search, "call read_knowledge {\"refs\":[\"kb-acme:leave.md:0\"]}\ncall weather {}", "text It rains."},
		"text before a call of ours":         {"reasoning Ours.\ntext I look.\n" + search, "call weather {}", "text It rains."},
		"both after text and a round":        {"reasoning Ours.\ntext I look.\n" + search, "reasoning Both.\ntext Now.\n" + both, "text It rains."},
		"both twice":                         {"reasoning Two things.\n" + both, "text More.\n" + strings.Replace(both, "parental leave", "paid leave", 1), "text Done."},
		"ours after the client's result":     {"reasoning Two things.\n" + both, strings.Replace(search, "parental", "paid", 1), "text Done."},
		"theirs alone":                       {"reasoning Theirs.\ncall weather {}", "text It rains."},
		"ours in the last round":             {"reasoning Ours.\n" + search, strings.Replace(search, "parental", "paid", 1)},
		"both in the last round":             {"reasoning Ours.\n" + search, strings.Replace(both, "parental", "paid", 1), "text It rains."},
		"text, then ours alone, and a reply": {"reasoning Ours.\ntext I look.\n" + search, "text It is 16 weeks."},
	} {
		for _, way := range []string{"as it is", "without thinking", "not stored", "hidden text"} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%t", name, way, stream), func(t *testing.T) {
					t.Parallel()
					d := dialogueOf(t, append(slices.Clone(texts), "text Bye.")...)
					u := answertest.StartMessages(t, d, answertest.BlockHabits()[0])
					cfg := withTools(t, u.URL, func(p *tenant.Policy) {
						p.Tools.HidePreamble = way == "hidden text"
						if p.Tools.MaxTokens = 16000; strings.HasSuffix(name, "in the last round") {
							p.Tools.MaxRounds = 2
						}
					})
					if way != "not stored" {
						cfg = remembersTurns(cfg)
					}
					g := start(t, cfg, nil)
					messages := []any{map[string]any{"role": "user", "content": "How long is leave, and does it rain?"}}
					for asked := 0; ; asked++ {
						if asked > 5 {
							t.Fatal("it does not end")
						}
						thinking := "enabled"
						if way == "without thinking" {
							thinking = "disabled"
						}
						a, content := askBlocks(t, g.addr, stream, thinking, messages)
						if len(a.Content) > 0 && a.Content[len(a.Content)-1].Text == "Bye." {
							break
						}
						var back, results []any
						for _, block := range content {
							if block["type"] == "tool_use" {
								results = append(results, map[string]any{"type": "tool_result", "tool_use_id": block["id"], "content": "It rains."})
							}
							if block["type"] != "thinking" || way != "without thinking" {
								back = append(back, block)
							}
						}
						if len(back) > 0 && back[len(back)-1].(map[string]any)["type"] == "thinking" { // as SDKs do
							back = append(back, map[string]any{"type": "text", "text": "(nothing)"})
						}
						if len(back) > 0 {
							messages = append(messages, map[string]any{"role": "assistant", "content": back})
						}
						if len(results) == 0 {
							results = []any{map[string]any{"type": "text", "text": "Thanks."}}
						}
						messages = append(messages, map[string]any{"role": "user", "content": results})
					}
					if way == "not stored" || way == "without thinking" {
						return
					}
					stored := 0 // answers up to the last one with a call of the client
					for i := range texts {
						if strings.Contains(texts[i], "call weather") {
							stored = i + 1
						}
					}
					got := modelMessages(t, u.Requests()[len(u.Requests())-1])
					if want := scripted(texts[:stored]); len(got) < stored || !slices.Equal(got[:stored], want) {
						t.Errorf("the model's messages became\n%q, want\n%q", got, want)
					}
				})
			}
		}
	}
}

// modelMessages returns the model's messages in a request, as scripted returns them.
func modelMessages(t *testing.T, body []byte) (list []string) {
	t.Helper()
	var request struct {
		Messages []struct {
			Role    string
			Content any
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		t.Fatal(err)
	}
	for _, m := range request.Messages {
		if m.Role != "assistant" {
			continue
		}
		var message []string
		for _, b := range m.Content.([]any) {
			b := b.(map[string]any)
			switch b["type"] {
			case "thinking":
				message = append(message, fmt.Sprint("reasoning ", b["thinking"]))
			case "text":
				message = append(message, fmt.Sprint("text ", b["text"]))
			case "tool_use":
				message = append(message, fmt.Sprint("call ", b["name"]))
			}
		}
		list = append(list, strings.Join(message, ", "))
	}
	return list
}

// scripted returns the answers of a dialogue with the names of calls alone.
func scripted(texts []string) (list []string) {
	for _, text := range texts {
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			if words := strings.Fields(line); words[0] == "call" {
				lines[i] = "call " + words[1]
			}
		}
		list = append(list, strings.Join(lines, ", "))
	}
	return list
}
