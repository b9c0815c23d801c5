package config

import (
	"fmt"
	"path/filepath"
	"strings"
)

// parseKnowledge parses [NAME=]PATH. Without a name the base is named after the folder or file. A
// text without / \ . and ~ is the name of a base in the state folder; its path is "".
func parseKnowledge(value string) (name Name, path string, err error) {
	left, path, named := strings.Cut(value, "=")
	if !named || strings.ContainsAny(left, `/\.~`) {
		if !strings.ContainsAny(value, `/\.~`) {
			if err := name.UnmarshalText([]byte(value)); err != nil {
				return "", "", fmt.Errorf("%w; for a folder of that name write ./%s", err, value)
			}
			return name, "", nil
		}
		name, err = folderName(value)
		return name, value, err
	}
	if err := name.UnmarshalText([]byte(left)); err != nil {
		return "", "", err
	}
	if strings.TrimSpace(path) == "" {
		return "", "", fmt.Errorf("%q has no path after the =", value)
	}
	return name, path, nil
}

// FolderName returns the name of the base for a folder named by a file in dir. path must look like
// a path.
func FolderName(dir, path string) (Name, error) {
	switch {
	case strings.Contains(path, "://"):
		return "", fmt.Errorf("%q is not a folder: only local folders are read", path)
	case !strings.ContainsAny(path, `/\.~`):
		return "", fmt.Errorf("expected a map such as {%[1]s: ./%[1]s} or a path such as ./%[1]s, got %[1]q", path)
	case strings.Contains(path, "="):
		return "", fmt.Errorf("expected a map such as {docs: ./docs} or a path such as ./docs, got %q", path)
	case !filepath.IsAbs(path) && !strings.HasPrefix(path, "~"):
		path = filepath.Join(dir, path)
	}
	return folderName(path)
}

// folderName derives a name from the last element of path.
func folderName(path string) (Name, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolve %q: %w", path, err)
	}
	var b strings.Builder
	for _, r := range strings.ToLower(filepath.Base(abs)) {
		switch {
		case r < 128 && validName(string(r)):
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := b.String()
	name = strings.Trim(name[:min(len(name), 64)], "-")
	if !validName(name) {
		return "", fmt.Errorf("%q gives no name of a-z 0-9 _ -; write NAME=PATH", path)
	}
	return Name(name), nil
}
