package extract

import (
	"hash/maphash"
	"regexp"
	"strings"
)

// quoteWords is how many words in a row must be those of another message.
const quoteWords = 4

// A quoteIndex knows what the messages of a mailbox say themselves, by the hashes of lines and of words in
// a row.
type quoteIndex struct {
	seed  maphash.Seed
	known map[uint64]struct{}
}

// newQuoteIndex returns what messages say; some may be nil.
func newQuoteIndex(messages []*mailMessage) *quoteIndex {
	q := &quoteIndex{seed: maphash.MakeSeed(), known: map[uint64]struct{}{}}
	for _, m := range messages {
		if m == nil {
			continue
		}
		for _, p := range mailParagraphs(m.body) {
			if p.quote {
				continue
			}
			for line := range strings.Lines(p.text) {
				q.known[q.hash(strings.Fields(line))] = struct{}{}
			}
			words := strings.Fields(p.text)
			for i := range max(0, len(words)-quoteWords+1) {
				q.known[q.hash(words[i:i+quoteWords])] = struct{}{}
			}
		}
	}
	return q
}

func (q *quoteIndex) hash(words []string) uint64 {
	var h maphash.Hash
	h.SetSeed(q.seed)
	for _, w := range words {
		_, _ = h.WriteString(w)
		_ = h.WriteByte(' ')
	}
	return h.Sum64()
}

// has reports whether a message says a text.
func (q *quoteIndex) has(text string) bool {
	words := strings.Fields(text)
	n := min(len(words), quoteWords)
	for i := range len(words) - n + 1 {
		if _, ok := q.known[q.hash(words[i:i+n])]; !ok {
			return false
		}
	}
	return n > 0
}

// without returns a body without the quotes that are in other messages.
func (q *quoteIndex) without(body string) string {
	var b strings.Builder
	for _, p := range mailParagraphs(body) {
		if p.quote && q.has(p.text) {
			if !strings.HasSuffix(b.String(), "\n\n") {
				b.WriteByte('\n') // what is around it are two paragraphs
			}
			continue
		}
		b.WriteString(p.lines)
	}
	return strings.TrimSpace(b.String())
}

// A mailParagraph is a paragraph of a body.
type mailParagraph struct {
	quote bool
	lines string // with the blank lines after it
	text  string // without the marks of quotes
}

// originalLine is the line above a message that is quoted without marks.
var originalLine = regexp.MustCompile(`(?i)^\\?(-{2,} ?(original message|forwarded message|ursprüngliche nachricht|message d'origine|mensaje original|messaggio originale|oorspronkelijk bericht) ?-{2,}|_{20,})$`)

// mailParagraphs divides a body into paragraphs, which end at blank lines and where a quote begins
// or ends. What follows a line such as "-----Original Message-----" is a quote.
func mailParagraphs(body string) (all []mailParagraph) {
	var text strings.Builder
	start, at := 0, 0
	quote, rest, blank := false, false, false
	end := func() {
		if at > start {
			all = append(all, mailParagraph{quote: quote, lines: body[start:at], text: text.String()})
		}
		start = at
		text.Reset()
	}
	for line := range strings.Lines(body) {
		shown := strings.TrimRight(line, " \n")
		content := strings.TrimLeft(shown, "> ")
		marked := rest || strings.HasPrefix(shown, ">")
		if content != "" && (blank || marked != quote) {
			end()
			quote = marked
		}
		rest = rest || originalLine.MatchString(shown)
		blank = content == ""
		text.WriteString(content + "\n")
		at += len(line)
	}
	end()
	return all
}
