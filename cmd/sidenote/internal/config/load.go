package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// A Source is where a configuration comes from. Flags win over the file.
type Source struct {
	Path  string // the file; "" when there is none
	Flags Flags
	// Offline is for commands that send no request: they need no upstream.
	Offline bool
	Env     func(name string) (string, bool)       // for secrets; nil knows none
	Read    func(path string) ([]byte, error)      // nil reads the disk
	Glob    func(pattern string) ([]string, error) // nil looks on the disk

	readWithin func(file, path string) ([]byte, error) // reads path if it lies in file's folder
}

// Flags are the settings that the command line may give; "" and nil give none.
type Flags struct {
	Listen, Admin, Telemetry string
	Upstream, Redis, State   string
	ShutdownDelay            string
	AdminTokenFile           string
	Follow                   bool     // the state folder
	Open                     *bool    // identity.open
	Knowledge                []string // [NAME=]PATH, or a name; together they replace those of the file

	RedisShown bool // Redis stands on the command line, and not in the environment
}

// Load reads and checks a configuration. Its error is a Problems with
// everything that is wrong; the Config is only of use without one.
func Load(src Source) (*Config, error) {
	src = src.withDefaults()
	l := begin(&src)
	c := l.Config
	if src.Path != "" && !l.readMain(src) {
		return nil, c.problems.sorted(c.files) // further checks would only report what the unreadable files define
	}
	l.applyFlags(src.Flags)
	l.applyAdminToken(src)
	l.readSecrets(src)
	l.locateState(src.Env)
	l.locateFolders()
	checker(l).check(src.Offline)
	if len(c.problems) == 0 {
		c.resolve()
	}
	if len(c.problems) > 0 {
		return nil, c.problems.sorted(c.files)
	}
	return c, nil
}

// Listeners reads where a configuration listens, for a probe: it needs neither
// secrets nor an upstream.
func Listeners(src Source) (*Config, error) {
	src = src.withDefaults()
	l := begin(&src)
	c := l.Config
	if src.Path != "" {
		l.readMain(src)
	}
	l.applyFlags(src.Flags)
	if len(c.problems) > 0 {
		return nil, c.problems.sorted(c.files)
	}
	return c, nil
}

// A loader fills a Config from files, flags and the environment.
type loader struct{ delegation }

// begin returns a loader of the default configuration, and expands ~ in the path of src.
func begin(src *Source) loader {
	c := Default()
	c.places, c.delegated = map[string]mark{}, map[string]int{}
	l := loader{delegation{&c}}
	if home, ok := src.Env("HOME"); ok && filepath.IsAbs(home) {
		c.home = home
		src.Path = l.locate("", src.Path)
	}
	return l
}

func (s Source) withDefaults() Source {
	if s.Env == nil {
		s.Env = func(string) (string, bool) { return "", false }
	}
	s.readWithin = readWithin
	if s.Read == nil {
		s.Read = readFile
	} else {
		s.readWithin = func(file, path string) ([]byte, error) {
			if _, _, err := split(file, path); err != nil {
				return nil, err
			}
			return s.Read(path)
		}
	}
	if s.Glob == nil {
		s.Glob = glob
	}
	return s
}

// maxFile is far more than any configuration or secret takes, in bytes.
const maxFile = 16 << 20

// readFile is os.ReadFile with a limit, because a path may be a device without end.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return readAll(f)
}

// readMain reads the main file and what it includes. It returns false where one
// of them is not a map in YAML.
func (c loader) readMain(src Source) (ok bool) {
	ok = c.readFile(src, src.Path, reflect.ValueOf(c.Config).Elem())
	for i := range c.Include {
		paths := c.included(src, i)
		ok = ok && (len(paths) > 0 || c.Include[i].Optional)
		for _, path := range paths {
			if _, again := c.delegated[path]; !again {
				c.delegated[path] = i
			}
			ok = c.readFile(src, path, reflect.ValueOf(&c.Catalog).Elem()) && ok
		}
	}
	return ok
}

func (c loader) readFile(src Source, path string, to reflect.Value) (ok bool) {
	c.files = append(c.files, path)
	root, problem := parse(src, path)
	if problem != nil {
		c.problems = append(c.problems, *problem)
		return false
	}
	d := decoder{file: path, places: c.places, problems: &c.problems}
	if _, isMap := root.(ast.MapNode); !isMap {
		d.problem(root, "", "is a %s; it wants a map", shape(root))
		return false
	}
	d.value("", root, to, "")
	return true
}

// parse returns the root of the one document in a file.
func parse(src Source, path string) (ast.Node, *Problem) {
	fail := func(line, column int, format string, args ...any) (ast.Node, *Problem) {
		return nil, &Problem{Place{path, line, column}, "", fmt.Sprintf(format, args...)}
	}
	data, err := src.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail(0, 0, "file not found")
	case err != nil:
		return fail(0, 0, "cannot be read: %v", cause(err))
	}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return fail(1, 1, "is UTF-16; save it as UTF-8")
	}
	file, err := parser.ParseBytes(unmarked(data), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		if syntax, ok := errors.AsType[yaml.Error](err); ok && syntax.GetToken() != nil && syntax.GetToken().Position != nil {
			p := syntax.GetToken().Position
			return fail(p.Line, p.Column, "is not YAML: %s", syntax.GetMessage())
		}
		return fail(1, 1, "is not YAML: %v", err)
	}
	var docs []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType {
			docs = append(docs, doc.Body)
		}
	}
	switch {
	case len(docs) == 0:
		return fail(1, 1, "is empty")
	case len(docs) > 1:
		p := position(docs[1])
		return fail(p.Line, p.Column, "holds a second document; use one file for each")
	}
	return docs[0], nil
}

// unmarked is a text without the byte order mark that some editors put first.
func unmarked(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\ufeff")) }

func position(n ast.Node) token.Position {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return *t.Position
	}
	return token.Position{Line: 1, Column: 1}
}

// cause is the reason of a file error without the path, which the message names already.
func cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// problem reports a problem where key stands, or the nearest above it.
func (c *Config) problem(key, format string, args ...any) {
	c.problems = append(c.problems, Problem{c.Place(key), key, fmt.Sprintf(format, args...)})
}

// Place is where a key's value stands; of a key that is not written, where the
// nearest above it stands. The zero Place is a value that nobody wrote.
func (c *Config) Place(key string) Place {
	for key != "" {
		if m, ok := c.places[key]; ok {
			return m.Place
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
	if len(c.files) > 0 {
		return Place{File: c.files[0]}
	}
	return Place{}
}
