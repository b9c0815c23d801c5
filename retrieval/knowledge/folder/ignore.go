package folder

import (
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ourIgnoreFile is the ignore file that only Sidenote reads.
const ourIgnoreFile = ".sidenoteignore"

// ignoreFiles are read in every folder; later ones take precedence.
var ignoreFiles = [...]string{".gitignore", ourIgnoreFile}

// maxIgnoreFile is the size limit of an ignore file, in bytes; the rest is not read.
const maxIgnoreFile = 1 << 20

// An ignoreRule is one line of an ignore file, as defined by gitignore(5).
type ignoreRule struct {
	dir     string // folder of the ignore file, "." at the top
	glob    string // for paths below dir
	negate  bool   // includes again what an earlier rule ignored
	ours    bool   // from .sidenoteignore
	dirOnly bool
}

// ignoreRules are the rules in force in a folder: those of its parents first, then its own. The
// last matching rule decides.
type ignoreRules []ignoreRule

// parseIgnoreFile parses the ignore file with the given name in dir. Invalid patterns match
// nothing, as with git.
func parseIgnoreFile(dir, name, text string) (out ignoreRules) {
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		if r, ok := parseIgnoreRule(dir, strings.TrimRight(line, "\r\n")); ok {
			r.ours = name == ourIgnoreFile
			out = append(out, r)
		}
	}
	return out
}

func parseIgnoreRule(dir, line string) (ignoreRule, bool) {
	r := ignoreRule{dir: dir}
	line = trimBlanks(line)
	if line == "" || line[0] == '#' {
		return ignoreRule{}, false
	}
	line, r.negate = strings.CutPrefix(line, "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	anchored := strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	// Braces are alternatives in doublestar, but literal in git.
	line = strings.NewReplacer("{", `\{`, "}", `\}`).Replace(line)
	switch {
	case line == "":
		return ignoreRule{}, false
	case !anchored:
		line = "**/" + line
	case strings.HasSuffix(line, "/**"):
		line += "/*" // the contents, but not the folder itself
	}
	r.glob = line
	return r, doublestar.ValidatePattern(line)
}

// trimBlanks removes trailing spaces that are not escaped by a backslash.
func trimBlanks(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}

// decide reports whether the rules ignore the file or folder name, and whether a line !PATTERN of
// .sidenoteignore requests it.
func (rs ignoreRules) decide(name string, isDir bool) (ignored, asked bool) {
	for i := len(rs) - 1; i >= 0; i-- {
		if rs[i].match(name, isDir) {
			return !rs[i].negate, rs[i].negate && rs[i].ours
		}
	}
	return false, false
}

func (r ignoreRule) match(name string, isDir bool) bool {
	if r.dirOnly && !isDir {
		return false
	}
	if r.dir != "." {
		name = strings.TrimPrefix(name, r.dir+"/") // rules apply only below their folder
	}
	return doublestar.MatchUnvalidated(r.glob, name)
}

// matchAny reports whether one of the patterns matches name.
func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return doublestar.MatchUnvalidated(p, name) })
}

// isSecret reports whether a file name is typical of keys and passwords.
func isSecret(name string) bool {
	base := strings.ToLower(path.Base(name))
	if strings.HasSuffix(base, ".pem") || strings.HasSuffix(base, ".key") || strings.HasPrefix(base, "id_") || strings.HasPrefix(base, ".env") {
		return true
	}
	switch stem, _, _ := strings.Cut(base, "."); stem {
	case "secret", "secrets", "credential", "credentials", "password", "passwords":
		switch path.Ext(base) {
		case ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".properties", ".xml":
			return true
		}
	}
	return false
}
