package wire

import (
	"bytes"
	"strings"
)

// AppendTarget puts the upstream's base path before a raw request target. If both have
// "/v1" it is written once. Of an absolute-form target only path and query are used:
// its host does not choose the upstream. ok is false for a target without a path.
func AppendTarget(dst []byte, base string, raw []byte) (_ []byte, ok bool) {
	switch {
	case len(raw) == 1 && raw[0] == '*':
		return append(dst, '*'), true
	case len(raw) > 0 && raw[0] == '/':
	default:
		i := bytes.Index(raw, []byte("://"))
		if i <= 0 {
			return dst, false
		}
		raw = raw[i+len("://"):]
		if i = bytes.IndexAny(raw, "/?#"); i < 0 {
			i = len(raw)
		}
		raw = raw[i:]
	}
	if strings.HasSuffix(base, "/v1") && bytes.HasPrefix(raw, []byte("/v1")) &&
		(len(raw) == 3 || raw[3] == '/' || raw[3] == '?') {
		raw = raw[3:]
	}
	dst = append(dst, base...)
	if base == "" && (len(raw) == 0 || raw[0] != '/') {
		dst = append(dst, '/')
	}
	return append(dst, raw...), true
}
