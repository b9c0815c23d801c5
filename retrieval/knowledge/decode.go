package knowledge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxFile is the largest file read, in bytes.
const MaxFile = 10 << 20

var (
	errTooLarge = errors.New("more than 10 MB")
	errNotText  = errors.New("not text: neither UTF-8 nor UTF-16 with a byte order mark")
)

// format says how a file is read.
type format uint8

const (
	formatUnknown format = iota
	formatText
	formatMarkdown
)

// formatOf tells a file's format by its name.
func formatOf(name string) format {
	base := strings.ToLower(path.Base(name))
	switch path.Ext(base) {
	case ".md", ".markdown", ".mdx":
		return formatMarkdown
	case ".txt", ".text", ".rst", ".adoc":
		return formatText
	case "":
		switch base {
		case "readme", "changelog", "changes", "contributing", "faq", "history", "install", "news", "notes", "todo", "usage":
			return formatText
		}
	}
	return formatUnknown
}

// readDocument reads one file.
func readDocument(fsys fs.FS, name string) (Document, *Skip) {
	kind := SkipUnreadable
	raw, err := readAtMost(fsys, name, MaxFile+1)
	if err == nil && len(raw) > MaxFile {
		kind, err = SkipTooLarge, errTooLarge
	}
	f := formatOf(name)
	if err == nil && f == formatUnknown {
		kind, err = SkipUnsupported, fmt.Errorf("%s is not supported", typeOf(name))
	}
	text := ""
	if err == nil {
		if text, err = decode(raw); err != nil {
			kind = SkipNotText
		}
	}
	if err != nil {
		return Document{}, &Skip{Path: name, Kind: kind, Reason: reasonOf(err)}
	}
	return Document{ID: name, Text: text, Markdown: f == formatMarkdown}, nil
}

// readAtMost reads a file up to a number of bytes.
func readAtMost(fsys fs.FS, name string, most int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // it may have been exchanged since it was listed
		return nil, errors.New("not a regular file")
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// decode returns raw as UTF-8 with line feeds as its only line breaks.
func decode(raw []byte) (string, error) {
	text := string(raw)
	switch {
	case strings.HasPrefix(text, "\xef\xbb\xbf"):
		text = text[3:]
	case strings.HasPrefix(text, "\xff\xfe"):
		return decodeUTF16(raw[2:], binary.LittleEndian)
	case strings.HasPrefix(text, "\xfe\xff"):
		return decodeUTF16(raw[2:], binary.BigEndian)
	}
	return checked(text)
}

func decodeUTF16(raw []byte, order binary.ByteOrder) (string, error) {
	if len(raw)%2 != 0 {
		return "", errNotText
	}
	units := make([]uint16, len(raw)/2)
	for i := range units {
		units[i] = order.Uint16(raw[2*i:])
	}
	text := string(utf16.Decode(units))
	if strings.ContainsRune(text, utf8.RuneError) { // what a lone surrogate becomes
		return "", errNotText
	}
	return checked(text)
}

func checked(text string) (string, error) {
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return "", errNotText
	}
	if strings.IndexByte(text, '\r') >= 0 {
		text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	}
	return text, nil
}
