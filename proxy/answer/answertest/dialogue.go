package answertest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sidenote/rewrite/goldentest"
)

// A Dialogue is a scripted exchange between a client and an upstream, round by round. As a file it
// is a txtar archive: the section "request" is the client's body, and each section "answer" is the
// upstream's next answer, with one item per line:
//
//	text Let me look.                    another line of the text
//	reasoning They ask about leave.      another line of reasoning_content
//	refusal I cannot help with that.     another line of the refusal
//	call weather {"city":"Bern"}         a call; weather#call_1 sets its id
//	finish length                        the finish reason; default tool_calls with calls, else stop
//	usage 120 8                          tokens of the prompt and of the answer; default 10 and 5
//	status 429 {"error":{…}}             this status and body instead of an answer
//	cut                                  the connection breaks before the finish reason
//	wait                                 send nothing more until the client leaves
type Dialogue struct {
	Name    string
	Request []byte
	Answers []Answer
	Others  map[string][]byte // sections with other names
}

// An Answer is an answer of the upstream.
type Answer struct {
	Text, Reasoning, Refusal string
	Calls                    []Call
	Finish                   string
	PromptTokens, Tokens     int
	Status                   int    // 0: 200
	Body                     string // body of an answer with another status
	Cut, Wait                bool
}

// A Call is a tool call.
type Call struct{ ID, Name, Arguments string } // if ID is "", the server generates one

// Read reads a dialogue.
func Read(t testing.TB, archive *goldentest.Archive) Dialogue {
	t.Helper()
	d := Dialogue{Name: archive.Name, Others: map[string][]byte{}}
	for _, file := range archive.Files {
		switch file.Name {
		case "request":
			d.Request = file.Data
		case "answer":
			a, err := ParseAnswer(string(file.Data))
			if err != nil {
				t.Fatalf("%s: answer %d: %v", d.Name, len(d.Answers)+1, err)
			}
			d.Answers = append(d.Answers, a)
		default:
			d.Others[file.Name] = file.Data
		}
	}
	return d
}

// ParseAnswer parses an answer in the format described at Dialogue.
func ParseAnswer(text string) (Answer, error) {
	a := Answer{PromptTokens: 10, Tokens: 5}
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		if err := a.add(word, rest); err != nil {
			return a, fmt.Errorf("%q: %w", strings.TrimSpace(line), err)
		}
	}
	if a.Finish == "" {
		a.Finish = "stop"
		if len(a.Calls) > 0 {
			a.Finish = "tool_calls"
		}
	}
	return a, nil
}

func (a *Answer) add(word, rest string) (err error) {
	first, second, both := strings.Cut(rest, " ")
	addLine := func(to *string) {
		if *to != "" {
			*to += "\n"
		}
		*to += rest
	}
	switch word {
	case "":
	case "text":
		addLine(&a.Text)
	case "reasoning":
		addLine(&a.Reasoning)
	case "refusal":
		addLine(&a.Refusal)
	case "call":
		name, id, _ := strings.Cut(first, "#")
		if name == "" || !both {
			return fmt.Errorf("a call has a name and arguments")
		}
		a.Calls = append(a.Calls, Call{id, name, second})
	case "finish":
		a.Finish = rest
	case "usage":
		if a.PromptTokens, err = strconv.Atoi(first); err == nil {
			a.Tokens, err = strconv.Atoi(second)
		}
	case "status":
		a.Body = second
		a.Status, err = strconv.Atoi(first)
	case "cut", "wait":
		a.Cut, a.Wait = a.Cut || word == "cut", a.Wait || word == "wait"
	default:
		return fmt.Errorf("no such thing")
	}
	return err
}

// Longest returns the length in characters of the longest text or arguments in the answers, for
// tests that split texts at each position.
func (d *Dialogue) Longest() int {
	longest := 0
	for _, a := range d.Answers {
		texts := []string{a.Text, a.Reasoning, a.Refusal}
		for _, c := range a.Calls {
			texts = append(texts, c.Arguments)
		}
		longest = max(longest, slices.Max(lengths(texts)))
	}
	return longest
}

func lengths(texts []string) []int {
	list := make([]int, len(texts))
	for i, s := range texts {
		list[i] = len([]rune(s))
	}
	return list
}
