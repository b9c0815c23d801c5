package model

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"image/jpeg"
	"io"
	"strings"
)

const (
	// imageHeader is how many bytes of a JPEG are read to find its size. What cameras put before
	// it (EXIF with a preview, a color profile) is smaller.
	imageHeader = 256 << 10
	// maxSide is the longest side accepted, in pixels: the limit of JPEG and GIF.
	maxSide = 1<<16 - 1
	// escapedHead is enough for 30 bytes in base64, even if each character is escaped.
	escapedHead = 256
)

// imageSize returns the size in pixels of a PNG, JPEG, GIF or WebP image in url, a data: URL in
// base64. It returns 0, 0 for anything else and for invalid data. The base64 may contain the
// escapes that JSON encoders write in it: \/ and \u002b.
//
// The format is recognised from the data, as upstreams do. Only a header is decoded, at most
// imageHeader bytes of it. An EXIF rotation is ignored: a rotated image costs the same.
func imageSize(url []byte) (width, height int) {
	const scheme, most = "data:image", 128
	comma := bytes.IndexByte(url[:min(len(url), most)], ',')
	if comma < 0 || len(url) < len(scheme) || !bytes.EqualFold(url[:len(scheme)], []byte(scheme)) || !bytes.HasSuffix(url[:comma], []byte(";base64")) {
		return 0, 0
	}
	data := url[comma+1:]
	data = data[:min(len(data), base64.StdEncoding.EncodedLen(imageHeader))]
	decoded := func(data []byte) io.Reader {
		return base64.NewDecoder(base64.StdEncoding, bytes.NewReader(unescaped(data)))
	}

	var head [30]byte
	if n, err := io.ReadFull(decoded(data[:min(len(data), escapedHead)]), head[:]); n == 0 || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, 0
	}
	width, height = headSize(&head)
	if bytes.HasPrefix(head[:], []byte("\xff\xd8")) {
		size, err := jpeg.DecodeConfig(decoded(data))
		if err != nil {
			return 0, 0
		}
		width, height = size.Width, size.Height
	}
	if min(width, height) < 1 || max(width, height) > maxSide {
		return 0, 0
	}
	return width, height
}

// headSize returns the size from the first bytes of a PNG, GIF or WebP; 0, 0 for other formats.
// The offsets are from the specifications: PNG's section 11.2.1, GIF89a's section 18, and for
// WebP RFC 6386, section 9.1, and RFC 9649, sections 2.7 and 3.4.
func headSize(head *[30]byte) (width, height int) {
	le, be := binary.LittleEndian, binary.BigEndian
	switch {
	case string(head[:8]) == "\x89PNG\r\n\x1a\n" && string(head[12:16]) == "IHDR":
		return int(be.Uint32(head[16:])), int(be.Uint32(head[20:]))
	case string(head[:6]) == "GIF87a" || string(head[:6]) == "GIF89a":
		return int(le.Uint16(head[6:])), int(le.Uint16(head[8:]))
	case string(head[:4]) != "RIFF":
		return 0, 0
	}
	switch string(head[8:16]) {
	case "WEBPVP8 ":
		if string(head[23:26]) == "\x9d\x01\x2a" { // a key frame
			return int(le.Uint16(head[26:]) & 0x3fff), int(le.Uint16(head[28:]) & 0x3fff)
		}
	case "WEBPVP8L":
		if head[20] == 0x2f {
			both := le.Uint32(head[21:])
			return int(both&0x3fff) + 1, int(both>>14&0x3fff) + 1
		}
	case "WEBPVP8X":
		return int(le.Uint32(head[24:])&0xffffff) + 1, int(le.Uint32(head[26:])>>8) + 1
	}
	return 0, 0
}

// escapes undoes the escapes that JSON encoders write in base64.
var escapes = strings.NewReplacer(`\/`, "/", `\u002b`, "+", `\u002B`, "+")

// unescaped returns data without escapes. Most data has none.
func unescaped(data []byte) []byte {
	if bytes.IndexByte(data, '\\') < 0 {
		return data
	}
	return []byte(escapes.Replace(string(data)))
}
