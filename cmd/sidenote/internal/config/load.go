package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"sidenote/cmd/sidenote/internal/config/files"
)

// A Source is where a configuration comes from. Flags win over the file.
type Source struct {
	Path  string // the file; "" when there is none
	Flags Flags
	// Offline is for commands that send no request: they need no upstream.
	Offline bool
	// NoSecrets is for a check on a machine that has none: what secrets name, and
	// certificates, need not be there and are not looked at. Such a Config is not for running.
	NoSecrets bool
	Env       func(name string) (string, bool)       // for secrets; nil knows none
	Read      func(path string) ([]byte, error)      // nil reads the disk
	Glob      func(pattern string) ([]string, error) // nil looks on the disk

	readWithin func(file, path string) ([]byte, error) // reads path if it lies in file's folder
}

// Flags are the settings that the command line may give, with what its help says of them; ""
// and nil give none. Knowledge replaces the bases of the file.
type Flags struct {
	Upstream       string   `placeholder:"URL" help:"The API that requests go to, as in https://api.openai.com."`
	Knowledge      []string `sep:"none" placeholder:"[NAME=]PATH" help:"Folder of documents, or the name of a base that the state folder holds. Repeat for more; SIDENOTE_KNOWLEDGE has commas between."`
	State          string   `placeholder:"DIR" help:"Where knowledge bases are kept ($XDG_STATE_HOME/sidenote); :memory: to read them anew at each start."`
	Follow         bool     `help:"Never write the state folder; answer from what another process writes there."`
	Listen         string   `placeholder:"HOST:PORT" help:"Where apps send requests (127.0.0.1:8080)."`
	Open           *bool    `help:"Let anyone ask who reaches an address beyond loopback, without a key."`
	Admin          string   `placeholder:"HOST:PORT" help:"Dry runs, searches, metrics, probes (127.0.0.1:8081); off: none."`
	AdminTokenFile string   `placeholder:"FILE" help:"Token of the admin port ($SIDENOTE_ADMIN_TOKEN)."`
	Telemetry      string   `placeholder:"HOST:PORT" help:"Metrics and probes only (off)."`
	Redis          string   `placeholder:"URL" help:"For replicas to share what they found, as in redis://127.0.0.1:6379/0 (none). One with a password goes into SIDENOTE_REDIS."`

	ShutdownDelay string `placeholder:"TIME" help:"How long requests are served after SIGTERM while /readyz says 503, as in 5s (0s)."`

	RedisShown bool `kong:"-"` // Redis stands on the command line, and not in the environment
}

// Load reads and checks a configuration. Its error is a Problems with
// everything that is wrong; the Config is only of use without one.
func Load(src Source) (*Config, error) {
	l := begin(&src)
	c := l.Config
	if !l.readMain(src) {
		return nil, c.problems.sorted(c.files) // further checks would only report what the unreadable files define
	}
	l.applyFlags(src.Flags)
	l.applyAdminToken(src)
	l.readSecrets(src)
	l.readKeySets(src)
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
	l := begin(&src)
	c := l.Config
	l.readMain(src)
	l.applyFlags(src.Flags)
	if len(c.problems) > 0 {
		return nil, c.problems.sorted(c.files)
	}
	return c, nil
}

// A loader fills a Config from files, flags and the environment.
type loader struct{ delegation }

// begin returns a loader of the default configuration. It fills in what src leaves open, and
// expands ~ in its path.
func begin(src *Source) loader {
	src.setDefaults()
	c := Default()
	c.env = src.Env
	c.places, c.delegated = map[string]mark{}, map[string]int{}
	l := loader{delegation{&c}}
	if home, ok := src.Env("HOME"); ok && filepath.IsAbs(home) {
		c.home = home
		src.Path = l.locate("", src.Path)
	}
	return l
}

func (s *Source) setDefaults() {
	if s.Env == nil {
		s.Env = func(string) (string, bool) { return "", false }
	}
	s.readWithin = files.ReadWithin
	if s.Read == nil {
		s.Read = files.Read
	} else {
		s.readWithin = func(file, path string) ([]byte, error) {
			if _, _, err := files.Split(file, path); err != nil {
				return nil, err
			}
			return s.Read(path)
		}
	}
	if s.Glob == nil {
		s.Glob = files.Glob
	}
}

// readMain reads the main file, if there is one, and what it includes. It returns false
// where one of them is not a map in YAML.
func (c loader) readMain(src Source) (ok bool) {
	if src.Path == "" {
		return true
	}
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
	d := decoder{file: path, places: c.places, problems: &c.problems, variables: c.variablesOf(path)}
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
	if m, ok := nearest(c.places, key); ok {
		return m.Place
	}
	if len(c.files) > 0 {
		return Place{File: c.files[0]}
	}
	return Place{}
}
