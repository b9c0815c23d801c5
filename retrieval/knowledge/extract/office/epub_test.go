package office_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/extract/extracttest"
	"sidenote/retrieval/knowledge/extract/office"
)

// epub returns a book of chapters c0.xhtml, c1.xhtml …; more are further parts.
func epub(more map[string]io.Reader, chapters ...string) []byte {
	files := map[string]io.Reader{"META-INF/container.xml": strings.NewReader(`<container><rootfiles><rootfile full-path="OPS/p.opf"/></rootfiles></container>`)}
	var manifest, spine strings.Builder
	for i, text := range chapters {
		files[fmt.Sprintf("OPS/c%d.xhtml", i)] = strings.NewReader(text)
		fmt.Fprintf(&manifest, `<item id="i%d" href="c%[1]d.xhtml" media-type="application/xhtml+xml"/>`, i)
		fmt.Fprintf(&spine, `<itemref idref="i%d"/>`, i)
	}
	files["OPS/p.opf"] = strings.NewReader(`<package><metadata><title>T</title></metadata><manifest>` + manifest.String() + `</manifest><spine>` + spine.String() + `</spine></package>`)
	for name, r := range more {
		files[name] = r
	}
	return extracttest.Zip(files)
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// Damaged and malicious books fail with a reason, in bounded memory; what can be read of them is.
func TestHostileBooks(t *testing.T) {
	bomb := func(n int64) io.Reader { return io.LimitReader(zeros{}, n) }
	inner := epub(nil, "<p>inner")
	for range 10 {
		inner = extracttest.Zip(map[string]io.Reader{"inner.epub": strings.NewReader(string(inner))})
	}
	large := "<!--" + strings.Repeat("x ", 3<<20) + "-->" // which takes little time
	tags := "<!--" + strings.Repeat("<", 300_000) + "-->"
	for name, tc := range map[string]struct {
		raw          []byte
		broken, read string
	}{
		"not an archive":   {[]byte("PK"), "no EPUB", ""},
		"another archive":  {extracttest.Zip(nil), "no EPUB", ""},
		"no package":       {epub(map[string]io.Reader{"META-INF/container.xml": strings.NewReader("<container/>")}), "no EPUB", ""},
		"no chapters":      {epub(nil), "no text", ""},
		"a part missing":   {epub(map[string]io.Reader{"OPS/p.opf": strings.NewReader(`<package><manifest><item id="a" href="../../a.xhtml" media-type="text/html"/><item id="b" href="c0.xhtml" media-type="text/html"/></manifest><spine><itemref idref="a"/><itemref idref="b"/><itemref idref="b"/></spine></package>`)}, "<p>Once."), "a.xhtml", "Once.\n"},
		"a large part":     {epub(map[string]io.Reader{"OPS/c1.xhtml": bomb(1 << 24)}, "<p>One.", "", "<p>Three."), "c1.xhtml: a part of it unpacks", "One.\n\nThree.\n"},
		"a large package":  {epub(map[string]io.Reader{"OPS/p.opf": bomb(1 << 24)}), "a part of it unpacks", ""},
		"large in all":     {epub(nil, "<p>One.", large, large, large, large, large, large), "c6.xhtml: it unpacks to more than 32 MB", "One."},
		"many tags":        {epub(nil, "<p>One.", tags, tags, tags, tags), "c4.xhtml: it has more than 1000000 tags", "One.\n"},
		"nested tags":      {epub(nil, "<p>One.", strings.Repeat("<div>", 100_000)), "c1.xhtml: its tags are nested", "One.\n"},
		"archives inside":  {epub(map[string]io.Reader{"OPS/inner.epub": strings.NewReader(string(inner))}, "<p>One."), "", "One.\n"},
		"links in a cycle": {epub(nil, `<p>One <a href="c1.xhtml">two`, `<p>Two <a href="c0.xhtml">one`), "", "One two\n\nTwo one\n"},
		"entities":         {epub(map[string]io.Reader{"OPS/p.opf": strings.NewReader(`<!DOCTYPE p [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><package><metadata><title>&b;</title></metadata></package>`)}), "no text", ""},
		"protected":        {epub(map[string]io.Reader{"META-INF/encryption.xml": strings.NewReader(`<encryption><EncryptedData><CipherData><CipherReference URI="OPS/c0.xhtml"/></CipherData></EncryptedData></encryption>`)}, "\x00\x01"), "protected", ""},
		"a protected font": {epub(map[string]io.Reader{"META-INF/encryption.xml": strings.NewReader(`<encryption><EncryptedData><CipherData><CipherReference URI="OPS/f.otf"/></CipherData></EncryptedData></encryption>`)}, "<p>One."), "", "One.\n"},
	} {
		d, err := office.Read(t.Context(), extract.EPUB, tc.raw)
		if (err != nil) != (tc.broken != "") || err != nil && !strings.Contains(err.Error(), tc.broken) || !strings.HasPrefix(d.Text, tc.read) || tc.read == "" && d.Text != "" {
			t.Errorf("%s: %v, text %.100q", name, err, d.Text)
		}
		if broken := (*extract.Broken)(nil); err != nil && !errors.As(err, &broken) {
			t.Errorf("%s: %v is not Broken", name, err)
		}
	}
}

// Reading stops with its context.
func TestBookIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := office.Read(ctx, extract.EPUB, epub(nil, "<p>a")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func FuzzReadEPUB(f *testing.F) {
	f.Add("<container/>", "<package/>", "<p>a")
	f.Add("", `<package><metadata><title>a</title></metadata><manifest><item id="i" href="c0.xhtml" media-type="text/html"/></manifest><spine><itemref idref="i"/></spine></package>`, "<title/><h1>a</h1>")
	f.Fuzz(func(t *testing.T, container, opf, chapter string) {
		more := map[string]io.Reader{}
		for name, text := range map[string]string{"META-INF/container.xml": container, "OPS/p.opf": opf} {
			if text != "" {
				more[name] = strings.NewReader(text)
			}
		}
		if d, _ := office.Read(t.Context(), extract.EPUB, epub(more, chapter)); !utf8.ValidString(d.Text) || !utf8.ValidString(d.Name) || strings.ContainsAny(d.Text+d.Name, "\r\x00") {
			t.Errorf("%+v", d)
		}
	})
}
