package folder

import (
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ourIgnoreFile is read by nobody else.
const ourIgnoreFile = ".sidenoteignore"

// ignoreFiles are read in every folder; a later one is stronger.
var ignoreFiles = [...]string{".gitignore", ourIgnoreFile}

// maxIgnoreFile bounds an ignore file, in bytes; what is beyond is not read.
const maxIgnoreFile = 1 << 20

// An ignoreRule is one line of an ignore file, as gitignore(5) defines it.
type ignoreRule struct {
	dir     string // of the file, "." at the top
	glob    string // on paths below dir
	negate  bool   // brings back what an earlier rule ignored
	ours    bool   // stands in .sidenoteignore
	dirOnly bool
}

// ignoreRules are those in force in a folder: of its parents first, then its own. The
// last one that matches decides.
type ignoreRules []ignoreRule

// parseIgnoreFile reads an ignore file of a name that stands in dir. Lines that are no valid
// pattern match nothing, as with git.
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
	// Braces mean alternatives to doublestar and nothing to git.
	line = strings.NewReplacer("{", `\{`, "}", `\}`).Replace(line)
	switch {
	case line == "":
		return ignoreRule{}, false
	case !anchored:
		line = "**/" + line
	case strings.HasSuffix(line, "/**"):
		line += "/*" // what is inside, but not the folder itself
	}
	r.glob = line
	return r, doublestar.ValidatePattern(line)
}

// trimBlanks removes the blanks at the end that no backslash protects.
func trimBlanks(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}

// decide tells whether the rules ignore what stands at name, and whether a file is asked for
// by a line !PATTERN of .sidenoteignore.
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
		name = strings.TrimPrefix(name, r.dir+"/") // rules only meet what is below them
	}
	return doublestar.MatchUnvalidated(r.glob, name)
}

// matchAny tells whether one of the patterns matches name.
func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return doublestar.MatchUnvalidated(p, name) })
}

// isSecret tells whether a file's name is one that keys and passwords usually have.
func isSecret(name string) bool {
	base := strings.ToLower(path.Base(name))
	return strings.HasSuffix(base, ".pem") || strings.HasSuffix(base, ".key") ||
		strings.HasPrefix(base, "id_") || strings.HasPrefix(base, ".env")
}
