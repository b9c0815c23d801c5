package office

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/url"
	"path"
	"regexp"
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

// The limits for one book, whose parts are each in memory as a whole.
const (
	// maxBook is the unpacked size of all parts that are read, in bytes.
	maxBook = 32 << 20
	// maxBookPart is the unpacked size of one part, in bytes.
	maxBookPart = 8 << 20
	maxChapters = 10_000
	maxBookTags = 1_000_000 // in all chapters
)

var (
	errBook       = extract.Brokenf("it unpacks to more than %d MB", maxBook>>20)
	errBookPart   = extract.Brokenf("a part of it unpacks to more than %d MB", maxBookPart>>20)
	errBookTags   = extract.Brokenf("it has more than %d tags", maxBookTags)
	errBookLocked = extract.Brokenf("it is protected against copying")
)

// readEPUB returns a book (EPUB 2 or 3) as Markdown, with its chapters in reading order. A chapter
// that is listed twice is read once, and links are not followed.
func readEPUB(ctx context.Context, raw []byte) (extract.Document, error) {
	opened, err := open(ctx, extract.EPUB, raw)
	if err != nil {
		return extract.Document{}, err
	}
	a := &bookReader{archive: opened}
	a.left = maxBook
	p, err := a.publication()
	if err != nil {
		return extract.Document{}, err
	}
	locked := a.locked()
	var b strings.Builder
	var failed error
	for _, chapter := range p.chapters {
		if err := ctx.Err(); err != nil {
			return extract.Document{}, err
		}
		if locked[chapter] {
			return extract.Document{}, errBookLocked
		}
		text, err := a.chapter(chapter, p.title)
		if err != nil && failed == nil {
			failed = extract.Brokenf("%s: %v", path.Base(chapter), err)
		}
		if b.WriteString(text); b.Len() > extract.MaxText {
			return extract.Document{}, extract.ErrTooMuchText
		}
		if errors.Is(err, errBook) || errors.Is(err, errBookTags) {
			break
		}
	}
	text := strings.TrimSpace(b.String())
	if text == "" {
		if failed == nil {
			failed = errNoText
		}
		return extract.Document{}, failed
	}
	return extract.Document{Name: p.title, Text: text + "\n", Form: extract.Markdown}, failed
}

// A bookReader reads the parts of a book.
type bookReader struct{ *archive }

// read returns the content of a part.
func (a *bookReader) read(name string) ([]byte, error) {
	f := a.files[name]
	if f == nil {
		return nil, a.broken()
	}
	r, err := f.Open()
	if err != nil {
		return nil, a.broken()
	}
	defer func() { _ = r.Close() }()
	most := min(maxBookPart, a.left)
	raw, err := io.ReadAll(io.LimitReader(r, most+1))
	a.left -= int64(len(raw))
	switch {
	case a.left < 0:
		return nil, errBook
	case int64(len(raw)) > most:
		return nil, errBookPart
	case err != nil:
		return nil, a.broken()
	}
	return raw, nil
}

// A publication is what a package document says: the title, and the chapters in reading order.
type publication struct {
	title    string
	chapters []string // names of parts
}

// publication reads the package document that the container names (EPUB 3.3, 4.2.6.3 and 5).
func (a *bookReader) publication() (p publication, err error) {
	var container struct {
		Files []struct {
			Path string `xml:"full-path,attr"`
		} `xml:"rootfiles>rootfile"`
	}
	if err := a.decode("META-INF/container.xml", &container); err != nil {
		return p, err
	}
	if len(container.Files) == 0 {
		return p, a.broken()
	}
	name := container.Files[0].Path
	var opf struct {
		Titles []string `xml:"metadata>title"`
		Items  []struct {
			ID         string `xml:"id,attr"`
			Href       string `xml:"href,attr"`
			Type       string `xml:"media-type,attr"`
			Properties string `xml:"properties,attr"`
		} `xml:"manifest>item"`
		Spine []struct {
			ID string `xml:"idref,attr"`
		} `xml:"spine>itemref"`
	}
	if err := a.decode(name, &opf); err != nil {
		return p, err
	}
	if len(opf.Titles) > 0 {
		p.title = strings.Join(strings.Fields(opf.Titles[0]), " ")
	}
	pages := map[string]string{}
	for _, item := range opf.Items {
		navigation := strings.Contains(" "+item.Properties+" ", " nav ")
		if href, err := url.PathUnescape(item.Href); err == nil && !navigation && (item.Type == "application/xhtml+xml" || item.Type == "text/html") {
			pages[item.ID] = path.Join(path.Dir(name), href)
		}
	}
	for _, item := range opf.Spine {
		if page, ok := pages[item.ID]; ok && len(p.chapters) < maxChapters {
			p.chapters = append(p.chapters, page)
			delete(pages, item.ID) // once
		}
	}
	return p, nil
}

// decode reads a part in XML. Entities are not expanded.
func (a *bookReader) decode(name string, to any) error {
	raw, err := a.read(name)
	if err != nil {
		return err
	}
	text, err := extract.Decode(raw)
	if err != nil {
		return a.broken()
	}
	dec := xml.NewDecoder(strings.NewReader(text))
	dec.Strict = false
	dec.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // it is decoded
	if err := dec.Decode(to); err != nil {
		return a.broken()
	}
	return nil
}

// locked returns the parts that are encrypted; fonts alone often are.
func (a *bookReader) locked() map[string]bool {
	var list struct {
		Data []struct {
			Reference struct {
				URI string `xml:"URI,attr"`
			} `xml:"CipherData>CipherReference"`
		} `xml:"EncryptedData"`
	}
	const part = "META-INF/encryption.xml"
	if a.files[part] == nil || a.decode(part, &list) != nil {
		return nil
	}
	names := map[string]bool{}
	for _, d := range list.Data {
		if name, err := url.PathUnescape(d.Reference.URI); err == nil {
			names[path.Clean(name)] = true
		}
	}
	return names
}

// emptyElement is an element of XML that a reader of HTML would not end, such as <title/>.
var emptyElement = regexp.MustCompile(`<(title|script|style|a|span|div|p|i|b|em|strong|td|th|li|h[1-6]|section|iframe|textarea)((?:\s[^<>]*)?)/>`)

// noteLink is a link to a footnote whose number only a style raises.
var noteLink = regexp.MustCompile(`(<a\s[^<>]*(?:footnote-ref|noteref)[^<>]*>)\s*([0-9]+|\*+)\s*</a>`)

// chapter returns the text of a chapter. Its headings are below the title of the book.
func (a *bookReader) chapter(name, title string) (string, error) {
	raw, err := a.read(name)
	if err != nil {
		return "", err
	}
	if a.tags += bytes.Count(raw, []byte("<")); a.tags > maxBookTags {
		return "", errBookTags
	}
	page := emptyElement.ReplaceAll(raw, []byte("<$1$2></$1>"))
	page = noteLink.ReplaceAll(page, []byte("$1<sup>$2</sup></a>"))
	documents, err := extract.Read(extract.HTML, path.Base(name), page)
	var guessed *extract.Guessed
	if err != nil && !errors.As(err, &guessed) {
		return "", err
	}
	d := documents[0]
	text := strings.TrimSpace(extract.Demote(d.Text))
	if text == "" || text == "## "+title { // a title page
		return "", nil
	}
	if d.Name != "" && d.Name != title {
		text = "## " + d.Name + "\n\n" + text
	}
	return text + "\n\n", nil
}
