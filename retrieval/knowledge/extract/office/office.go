// Package office reads the documents of office programs, and books, in bounded time and memory,
// whatever the bytes are: DOCX, XLSX and PPTX (ECMA-376), ODT, ODS and ODP (OpenDocument 1.3), and
// EPUB. All are archives of XML, which is read token by token but for EPUB.
package office

import (
	"context"
	"slices"
	"strings"

	"sidenote/retrieval/knowledge/extract"
)

// VersionOf returns the version of a format's reader; "" for a format that this package does not
// read. It must be changed if the reader yields another text for the same file.
func VersionOf(f extract.Format) string {
	switch f {
	case extract.DOCX:
		return "docx 3"
	case extract.XLSX, extract.ODS, extract.PPTX, extract.ODP, extract.ODT:
		return "office 1"
	case extract.EPUB:
		return "epub 1"
	}
	return ""
}

// Versions returns the versions of all readers.
func Versions() string {
	var all []string
	for f := range names() {
		all = append(all, VersionOf(f))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// names returns the formats of this package with their names.
func names() map[extract.Format]string {
	return map[extract.Format]string{
		extract.DOCX: "DOCX", extract.XLSX: "XLSX", extract.PPTX: "PPTX", extract.ODT: "ODT", extract.ODS: "ODS", extract.ODP: "ODP",
		extract.EPUB: "EPUB",
	}
}

// Read returns the document in raw. What people do not see, such as hidden sheets, is left out. For a
// partly broken file it returns what could be read and an *extract.Broken; other errors are those of
// ctx.
func Read(ctx context.Context, f extract.Format, raw []byte) (extract.Document, error) {
	switch f {
	case extract.XLSX:
		return readXLSX(ctx, raw)
	case extract.ODS:
		return readODS(ctx, raw)
	case extract.PPTX:
		return readPPTX(ctx, raw)
	case extract.ODT, extract.ODP:
		return readODF(ctx, f, raw)
	case extract.EPUB:
		return readEPUB(ctx, raw)
	}
	return readDOCX(ctx, raw)
}
