package extract

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"path"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
)

const (
	// maxMailDepth is the nesting limit of parts and attached messages.
	maxMailDepth = 10
	// maxMailParts is the limit on the parts of a message.
	maxMailParts = 1000
)

var (
	errMailDepth = Brokenf("its parts are nested too deeply")
	errMailParts = Brokenf("it has more than %d parts", maxMailParts)
	errMailTorn  = Brokenf("it ends too early, or its parts are broken")
)

// A mailReader reads the messages of a file.
type mailReader struct {
	parts   int    // of the current message
	written int    // bytes of text of its messages
	guess   string // an encoding that is not certain
}

func (r *mailReader) guessed() error {
	if r.guess == "" {
		return nil
	}
	return &Guessed{Encoding: r.guess}
}

// A mailPart is a message or a part of one.
type mailPart struct {
	header mailHeader
	body   []byte // encoded
}

// kind returns the media type of a part, and its parameters.
func (p mailPart) kind() (kind string, parameters map[string]string) {
	kind, parameters, _ = mime.ParseMediaType(p.header["Content-Type"])
	if !strings.Contains(kind, "/") {
		kind = "text/plain"
	}
	return kind, parameters
}

// file returns the file name of a part, and whether it is an attachment.
func (p mailPart) file() (name string, attached bool) {
	disposition, parameters, _ := mime.ParseMediaType(p.header["Content-Disposition"])
	_, of := p.kind()
	name = oneLine(mailText(cmp.Or(parameters["filename"], of["name"])))
	return path.Base(strings.ReplaceAll(name, `\`, "/")), disposition == "attachment"
}

// entity returns the text of a part, as Markdown.
func (r *mailReader) entity(p mailPart, depth int) (string, error) {
	if depth > maxMailDepth {
		return "", errMailDepth
	}
	kind, parameters := p.kind()
	name, attached := p.file()
	switch {
	case strings.HasPrefix(kind, "multipart/"):
		return r.multipart(kind, p.body, parameters["boundary"], depth)
	case kind == "message/rfc822" || kind == "message/global":
		return r.forwarded(p, depth)
	case attached || name != "." && kind != "text/plain" && kind != "text/html":
		return r.attachment(name, kind, p)
	case kind == "text/html":
		return r.page(p, parameters["charset"])
	case strings.HasPrefix(kind, "text/") && kind != "text/calendar", kind == "message/delivery-status":
		text, err := r.decode(p, parameters["charset"])
		if parameters["format"] == "flowed" {
			text = unflowed(text, parameters["delsp"] == "yes")
		}
		return literalLines(text), err
	}
	return "", nil
}

// multipart returns the text of the parts of a body. Of alternatives it is the last one that has
// text; of parts that belong together, the first.
func (r *mailReader) multipart(kind string, body []byte, boundary string, depth int) (string, error) {
	parts, failed := r.partsOf(body, boundary)
	var texts []string
	for i := range parts {
		if kind == "multipart/alternative" {
			i = len(parts) - 1 - i
		}
		text, err := r.entity(parts[i], depth+1)
		if failed = cmp.Or(failed, err); strings.TrimSpace(text) == "" {
			continue
		}
		texts = append(texts, strings.TrimSpace(text))
		if kind == "multipart/alternative" || kind == "multipart/related" {
			break
		}
	}
	return strings.Join(texts, "\n\n"), failed
}

// partsOf divides a body into its parts; after an error it returns those before.
func (r *mailReader) partsOf(body []byte, boundary string) (parts []mailPart, err error) {
	if boundary == "" {
		return nil, errMailTorn
	}
	for reader := multipart.NewReader(bytes.NewReader(body), boundary); ; {
		part, err := reader.NextRawPart()
		if err == io.EOF { //nolint:errorlint // a wrapped one means that the last boundary is missing
			return parts, nil
		}
		if err != nil {
			return parts, errMailTorn
		}
		if r.parts++; r.parts > maxMailParts {
			return parts, errMailParts
		}
		p := mailPart{header: mailHeader{}}
		for name, values := range part.Header {
			p.header[name] = values[0]
		}
		p.body, err = io.ReadAll(part)
		parts = append(parts, p)
		if err != nil {
			return parts, errMailTorn
		}
	}
}

// forwarded returns an attached message, as a section.
func (r *mailReader) forwarded(p mailPart, depth int) (string, error) {
	h, body := splitMail(p.decoded())
	text, err := r.entity(mailPart{header: h, body: body}, depth+1)
	subject := cmp.Or(oneLine(h.text("Subject")), "Attached message")
	return sectionMark + subject + "\n\n" + h.shown() + "\n\n" + text, err
}

// attachment returns the text of a file, as a section; of a file that is no text, its name.
func (r *mailReader) attachment(name, kind string, p mailPart) (string, error) {
	if name == "." {
		name = "Attachment"
	}
	format := Of(name)
	if format == Unknown && strings.HasPrefix(kind, "text/") {
		format = Text
	}
	switch format {
	case Text, MarkdownText, HTML, JSON, JSONLines, CSV, SourceCode, RST:
	default:
		return "Attachment: " + name, nil
	}
	documents, err := Read(format, name, p.decoded())
	if left := (*AttributesLeftOut)(nil); errors.As(err, &left) {
		err = nil
	}
	if guessed := (*Guessed)(nil); errors.As(err, &guessed) {
		r.guess, err = guessed.Encoding, nil
	}
	var texts []string
	for _, d := range documents {
		switch d.Form {
		case Code:
			d.Text = markdownListing(d.Lang, strings.TrimSuffix(d.Text, "\n"))
		case Plain:
			d.Text = literalLines(d.Text)
		case Markdown, Records:
		}
		texts = append(texts, strings.TrimSpace(d.Text))
	}
	if errors.Is(err, ErrNotText) {
		return "Attachment: " + name, nil
	}
	if err != nil {
		err = Brokenf("attachment %q: %v", name, err)
	}
	return sectionMark + name + "\n\n" + strings.Join(texts, "\n\n"), err
}

// decoded returns a body without its transfer encoding. A damaged one ends at the damage.
func (p mailPart) decoded() []byte {
	switch strings.ToLower(strings.TrimSpace(p.header["Content-Transfer-Encoding"])) {
	case "base64":
		digits := bytes.Map(func(c rune) rune {
			if c == '+' || c == '/' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' {
				return c
			}
			return -1
		}, p.body)
		n, _ := base64.RawStdEncoding.Decode(digits, digits)
		return digits[:n]
	case "quoted-printable":
		body, _ := io.ReadAll(quotedprintable.NewReader(bytes.NewReader(p.body)))
		return body
	}
	return p.body
}

// decode returns the text of a part whose header names its encoding, or does not.
func (r *mailReader) decode(p mailPart, label string) (string, error) {
	raw := p.decoded()
	if text, ok := decodeLabelled(raw, label); ok {
		return text, nil
	}
	text, guess, err := decode(raw)
	if err != nil {
		return "", Brokenf("a part of it is %v", err)
	}
	r.guess = cmp.Or(r.guess, guess)
	return text, nil
}

// decodeLabelled decodes bytes in an older encoding with the given name.
func decodeLabelled(raw []byte, label string) (string, bool) {
	e, name := charset.Lookup(label)
	if e == nil || name == "utf-8" {
		return "", false
	}
	text, ok := decodeStrict(e, raw)
	if !ok {
		return "", false
	}
	text, err := checked(text)
	return text, err == nil
}

// page returns the text of a part in HTML: all that is shown, as there is no site around it.
func (r *mailReader) page(p mailPart, label string) (string, error) {
	raw := p.decoded()
	text, ok := decodeLabelled(raw, label)
	if !ok {
		var guess string
		var err error
		if text, guess, err = decodeHTML(raw); err != nil {
			return "", Brokenf("a part of it is %v", err)
		}
		r.guess = cmp.Or(r.guess, guess)
	}
	return wholePage(text)
}

// wholePage is readHTML for a page of which everything is content.
func wholePage(text string) (out string, err error) {
	defer func() {
		if recover() != nil {
			out, err = "", errTangled
		}
	}()
	if err := checkMarkup(text); err != nil {
		return "", err
	}
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		return "", errDeep
	}
	p := newPage(root)
	p.title = ""
	out, _, err = render(p, p.root)
	return out, err
}

// unflowed joins the lines of paragraphs that were broken for transport (RFC 3676). without removes
// the space at which they were.
func unflowed(text string, without bool) string {
	var b strings.Builder
	open := -1 // quotes of the line before, if it continues
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		content := strings.TrimLeft(line, ">")
		depth := len(line) - len(content)
		content = strings.TrimPrefix(content, " ")
		if open != depth {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(quoteMark(depth))
		}
		open = -1
		if strings.HasSuffix(content, " ") && content != signatureMark {
			open = depth
			if without {
				content = strings.TrimSuffix(content, " ")
			}
		}
		b.WriteString(content)
	}
	return b.String()
}

// signatureMark is the line above a signature.
const signatureMark = "-- "

func quoteMark(depth int) string {
	if depth == 0 {
		return ""
	}
	return strings.Repeat(">", min(depth, maxMailDepth)) + " "
}

// literalLines escapes the lines of a text for Markdown.
func literalLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(markdownLiteral(strings.TrimRight(line, " \t\n")) + "\n")
	}
	return b.String()
}
