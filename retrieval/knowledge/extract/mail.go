package extract

import (
	"bytes"
	"cmp"
	"fmt"
	"mime"
	"net/mail"
	"net/textproto"
	"strings"
	"time"

	"golang.org/x/net/html/charset"
)

// A message is a document: its name is the subject, its attributes are "from" (an address), "to"
// (the addresses of To and Cc) and "date" (RFC 3339, in UTC), and its text is the sender, recipients
// and date as people see them, the body, and the text of its attachments in sections. Formats are
// those of RFC 5322 and RFC 2045 to 2047; mailboxes are those of RFC 4155.

var errNoMail = Brokenf("it is no mail: it has no header")

// readEML returns the message in a file.
func readEML(raw []byte) ([]Document, error) {
	var r mailReader
	m, err := r.message(raw)
	if m == nil {
		return nil, err
	}
	left := newLeft()
	d := m.document(left)
	return []Document{d}, cmp.Or(err, r.guessed(), left.err())
}

// readMBOX returns the messages in a mailbox. The key of a message is its number: many a
// Message-ID has a date, which would make messages of one subject versions of one document. Text that
// a message quotes is left out if the mailbox has the message that it is from.
func readMBOX(raw []byte) ([]Document, error) {
	var r mailReader
	var messages []*mailMessage
	var failed error
	n, bad := 0, 0
	for part := range mailsIn(raw) {
		if n++; n > MaxDocuments {
			failed = Brokenf("it holds more than %d messages", MaxDocuments)
			break
		}
		m, err := r.message(withoutFromMarks(part))
		if err != nil {
			if bad++; bad == 1 {
				failed = Brokenf("message %d: %v", n, err)
			}
		}
		if r.written > MaxText {
			failed = ErrTooMuchText
			break
		}
		messages = append(messages, m) // nil keeps the numbers of the others
	}
	if n == 0 {
		return nil, Brokenf("it is no mailbox: no line begins with %q", mailLine)
	}
	if bad > 1 {
		failed = Brokenf("%d messages cannot be read as a whole; %v", bad, failed)
	}
	quotes := newQuoteIndex(messages)
	set := newSet("message")
	for i, m := range messages {
		if m == nil {
			continue
		}
		m.body = quotes.without(m.body)
		if err := set.put(i+1, "", m.document(set.left)); err != nil {
			return set.documents, err
		}
	}
	if failed != nil {
		return set.documents, set.left.after(failed)
	}
	return set.documents, cmp.Or(r.guessed(), set.left.err())
}

// mailLine begins the line above each message of a mailbox.
const mailLine = "From "

// mailsIn yields the messages of a mailbox. A line that begins one stands after a blank line, and
// has a time; in bodies, such lines begin with ">".
func mailsIn(raw []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		start, at, blank := -1, 0, true
		for line := range bytes.Lines(raw) {
			if blank && bytes.HasPrefix(line, []byte(mailLine)) && bytes.IndexByte(line, ':') > 0 {
				if start >= 0 && !yield(raw[start:at]) {
					return
				}
				start = at + len(line)
			}
			blank = len(bytes.TrimSpace(line)) == 0
			at += len(line)
		}
		if start >= 0 {
			yield(raw[start:])
		}
	}
}

// withoutFromMarks removes the mark of lines in a body that would begin a message.
func withoutFromMarks(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(">"+mailLine)) {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for line := range bytes.Lines(raw) {
		if line[0] == '>' && bytes.HasPrefix(bytes.TrimLeft(line, ">"), []byte(mailLine)) {
			line = line[1:]
		}
		out = append(out, line...)
	}
	return out
}

// A mailMessage is a message, as text.
type mailMessage struct {
	subject string
	head    string // From, To, Cc and Date, as people see them
	from    string
	to      []string
	date    time.Time // zero if unknown
	body    string    // Markdown
}

func (m *mailMessage) document(left *AttributesLeftOut) Document {
	set := attributeSet{left: left}
	if m.from != "" {
		set.addText("from", m.from)
	}
	set.addList("to", m.to)
	if !m.date.IsZero() {
		set.addText("date", m.date.UTC().Format(time.RFC3339))
	}
	return Document{Name: m.subject, Text: strings.TrimSpace(m.head+"\n\n"+m.body) + "\n", Form: Markdown, Attributes: set.values}
}

// message reads a message. If it is partly broken, there are both a message and an error.
func (r *mailReader) message(raw []byte) (*mailMessage, error) {
	h, body := splitMail(raw)
	if !h.isMail() {
		return nil, errNoMail
	}
	m := &mailMessage{subject: oneLine(h.text("Subject"))}
	if date, err := mail.ParseDate(h["Date"]); err == nil {
		m.date = date
	}
	if from := h.addresses("From"); len(from) > 0 {
		m.from = from[0]
	}
	m.to = append(h.addresses("To"), h.addresses("Cc")...)
	m.head = h.shown()
	r.parts = 0
	text, err := r.entity(mailPart{header: h, body: body}, 0)
	m.body = strings.TrimSpace(text)
	r.written += len(m.body)
	return m, err
}

// A mailHeader has the first value of each field, by its canonical name.
type mailHeader map[string]string

const (
	// maxMailFields is how many fields of a header are read.
	maxMailFields = 1000
	// maxMailField is the size limit of a field that is shown, in bytes.
	maxMailField = 16 << 10
)

// splitMail divides a message or part into its header and its body. Lines that are no fields are
// left out.
func splitMail(raw []byte) (h mailHeader, body []byte) {
	h = mailHeader{}
	at := 0
	name, value := "", strings.Builder{}
	end := func() {
		if _, known := h[name]; name != "" && !known && len(h) < maxMailFields {
			h[name] = strings.TrimSpace(value.String())
		}
		name = ""
		value.Reset()
	}
	for line := range bytes.Lines(raw) {
		at += len(line)
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" {
			break
		}
		if text[0] == ' ' || text[0] == '\t' {
			value.WriteString(text)
			continue
		}
		end()
		if field, rest, ok := strings.Cut(text, ":"); ok && !strings.ContainsAny(field, " \t") {
			name = textproto.CanonicalMIMEHeaderKey(field)
			value.WriteString(rest)
		}
	}
	end()
	return h, raw[at:]
}

// isMail reports whether a header is that of a message.
func (h mailHeader) isMail() bool {
	for _, name := range []string{"From", "To", "Subject", "Date", "Received", "Message-Id", "Mime-Version"} {
		if h[name] != "" {
			return true
		}
	}
	return false
}

// text returns the text of a field, which may have encoded words.
func (h mailHeader) text(name string) string { return mailText(h[name]) }

// mailText decodes the encoded words of a text (RFC 2047).
func mailText(value string) string {
	value = value[:min(len(value), maxMailField)]
	words := mime.WordDecoder{CharsetReader: charset.NewReaderLabel}
	if text, err := words.DecodeHeader(value); err == nil {
		value = text
	}
	if text, err := Decode([]byte(value)); err == nil {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(value, "\ufffd"), "\x00", "")
}

// addresses returns the addresses in a field, in lower case.
func (h mailHeader) addresses(name string) (list []string) {
	value := h[name]
	if len(value) > maxMailField {
		return nil
	}
	parser := mail.AddressParser{WordDecoder: &mime.WordDecoder{CharsetReader: charset.NewReaderLabel}}
	all, err := parser.ParseList(value)
	if err != nil {
		return nil
	}
	for _, a := range all {
		if address := strings.ToLower(a.Address); keyable(address) {
			list = append(list, address)
		}
	}
	return list
}

// shown returns the fields that programs show above a message, in lines.
func (h mailHeader) shown() string {
	var b strings.Builder
	for _, name := range []string{"From", "To", "Cc", "Date"} {
		if value := oneLine(h.text(name)); value != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
