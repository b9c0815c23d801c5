package remote

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// links are what a page says of other pages.
type links struct {
	to        []*url.URL
	canonical *url.URL // nil if it names none
}

// maxLinks limits the links of one page.
const maxLinks = 5000

// readLinks reads the links of a page.
func readLinks(page io.Reader, at *url.URL) (found links) {
	base := at
	z := html.NewTokenizer(page)
	z.SetMaxBuf(1 << 20)
	for len(found.to) < maxLinks {
		switch z.Next() {
		case html.ErrorToken:
			return found
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			href, err := base.Parse(strings.TrimSpace(attribute(token, "href")))
			if err != nil || attribute(token, "href") == "" {
				continue
			}
			switch token.DataAtom {
			case atom.Base:
				base = href
			case atom.A, atom.Area:
				found.to = append(found.to, href)
			case atom.Link:
				if strings.EqualFold(attribute(token, "rel"), "canonical") && (href.Scheme == "http" || href.Scheme == "https") {
					found.canonical = normal(href)
				}
			}
		}
	}
	return found
}

func attribute(t html.Token, name string) string {
	for _, a := range t.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// fileTypes returns the extensions of the files that have a type; the first is given to those without one of
// them.
func fileTypes(kind string) []string {
	const office = "application/vnd.openxmlformats-officedocument."
	return map[string][]string{
		"text/html": {".html", ".htm"}, "application/xhtml+xml": {".html", ".htm", ".xhtml"},
		"text/markdown": {".md", ".markdown", ".mdx"}, "text/x-rst": {".rst"}, "text/csv": {".csv"}, "text/tab-separated-values": {".tsv"},
		"application/pdf": {".pdf"}, "application/json": {".json", ".ipynb"}, "application/x-ndjson": {".jsonl", ".ndjson"}, "application/jsonl": {".jsonl"},
		"application/x-ipynb+json": {".ipynb"}, "application/epub+zip": {".epub"}, "application/rtf": {".rtf"}, "text/rtf": {".rtf"}, "message/rfc822": {".eml"}, "application/mbox": {".mbox"},
		"application/yaml": {".yaml", ".yml"}, "text/yaml": {".yaml", ".yml"}, "application/toml": {".toml"},
		office + "wordprocessingml.document": {".docx"}, office + "spreadsheetml.sheet": {".xlsx"}, office + "presentationml.presentation": {".pptx"},
		"application/vnd.oasis.opendocument.text": {".odt"}, "application/vnd.oasis.opendocument.spreadsheet": {".ods"}, "application/vnd.oasis.opendocument.presentation": {".odp"},
	}[kind]
}

// extensionOf returns the extension of the file of a page by its type and its path; "" if pages of this
// type are not read.
func extensionOf(contentType, of string) (ext, kind string) {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil || kind == "application/octet-stream" || kind == "binary/octet-stream" {
		kind = ""
	}
	ext = strings.ToLower(path.Ext(of))
	switch known := fileTypes(kind); {
	case slices.Contains(known, ext):
		return ext, kind
	case len(known) > 0:
		return known[0], kind
	case kind == "" && ext == "":
		return ".html", kind
	case kind == "" || kind == "text/plain" && ext != "" || (kind == "application/xml" || kind == "text/xml") && ext != "":
		return ext, kind
	case kind == "text/plain":
		return ".txt", kind
	}
	return "", kind
}

// fileOf returns the name of the file of a page: /docs/ is docs/index.html, /a?b=c is a@b=c.html.
func fileOf(u *url.URL, ext string) string {
	names := strings.Split(strings.TrimPrefix(u.Path, "/"), "/")
	last := &names[len(names)-1]
	if *last == "" {
		*last = "index" + ext
	}
	if strings.HasPrefix(*last, ".") {
		*last = "_" + *last // the file is no secret and not hidden: the server shows it
	}
	stem := *last
	if strings.EqualFold(path.Ext(stem), ext) {
		stem = strings.TrimSuffix(stem, path.Ext(stem))
	}
	if u.RawQuery != "" {
		stem += "@" + strings.ReplaceAll(u.RawQuery, "/", "%2f")
	}
	*last = stem + ext
	return fileName(names)
}

// A sitemapFile is an element of a sitemap or of an index of sitemaps.
type sitemapFile struct {
	Loc string `xml:"loc"`
}

// readSitemaps fills the queue with the pages of a sitemap and of those that it names.
func (c *crawl) readSitemaps(ctx context.Context, first *url.URL) error {
	todo, seen := []*url.URL{first}, map[string]bool{first.String(): true}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		err := c.readSitemap(ctx, at, func(index bool, u *url.URL) error {
			switch {
			case !index && c.robotsAllow(u):
				c.enqueue(u, 0, false)
			case index && u.Host == c.host && !seen[u.String()]:
				if seen[u.String()] = true; len(seen) > maxSitemaps {
					return fmt.Errorf("it names more than %d others", maxSitemaps)
				}
				todo = append(todo, u)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("sitemap %s: %w", at, err)
		}
	}
	return nil
}

func (c *crawl) robotsAllow(u *url.URL) bool { return c.allowed(normal(u)) }

// readSitemap calls found with each address in a sitemap; index says whether it is that of a sitemap.
func (c *crawl) readSitemap(ctx context.Context, at *url.URL, found func(index bool, u *url.URL) error) error {
	response, err := c.get(withLimit(ctx, maxSitemap), at, entry{})
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	body := bufio.NewReader(response.Body)
	var text io.Reader = body
	if magic, _ := body.Peek(2); string(magic) == "\x1f\x8b" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		text = io.LimitReader(unzipped, maxSitemap)
	}
	return decodeSitemap(text, at, found)
}

// decodeSitemap reads the XML of a sitemap. One that ends early is an error: what it lacks is not gone.
func decodeSitemap(text io.Reader, at *url.URL, found func(index bool, u *url.URL) error) error {
	d := xml.NewDecoder(text)
	root := false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) && root {
			return nil
		}
		if err != nil {
			return err
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch name := start.Name.Local; {
		case !root && name != "urlset" && name != "sitemapindex":
			return fmt.Errorf("it begins with <%s>, which is no sitemap", name)
		case !root:
			root = true
		case name == "url" || name == "sitemap":
			var file sitemapFile
			if err := d.DecodeElement(&file, &start); err != nil {
				return err
			}
			u, err := at.Parse(strings.TrimSpace(file.Loc))
			if err != nil || file.Loc == "" {
				continue
			}
			if err := found(name == "sitemap", u); err != nil {
				return err
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
