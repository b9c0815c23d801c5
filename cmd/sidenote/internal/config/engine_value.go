package config

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"sidenote/cmd/sidenote/internal/strictyaml"
)

// engineURLs are the URLs of one engine, in the order in which they are tried.
type engineURLs []engineURL

// DecodeYAML reads a list of URLs; a single URL is short for a list of one.
func (u *engineURLs) DecodeYAML(d *strictyaml.Decoder, key string, n ast.Node) {
	if strictyaml.Shape(n) == "list" {
		d.List(key, n, reflect.ValueOf(u).Elem(), "")
		return
	}
	var one engineURL
	d.Scalar(key, n, reflect.ValueOf(&one).Elem(), "")
	if one.URL != nil {
		*u = engineURLs{one}
	}
}

// addresses lists the URLs without scheme and query.
func (u engineURLs) addresses() []string {
	list := make([]string, len(u))
	for i := range u {
		list[i] = address(u[i].URL)
	}
	return list
}

// secure reports whether the engine is reached by TLS. asked says that there are settings for it.
// Postgres is, unless it is on this machine or sslmode is disable.
func (u engineURLs) secure(asked bool) bool {
	if len(u) == 0 || u[0].Scheme == "http" {
		return false
	}
	mode := u[0].Query().Get(sslMode)
	return u[0].Scheme == "https" || mode == sslVerify || mode == "" && (asked || !u.loopback())
}

// loopback reports whether the engine is on this machine.
func (u engineURLs) loopback() bool {
	return !slices.ContainsFunc(u, func(one engineURL) bool { return !Loopback(one.Hostname()) })
}

// The parameter of Postgres URLs that says whether TLS is used, and its values.
const (
	sslMode    = "sslmode"
	sslVerify  = "verify-full"
	sslDisable = "disable"
)

// An engineURL is the address of a search engine: postgres://HOST:PORT/DATABASE or
// https://HOST:PORT.
//
// For a base in this process it is a template of the address of documents: https://wiki/{path}.
type engineURL struct {
	*url.URL
	template string
}

// UnmarshalText refuses URLs that are not of an engine, and credentials, which would end up in
// logs. Its error repeats neither a user nor the value of a parameter.
func (e *engineURL) UnmarshalText(text []byte) error {
	if strings.Contains(string(text), "{") {
		e.URL, e.template = &url.URL{}, string(text)
		return nil
	}
	u, err := url.Parse(string(text))
	switch {
	case mayLogin(u, err, text):
		return errors.New("holds a user or password; write user, and password: {env: NAME} or {file: PATH}")
	case err != nil || u.Hostname() == "" || strings.Contains(u.Host, ","):
		before, _, _ := strings.Cut(string(text), "?") // a parameter may hold a password
		return fmt.Errorf("%q is not a URL of one server; write it as in postgres://db.internal:5432/docs or https://search.internal:9200, and several as a list", before)
	}
	if u.Scheme == "postgresql" {
		u.Scheme = "postgres"
	}
	shown := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%q has no port between 1 and 65535", shown)
		}
	}
	if u.Fragment != "" {
		return fmt.Errorf("%q has a fragment behind it, which no engine gets", shown)
	}
	switch u.Scheme {
	case "postgres":
		err = checkPostgres(u, shown)
	case "http", "https":
		if u.RawQuery != "" || u.ForceQuery {
			err = fmt.Errorf("%q has a query behind it; only scheme, host and path are used", shown)
		}
	default:
		err = fmt.Errorf("%q has the scheme %s; use postgres, or https or http", shown, u.Scheme)
	}
	if err == nil {
		e.URL = u
	}
	return err
}

// checkPostgres refuses a URL without a database, or with parameters other than sslmode.
func checkPostgres(u *url.URL, shown string) error {
	database := strings.TrimPrefix(u.Path, "/")
	if database == "" || strings.Contains(database, "/") {
		return fmt.Errorf("%q names no database; write it as in postgres://db.internal:5432/docs", shown)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fmt.Errorf("%q has a query behind it that is none", shown)
	}
	for _, name := range sortedTexts(query) {
		switch value := query.Get(name); {
		case name != sslMode:
			return fmt.Errorf("%q has the parameter %s; the only one is %s", shown, name, sslMode)
		case len(query[name]) > 1:
			return fmt.Errorf("%q has the parameter %s twice", shown, name)
		case value != sslVerify && value != sslDisable:
			return fmt.Errorf("%q has an unknown %s; use %s, with tls: {ca: FILE} for an authority of your own, or %s", shown, name, sslVerify, sslDisable)
		}
	}
	return nil
}

func sortedTexts[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// MarshalText is the inverse of UnmarshalText.
func (e engineURL) MarshalText() ([]byte, error) {
	if e.URL == nil {
		return nil, nil
	}
	return []byte(e.String()), nil
}

// plain returns the URL without the parameter that says whether TLS is used.
func (e engineURL) plain() *url.URL {
	u := *e.URL
	u.RawQuery, u.ForceQuery = "", false
	return &u
}

// like returns the part of the URL in which all URLs of an engine agree.
func (e engineURL) like() string {
	u := *e.URL
	u.Host = ""
	return u.String()
}

// A namespace is a database schema or the prefix of indexes.
type namespace string

var namespacePattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,39}$`)

// UnmarshalText refuses what not every engine takes.
func (n *namespace) UnmarshalText(text []byte) error {
	if !namespacePattern.Match(text) {
		return fmt.Errorf("%q is not a namespace; use a-z, 0-9, _ and -, a letter first, at most 40", text)
	}
	*n = namespace(text)
	return nil
}

// A setting is the name of a setting of a database session: app.tenant.
type setting string

var settingPattern = regexp.MustCompile(`^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)+$`)

// UnmarshalText refuses the database's own settings, which have no dot.
func (s *setting) UnmarshalText(text []byte) error {
	if !settingPattern.Match(text) || len(text) > maxIdentifier {
		return fmt.Errorf("%q is not a setting of your own; write it as in app.tenant", text)
	}
	*s = setting(text)
	return nil
}

// maxIdentifier is the length of the longest identifier of Postgres, in bytes.
const maxIdentifier = 63

// checkIdentifier refuses what is neither a column of a table nor a field of an index.
func checkIdentifier(text string) error {
	if text == "" || len(text) > maxIdentifier || strings.ContainsFunc(text, control) || strings.ContainsAny(text, "\"'`") {
		return fmt.Errorf("%q is not a name; it has at most %d bytes, and no quotes or control characters", text, maxIdentifier)
	}
	return nil
}

// A column is a column of a table or a field of an index, exactly as it is there.
type column string

// UnmarshalText refuses quotes and control characters.
func (c *column) UnmarshalText(text []byte) error {
	*c = column(text)
	return checkIdentifier(string(text))
}

// A relation is the name of a table or view, or of a text search configuration: docs, app.docs.
type relation string

// UnmarshalText refuses more than one schema before the name.
func (r *relation) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), ".")
	if len(parts) > 2 {
		return fmt.Errorf("%q has more than one dot; write NAME or SCHEMA.NAME", text)
	}
	for _, part := range parts {
		if err := checkIdentifier(part); err != nil {
			return err
		}
	}
	*r = relation(text)
	return nil
}

// An indexName is the name of an index or alias.
type indexName string

// UnmarshalText refuses patterns, and what no index can be named.
func (i *indexName) UnmarshalText(text []byte) error {
	s := string(text)
	bad := func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`\/*?"<>|,#:`, r) }
	if s == "" || len(s) > 255 || strings.ToLower(s) != s || strings.ContainsFunc(s, bad) || strings.ContainsAny(s[:1], "-_+.") {
		return fmt.Errorf("%q is not the name of an index or alias; it is in lower case, without patterns, and begins with a letter or digit", s)
	}
	*i = indexName(s)
	return nil
}
