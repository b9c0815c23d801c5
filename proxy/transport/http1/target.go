package http1

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
)

// AppendTarget appends the upstream's base path and a raw request target. If both have "/v1" it is
// written once. Of an absolute-form target only path and query are used: its host does not choose
// the upstream. deployment, if not "", replaces NAME in "/deployments/NAME/", which selects the
// model on Azure. ok is false for a target without a path.
func AppendTarget(dst []byte, base string, raw []byte, deployment string) (_ []byte, ok bool) {
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
	start := len(dst)
	dst = append(dst, base...)
	if base == "" && (len(raw) == 0 || raw[0] != '/') {
		dst = append(dst, '/')
	}
	if dst = append(dst, raw...); deployment != "" {
		dst = inDeployment(dst, start, deployment)
	}
	return dst, true
}

// inDeployment replaces the deployment in the path of dst[start:] by name, escaped.
func inDeployment(dst []byte, start int, name string) []byte {
	const marker = "/deployments/"
	path, _, _ := bytes.Cut(dst[start:], []byte("?"))
	i := bytes.Index(path, []byte(marker))
	if i < 0 {
		return dst
	}
	i += len(marker)
	old, _, _ := bytes.Cut(path[i:], []byte("/"))
	return slices.Replace(dst, start+i, start+i+len(old), []byte(url.PathEscape(name))...)
}
