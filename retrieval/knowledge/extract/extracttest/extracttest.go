// Package extracttest makes files for tests of readers: valid files, and malicious ones.
package extracttest

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// CodeCache returns a folder for the machine code of the PDF reader, shared by all tests of this
// user: compiling it takes half a minute under the race detector.
func CodeCache() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("sidenote-test-pdf-%d", os.Getuid()))
}

// DOCX returns a document with a body in WordprocessingML, two styles of headings ("Heading1", and
// "Sub" based on "Heading2") and a title.
func DOCX(body string) []byte {
	return Zip(map[string]io.Reader{
		"[Content_Types].xml": strings.NewReader(`<Types/>`),
		"docProps/core.xml":   strings.NewReader(`<cp:coreProperties xmlns:dc="d"><dc:title>The handbook</dc:title></cp:coreProperties>`),
		"word/styles.xml": strings.NewReader(`<w:styles xmlns:w="w"><w:style w:styleId="Heading1"><w:name w:val="heading 1"/></w:style>` +
			`<w:style w:styleId="Heading2"><w:name w:val="heading 2"/></w:style><w:style w:styleId="Sub"><w:name w:val="Sub"/><w:basedOn w:val="Heading2"/></w:style>` +
			`<w:style w:styleId="Loop"><w:name w:val="Loop"/><w:basedOn w:val="Loop"/></w:style></w:styles>`),
		"word/document.xml": strings.NewReader(`<?xml version="1.0"?><w:document xmlns:w="w"><w:body>` + body + `</w:body></w:document>`),
	})
}

// Zip returns an archive of files.
func Zip(files map[string]io.Reader) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, r := range files {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.Copy(w, r)
		}
		if err != nil {
			panic("BUG: " + err.Error())
		}
	}
	if err := z.Close(); err != nil {
		panic("BUG: " + err.Error())
	}
	return b.Bytes()
}

// Paragraph returns a paragraph with a style; "" for none.
func Paragraph(style, text string) string {
	return `<w:p><w:pPr><w:pStyle w:val="` + style + `"/></w:pPr><w:r><w:t xml:space="preserve">` + text + `</w:t></w:r></w:p>`
}

// ZipBomb returns a DOCX file with size bytes of text in one paragraph; size is a multiple of a MiB.
func ZipBomb(size int64) []byte {
	block := bytes.Repeat([]byte("x"), 1<<20)
	times := int(size / int64(len(block)))
	sum := crc32.NewIEEE()
	packed := repeated(sum, documentHead, block, times)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	part, err := z.CreateRaw(&zip.FileHeader{
		Name: "word/document.xml", Method: zip.Deflate, CRC32: sum.Sum32(),
		UncompressedSize64: uint64(len(documentHead) + times*len(block)), CompressedSize64: uint64(len(packed)), //nolint:gosec // no size is negative
	})
	if err == nil {
		_, err = part.Write(packed)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		panic("BUG: " + err.Error())
	}
	return b.Bytes()
}

// repeated compresses a head and then a block so many times, and adds both to a checksum. The
// block is compressed once: what follows a flush refers to nothing before it.
func repeated(sum hash.Hash32, head string, block []byte, times int) []byte {
	flushed := func(data []byte) []byte {
		var b bytes.Buffer
		w, err := flate.NewWriter(&b, flate.BestSpeed)
		if err == nil {
			_, err = w.Write(data)
			err = errors.Join(err, w.Flush())
		}
		if err != nil {
			panic("BUG: " + err.Error())
		}
		return b.Bytes()
	}
	_, _ = io.WriteString(sum, head)
	for range times {
		_, _ = sum.Write(block)
	}
	const end = "\x03\x00" // a last block without data
	return slices.Concat(flushed([]byte(head)), bytes.Repeat(flushed(block), times), []byte(end))
}

// DeepDOCX returns a DOCX file of nested tables that are never closed.
func DeepDOCX(depth int) []byte {
	return docxOf(strings.NewReader(strings.Repeat("<w:tbl><w:tr><w:tc>", depth)))
}

func docxOf(text io.Reader) []byte {
	return Zip(map[string]io.Reader{"word/document.xml": io.MultiReader(strings.NewReader(documentHead), text)})
}

// documentHead begins a document of one paragraph.
const documentHead = `<w:document xmlns:w="w"><w:body><w:p><w:r><w:t>`

// ZipClaim returns a DOCX file of a megabyte of text that claims an uncompressed size of size
// bytes.
func ZipClaim(size uint64) []byte {
	var packed, b bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err == nil {
		_, err = io.Copy(w, io.LimitReader(letters{}, 1<<20))
		err = errors.Join(err, w.Close())
	}
	z := zip.NewWriter(&b)
	part, created := z.CreateRaw(&zip.FileHeader{
		Name: "word/document.xml", Method: zip.Deflate, UncompressedSize64: size, CompressedSize64: uint64(packed.Len()),
	})
	if err = errors.Join(err, created); err == nil {
		_, err = part.Write(packed.Bytes())
	}
	if err = errors.Join(err, z.Close()); err != nil {
		panic("BUG: " + err.Error())
	}
	return b.Bytes()
}

// letters is an endless reader of the letter x.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// PDF returns a file with a page for each text, and a line for each line of it.
func PDF(pages ...string) []byte {
	objects := []string{"<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"}
	var kids []string
	for _, text := range pages {
		var content strings.Builder
		content.WriteString("BT /F1 12 Tf 72 720 Td 14 TL\n")
		for line := range strings.SplitSeq(text, "\n") {
			fmt.Fprintf(&content, "(%s) Tj T*\n", strings.NewReplacer(`\`, `\\`, "(", `\(`, ")", `\)`).Replace(line))
		}
		content.WriteString("ET\n")
		n := len(objects) + 1
		kids = append(kids, fmt.Sprintf("%d 0 R", n))
		objects = append(objects,
			fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>", n+1),
			fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", content.Len(), content.String()))
	}
	objects[1] = fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(pages))
	return assemble(objects)
}

// PDFBomb returns a file with a page of size bytes of drawing instructions, compressed.
func PDFBomb(size int64) []byte {
	block := bytes.Repeat([]byte("(bomb) Tj T*\n"), 5000)
	sum := adler32.New()
	drawing := repeated(sum, "BT /F1 12 Tf 72 720 Td 14 TL\n", block, int(size/int64(len(block)))+1)
	packed := slices.Concat([]byte{0x78, 0x01}, drawing, sum.Sum(nil)) // as package zlib has it
	return assemble([]string{
		"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents 5 0 R >>",
		fmt.Sprintf("<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream", len(packed), packed),
	})
}

// PDFLoop returns a file whose page tree contains itself.
func PDFLoop() []byte {
	return assemble([]string{"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 1000000000 /Parent 2 0 R >>"})
}

// PDFCalls returns a file with a page of text, and one with a drawing that calls another one ten
// times, and so on: the last would be drawn 10^levels times.
func PDFCalls(text string, levels int) []byte {
	content := "BT /F1 12 Tf 72 720 Td (" + text + ") Tj ET"
	objects := []string{
		"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R 4 0 R] /Count 2 >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 5 0 R >> >> /Contents 6 0 R >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /XObject << /X 8 0 R >> >> /Contents 7 0 R >>",
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
		fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(content), content),
		"<< /Length 5 >>\nstream\n/X Do\nendstream",
	}
	calls := strings.Repeat("/X Do\n", 10)
	for range levels {
		objects = append(objects, fmt.Sprintf("<< /Type /XObject /Subtype /Form /BBox [0 0 612 792] /Resources << /XObject << /X %d 0 R >> >> /Length %d >>\nstream\n%s\nendstream",
			len(objects)+2, len(calls), calls))
	}
	return assemble(append(objects, "<< /Type /XObject /Subtype /Form /BBox [0 0 612 792] /Length 0 >>\nstream\n\nendstream"))
}

func assemble(objects []string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n")
	var offsets []int
	for i, o := range objects {
		offsets = append(offsets, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, at := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", at)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, xref)
	return b.Bytes()
}
