package main

import (
	"fmt"
	"strings"
)

const (
	model    = "gpt-4o"
	question = "How many weeks of parental leave do I get?"
	// newQuestion has a different number in each request.
	newQuestion = "How many weeks of parental leave do I get in case " + newDigits + "?"
	newDigits   = "0000000000"
)

// chatOf returns a chat request of about n bytes: a system prompt, alternating short questions and
// longer answers, and a last question. It asks for a stream unless answer is answerWhole.
func chatOf(n int, answer string) []byte {
	const line = `We have talked about the weather for a while, and about \"what comes next\", and went on to lunch.\n`
	var s strings.Builder
	openChat(&s)
	for i := 0; s.Len() < n-240; i++ {
		role, lines := "user", 1
		if i%2 == 1 {
			role, lines = "assistant", min(16, (n-s.Len())/len(line)-1)
		}
		fmt.Fprintf(&s, `,{"role":%q,"content":"Turn %d. %s"}`, role, i, strings.Repeat(line, max(lines, 1)))
	}
	return closeChat(&s, answer)
}

// chatOfMessages returns a chat request of n messages, 3 or more, and about size bytes.
func chatOfMessages(n, size int) []byte {
	var s strings.Builder
	openChat(&s)
	each := max(8, size/(n-2)-40)
	for i := range n - 2 {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		fmt.Fprintf(&s, `,{"role":%q,"content":"%d: %s"}`, role, i, strings.Repeat("word and ", each/9+1)[:each])
	}
	return closeChat(&s, answerWhole)
}

func openChat(s *strings.Builder) {
	s.WriteString(`{"model":"` + model + `","messages":[{"role":"system","content":"You are the HR assistant of a small company.\nAnswer briefly, and say where it stands."}`)
}

func closeChat(s *strings.Builder, answer string) []byte {
	fmt.Fprintf(s, `,{"role":"user","content":%q}],"temperature":0.2`, question)
	if answer != answerWhole {
		s.WriteString(`,"stream":true`)
	}
	s.WriteString("}")
	return []byte(s.String())
}

// document returns the i-th document: one source of about 1 KB that answers the question. Each has
// its own wording, because near-duplicates are excluded.
func document(i int) []byte {
	topics := [...]string{"adoption", "twins", "part-time work", "probation", "holidays", "insurance", "pensions", "travel", "returning", "notice", "fathers", "students"}
	topic := topics[i%len(topics)]
	var s strings.Builder
	fmt.Fprintf(&s, "# Parental leave and %s, part %d\n\nHow many weeks of parental leave do you get? ", topic, i)
	for n := 0; s.Len() < 950; n++ {
		fmt.Fprintf(&s, "Rule %s%d%c about %s gives %d weeks to case-%d%d. ", topic[:3], i, 'a'+n, topic, 10+i+n, i, n)
	}
	return []byte(s.String() + "\n")
}

// other returns the i-th document that mentions the question's topic but answers something else,
// so that there are more candidates than sources.
func other(i int) []byte {
	var s strings.Builder
	fmt.Fprintf(&s, "# Office %d\n\nWhom to ask about parental leave in office %d. ", i, i)
	for n := 0; s.Len() < 950; n++ {
		fmt.Fprintf(&s, "Desk %c%d is in hall-%d%d behind door-%d%c. ", 'a'+n, i, i, n, i, 'a'+n)
	}
	return []byte(s.String() + "\n")
}

// clientLines are header lines of an OpenAI client.
const clientLines = "Accept: application/json\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\nUser-Agent: OpenAI/Python 1.99.1\r\n" +
	"Authorization: Bearer sk-0123456789012345678901234567890123456789\r\nContent-Type: application/json\r\n" +
	"X-Stainless-Lang: python\r\nX-Stainless-Package-Version: 1.99.1\r\nX-Stainless-OS: Linux\r\nX-Stainless-Arch: x64\r\n" +
	"X-Stainless-Runtime: CPython\r\nX-Stainless-Retry-Count: 0\r\n"

// chatRequest returns a whole HTTP request. lines are more header lines, without line breaks.
func chatRequest(body []byte, answer string, lines ...string) []byte {
	return request("/v1/chat/completions", body, answer, lines...)
}

func request(path string, body []byte, answer string, lines ...string) []byte {
	var s strings.Builder
	fmt.Fprintf(&s, "POST %s HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n%s%s: %s\r\n", path, clientLines, answerHeader, answer)
	for _, line := range lines {
		s.WriteString(line + "\r\n")
	}
	fmt.Fprintf(&s, "Content-Length: %d\r\n\r\n", len(body))
	s.Write(body)
	return []byte(s.String())
}
