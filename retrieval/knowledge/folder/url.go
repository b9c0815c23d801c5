package folder

import (
	"fmt"
	"net/url"
	"strings"
)

// urlOf returns the function that gives the address of a file, or nil if the folder has none.
func urlOf(f Folder) (func(file string) string, error) {
	if f.URL == "" || f.Address != nil {
		return f.Address, nil
	}
	u, err := url.Parse(strings.ReplaceAll(f.URL, "{path}", "path"))
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("%q is not the address of a page; write it as in https://wiki/{path}", f.URL)
	case !strings.Contains(f.URL, "{path}"):
		return nil, fmt.Errorf("%q has no {path}, so all documents would have the same address", f.URL)
	case strings.ContainsAny(strings.ReplaceAll(f.URL, "{path}", ""), "{}"):
		return nil, fmt.Errorf("%q has a { or } that is not of {path}", f.URL)
	}
	return func(file string) string { return strings.ReplaceAll(f.URL, "{path}", escapePath(file)) }, nil
}

// escapePath escapes a slash-separated path for the path or the query of a URL.
func escapePath(file string) string {
	names := strings.Split(file, "/")
	for i, name := range names {
		names[i] = strings.NewReplacer("&", "%26", "+", "%2B", "=", "%3D").Replace(url.PathEscape(name))
	}
	return strings.Join(names, "/")
}
