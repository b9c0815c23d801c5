package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/rewrite/tags"
)

// A messagesClient is a client of the Messages API that people use, and what it does there.
type messagesClient struct {
	name       string
	ways       []string // whole, stream
	told       told
	requests   int  // how many it sends, with those that count tokens
	showsCited bool // it gives its user the citations
	threads    bool // it sends new messages only, as the upstream keeps the others
}

// What Claude Code tells, which reads a file or does not.
var (
	readAnswer  = told{Text: rainyAnswer.Text, Calls: []toldCall{{"Read", `{"file_path":"weather.txt"}`}}, Tokens: 252}
	plainAnswer = told{Text: rainyAnswer.Text, Calls: []toldCall{}, Tokens: 126}
)

// messagesClients are the clients that testdata/clients has programs for, by language.
var messagesClients = map[string][]messagesClient{
	"python": {
		{"anthropic", bothWaysOfAsking, rainyAnswer, 3, true, false},
		{"runner", bothWaysOfAsking, rainyAnswer, 2, true, true},
		{"parsed", bothWaysOfAsking, parsedAnswer, 1, true, false},
		{"langchain", bothWaysOfAsking, rainyAnswer, 2, true, false},
		{"pydantic-ai", bothWaysOfAsking, rainyAnswer, 2, false, false},
		{"claude-code", []string{"stream"}, readAnswer, 2, false, false},
		{"claude-code-plain", []string{"stream"}, plainAnswer, 1, false, false},
	},
	"javascript": {
		{"anthropic", bothWaysOfAsking, rainyAnswer, 3, true, false},
		{"runner", bothWaysOfAsking, rainyAnswer, 2, true, true},
		{"parsed", bothWaysOfAsking, parsedAnswer, 1, true, false},
		{"ai", bothWaysOfAsking, rainyAnswer, 2, true, false},
	},
}

func anyClient(messagesClient) bool { return true }

// eachMessagesClient runs a test for each client that of selects and each way of asking. run returns what the client is told
// by the server at a URL.
func eachMessagesClient(t *testing.T, of func(c messagesClient) bool, test func(t *testing.T, c messagesClient, run func(url string) told)) {
	t.Helper()
	commands := otherClients(t, "messages")
	for language, clients := range messagesClients {
		for _, c := range clients {
			if !of(c) {
				continue
			}
			for _, way := range c.ways {
				t.Run(language+"/"+c.name+"/"+way, func(t *testing.T) {
					test(t, c, func(url string) told {
						t.Helper()
						all := runClient(t, commands[language], url, way == "stream", c.name)
						if len(all) != 1 {
							t.Fatalf("%d answers", len(all))
						}
						return all[0]
					})
				})
			}
		}
	}
}

// Clients of the Messages API get right answers and calls of their tools. Each of their requests
// reaches the upstream with the sources, at the place that the policy says, and otherwise as they
// send it where there is no Sidenote.
func TestClientsMessages(t *testing.T) {
	eachMessagesClient(t, anyClient, func(t *testing.T, c messagesClient, run func(url string) told) {
		direct := newClaude(t, false)
		want := c.told
		if want.Cited = nil; c.showsCited {
			want.Cited = []string{}
		}
		if diff := cmp.Diff(want, run(direct.URL)); diff != "" {
			t.Fatal("without Sidenote:", diff)
		}
		if c.showsCited && !c.threads { // the last request of a thread has no sources, so that nothing tells what [1] is
			want.Cited = c.told.Cited
		}
		for policy, place := range map[string]string{"annotations: on": "system", "annotations: on, history: input, placement: last_user": "user"} {
			up := newClaude(t, false)
			if diff := cmp.Diff(want, run(up.behind(policy))); diff != "" {
				t.Errorf("%s: %s", policy, diff)
			}
			if len(up.requests) != c.requests || len(direct.requests) != c.requests {
				t.Fatalf("%s: %d requests, without Sidenote %d, want %d", policy, len(up.requests), len(direct.requests), c.requests)
			}
			for i := range up.requests {
				sent, got := withoutChance(direct.requests[i].body), withoutChance(up.requests[i].body)
				if c.threads && i > 0 { // the upstream has the sources
					if !bytes.Equal(sent, got) {
						t.Errorf("%s: %s", policy, cmp.Diff(string(sent), string(got)))
					}
					continue
				}
				block := insertedInto(t, sent, got)
				if back := bytes.Replace(got, block, nil, 1); !bytes.Equal(back, sent) {
					t.Errorf("%s: outside the insertion: %s", policy, cmp.Diff(string(sent), string(back)))
				}
				if !bytes.Contains(block, []byte("16 weeks")) {
					t.Errorf("%s: inserted %s", policy, block)
				}
				if at := up.asked[i].placesOf(tags.SourcesOpen); !slices.Equal(at, []string{place}) {
					t.Errorf("%s: the sources are in %q, want %s", policy, at, place)
				}
			}
		}
	})
}

// Sources that are search results are cited by the model itself, and clients get its citations.
func TestClientsMessagesSearchResults(t *testing.T) {
	eachMessagesClient(t, anyClient, func(t *testing.T, c messagesClient, run func(url string) told) {
		want := c.told
		switch {
		case !c.showsCited:
			want.Cited = nil
		case len(want.Cited) > 0:
			want.Cited = []string{"Leave policy > Parental leave"}
		}
		up := newClaude(t, false)
		if diff := cmp.Diff(want, run(up.behind("sources: {format: search_result}"))); diff != "" {
			t.Error(diff)
		}
		place, text := "user", "search_result"
		if c.name == "parsed" { // an answer in a format cannot cite
			place, text = "system", tags.SourcesOpen
		}
		for i := range up.asked {
			if at := up.asked[i].placesOf(text); !slices.Equal(at, []string{place}) {
				t.Errorf("request %d: sources in %q", i+1, at)
			}
		}
	})
}

// Clients of the Messages API get right answers, and calls of their own tools alone, from a model
// that searches: first by itself, then beside a call of theirs. The upstream gets each call with its
// result.
func TestClientsMessagesTools(t *testing.T) {
	eachMessagesClient(t, anyClient, func(t *testing.T, c messagesClient, run func(url string) told) {
		up := newClaude(t, true)
		want, rounds := c.told, 1
		if c.threads { // tools are not offered there
			rounds = 0
		}
		want.Tokens += int64(126 * rounds)
		want.Cited = nil
		if c.showsCited {
			want.Cited = []string{}
		}
		if diff := cmp.Diff(want, run(up.behind("mode: tools"))); diff != "" {
			t.Error(diff)
		}
		last := up.asked[len(up.asked)-1]
		if len(up.requests) != c.requests+rounds || last.hasResult("16 weeks") != (rounds > 0) {
			t.Errorf("%d requests, the last %s", len(up.requests), up.requests[len(up.requests)-1].body)
		}
	})
}

// A client gets one answer, whole or as a stream, where Sidenote asks the model in stages. The last of
// them has the format that the client asks for.
func TestClientsMessagesStaged(t *testing.T) {
	parsed := func(c messagesClient) bool { return c.name == "parsed" } // the others have tools, which stages do not carry
	eachMessagesClient(t, parsed, func(t *testing.T, c messagesClient, run func(url string) told) {
		up := newClaude(t, false)
		want := c.told
		want.Tokens = 252 // of two stages
		if diff := cmp.Diff(want, run(up.behind("mode: staged, stages: brief"))); diff != "" {
			t.Error(diff)
		}
		if len(up.asked) != 2 {
			t.Fatalf("%d requests", len(up.asked))
		}
		if up.asked[0].OutputConfig.Format != nil || up.asked[1].OutputConfig.Format == nil {
			t.Errorf("formats %v and %v", up.asked[0].OutputConfig.Format, up.asked[1].OutputConfig.Format)
		}
		for i, text := range []string{tags.SourcesOpen, `<stage name="evidence">`} {
			if at := up.asked[i].placesOf(text); !slices.Equal(at, []string{"user"}) {
				t.Errorf("request %d: %s in %q", i+1, text, at)
			}
		}
	})
}

// behind starts Sidenote before the upstream, with a policy, and returns its URL.
func (u *claude) behind(policy string) string {
	u.t.Helper()
	file := written(u.t, "sidenote.yaml", fmt.Sprintf("upstream: %s/v1\nknowledge: {handbook: %q}\npolicies: {default: {%s}}\n", u.URL, handbook(u.t), policy))
	return serve(u.t, "--config", file).data
}

// placesOf returns the roles of the messages that contain a text; system is the first of them.
func (r *claudeRequest) placesOf(text string) (roles []string) {
	for _, m := range append([]claudeMessage{{"system", r.System}}, r.Messages...) {
		if strings.Contains(fmt.Sprint(m.Content), text) {
			roles = append(roles, m.Role)
		}
	}
	return roles
}
