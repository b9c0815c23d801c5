package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"sidenote/cmd/sidenote/internal/strictyaml"
)

// A Source is where a configuration comes from. Flags win over the file.
type Source struct {
	Path  string // the file; "" when there is none
	Flags Flags
	// Offline is for commands that send no request: they need no upstream.
	Offline bool
	// NoSecrets is for a check on a machine without the secrets: secrets and certificates need not
	// exist and are not read. Such a Config cannot be run.
	NoSecrets bool
	Env       func(name string) (string, bool)       // for secrets; nil: no variable is set
	Read      func(path string) ([]byte, error)      // nil reads the disk
	Glob      func(pattern string) ([]string, error) // nil searches the disk
	OnRead    func(path string)                      // told of each file and pattern before it is read; may be nil

	readWithin func(file, path string) ([]byte, error) // reads path if it lies in file's folder
}

// Flags are the settings of the command line, with their help texts; "" and nil mean not given.
// Knowledge replaces the bases of the file.
type Flags struct {
	Upstream       string   `placeholder:"URL" help:"The API that requests go to, as in https://api.openai.com."`
	Knowledge      []string `sep:"none" placeholder:"[NAME=]PATH" help:"Folder of documents, or the name of a base that the state folder holds. Repeat for more; SIDENOTE_KNOWLEDGE separates by commas."`
	State          string   `placeholder:"DIR" help:"Where knowledge bases are kept ($XDG_STATE_HOME/sidenote); :memory: to read them anew at each start."`
	Follow         bool     `help:"Never write the state folder; answer from what another process writes there."`
	Listen         string   `placeholder:"HOST:PORT" help:"Where apps send requests (127.0.0.1:8080)."`
	Open           *bool    `help:"Accept callers without a key on addresses beyond loopback."`
	Admin          string   `placeholder:"HOST:PORT" help:"Dry runs, searches, metrics, probes (127.0.0.1:8081); off: none."`
	AdminTokenFile string   `placeholder:"FILE" help:"Token of the admin port ($SIDENOTE_ADMIN_TOKEN)."`
	Telemetry      string   `placeholder:"HOST:PORT" help:"Metrics and probes only (off)."`
	MCP            string   `placeholder:"HOST:PORT" help:"Knowledge as tools, for clients of the Model Context Protocol (off)."`
	Redis          string   `placeholder:"URL" help:"Redis that replicas share, as in redis://127.0.0.1:6379/0 (none). Put a URL with a password into SIDENOTE_REDIS."`

	Ready         string `placeholder:"WHEN" help:"When /readyz first answers 200: listening (at once) or knowledge (after every base was opened once)."`
	ShutdownDelay string `placeholder:"TIME" help:"How long requests are still served after SIGTERM, while /readyz answers 503, as in 5s (0s)."`

	RedisShown bool `kong:"-"` // Redis was given on the command line, not in the environment
}

// Load reads and checks a configuration. Its error is a Problems listing everything that is wrong;
// then there is no Config.
func Load(src Source) (*Config, error) {
	l := begin(&src)
	c := l.Config
	if !l.readMain(src) {
		return nil, c.problems.Sorted(c.files) // further checks would only report names that the unreadable files define
	}
	l.applyFlags(src.Flags)
	l.applyAdminToken(src)
	l.readSecrets(src)
	l.readKeySets(src)
	readTLS(l, src)
	l.readModels(src)
	l.readSynonyms(src)
	l.readOrigins(src)
	l.locateState(src.Env)
	l.locateFolders()
	l.locateMirrors()
	l.locateAudit()
	checker(l).check(src.Offline)
	if len(c.problems) == 0 {
		c.resolve()
	}
	if len(c.problems) > 0 {
		return nil, c.problems.Sorted(c.files)
	}
	return c, nil
}

// Listeners reads only where a configuration listens, for a probe. It needs neither secrets nor an
// upstream.
func Listeners(src Source) (*Config, error) {
	l := begin(&src)
	c := l.Config
	l.readMain(src)
	l.applyFlags(src.Flags)
	for _, port := range l.listeners() {
		port.locate(l)
	}
	if len(c.problems) > 0 {
		return nil, c.problems.Sorted(c.files)
	}
	return c, nil
}

// AdminPort reads what a client of a running instance's admin port needs: its address, its token
// and the state folder. Everything else may be wrong or missing: a shell does not have the other
// secrets, and the kill switch must work while the file is being repaired.
func AdminPort(src Source) (*Config, error) {
	l := begin(&src)
	c := l.Config
	if src.Path != "" && !l.readFile(src, src.Path, reflect.ValueOf(c).Elem()) {
		return nil, c.problems
	}
	l.applyFlags(src.Flags)
	l.applyAdminToken(src)
	l.readSecret(src, "admin.token", &c.Admin.Token)
	l.readAdminTokens(src)
	for _, port := range l.listeners() {
		if port.tls == "admin.tls" {
			port.locate(l)
		}
	}
	l.locateState(src.Env)
	c.problems = slices.DeleteFunc(c.problems, func(p strictyaml.Problem) bool {
		section, _, _ := strings.Cut(p.Key, ".")
		return p.Key != "" && section != "admin" && section != "state" || strings.HasPrefix(p.Key, "admin.tokens[")
	})
	if len(c.problems) > 0 {
		return nil, c.problems.Sorted(c.files)
	}
	return c, nil
}

// A loader fills a Config from files, flags and the environment.
type loader struct{ delegation }

// begin returns a loader with the default configuration. It fills in defaults of src and expands ~
// in its path.
func begin(src *Source) loader {
	src.setDefaults()
	c := Default()
	c.env = src.Env
	c.places, c.delegated, c.fields = strictyaml.Marks{}, map[string]int{}, strictyaml.Cache{}
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
	s.Read, s.readWithin, s.Glob = readers{Read: s.Read, Glob: s.Glob, Seen: s.OnRead}.Functions()
}

// readMain reads the main file, if any, and its includes. It returns false if a file is missing or
// is not a map in YAML.
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
	data, err := src.Read(path)
	if err != nil {
		reason := "file not found"
		if !errors.Is(err, fs.ErrNotExist) {
			reason = fmt.Sprintf("cannot be read: %v", strictyaml.Cause(err))
		}
		c.files = append(c.files, path)
		c.problems = append(c.problems, strictyaml.Problem{Place: strictyaml.Place{File: path}, Reason: reason})
		return false
	}
	return c.decodeFile(path, data, to, strictyaml.Decoder{Marks: c.places, Variables: c.variablesOf(path), Shared: reflect.TypeFor[Catalog]()})
}

// decodeFile decodes a YAML file into a struct of the schema. It fills in the decoder's other
// fields.
func (c loader) decodeFile(path string, data []byte, to reflect.Value, d strictyaml.Decoder) (ok bool) {
	c.files = append(c.files, path)
	before := len(c.problems)
	fail := func(line, column int, format string, args ...any) bool {
		c.problems = append(c.problems[:before], strictyaml.Problem{Place: strictyaml.Place{File: path, Line: line, Column: column}, Reason: fmt.Sprintf(format, args...)})
		return false
	}
	d.File, d.Problems, d.Fields = path, &c.problems, c.fields
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return fail(1, 1, "is UTF-16; save it as UTF-8")
	}
	for part, err := range strictyaml.Parts(data) {
		if err != nil {
			return fail(err.Line, err.Column, "%s", err.Reason)
		}
		if _, isMap := part.Node.(ast.MapNode); !isMap {
			d.Problem(part.Node, "", "expected a map, got a %s", strictyaml.Shape(part.Node))
			return false
		}
		d.Part(part, to)
	}
	return true
}

// problem reports a problem at the position of key, or of its nearest parent.
func (c *Config) problem(key, format string, args ...any) {
	c.problems = append(c.problems, strictyaml.Problem{Place: c.Place(key), Key: key, Reason: fmt.Sprintf(format, args...)})
}

// refused reports whether a key already has a problem.
func refused(c *Config, key string) bool {
	return slices.ContainsFunc(c.problems, func(p strictyaml.Problem) bool { return p.Key == key })
}

// Place returns the position of a key's value or, if the key is not written, of its nearest
// parent. It falls back to the main file, and to the zero Place without files.
func (c *Config) Place(key string) strictyaml.Place {
	if m, ok := c.places.Nearest(key); ok {
		return m.Place
	}
	if len(c.files) > 0 {
		return strictyaml.Place{File: c.files[0]}
	}
	return strictyaml.Place{}
}
