package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"sidenote/proxy"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/remote"
)

// Origins are the places elsewhere that a base may be fetched from, in place of a folder.
type Origins struct {
	Git  gitOrigin  `yaml:"git"`
	Site siteOrigin `yaml:"http"`
	S3   s3Origin   `yaml:"s3"`
}

// gitOrigin is a folder of a git repository, see remote.Git.
type gitOrigin struct {
	URL          gitURL        `yaml:"url" need:"true"`
	Ref          string        `yaml:"ref"`
	Path         string        `yaml:"path"`
	User         Login         `yaml:"user"`
	Password     Secret        `yaml:"password"`
	Key          Secret        `yaml:"key"`
	KnownHosts   string        `yaml:"known_hosts"`
	Webhook      Secret        `yaml:"webhook_secret"`
	Every        time.Duration `yaml:"every" min:"10s" max:"168h"` // absent: everyGit
	MaxBytes     Bytes         `yaml:"max_bytes" min:"1KiB" max:"1000GiB"`
	AllowPrivate allowance     `yaml:"allow_private"`

	password, key, knownHosts func() string // nil for none
}

// siteOrigin is the pages of a site, see remote.Site.
type siteOrigin struct {
	URLs         []siteURL     `yaml:"urls"`
	Sitemap      siteURL       `yaml:"sitemap"`
	Include      []pathGlob    `yaml:"include"`
	Exclude      []pathGlob    `yaml:"exclude"`
	MaxPages     Count         `yaml:"max_pages" min:"1" max:"100k"`
	UserAgent    string        `yaml:"user_agent"`
	Delay        time.Duration `yaml:"delay" min:"1ms" max:"1m"` // absent: siteDelay
	Every        time.Duration `yaml:"every" min:"1m" max:"720h"`
	MaxBytes     Bytes         `yaml:"max_bytes" min:"1KiB" max:"1000GiB"`
	AllowPrivate allowance     `yaml:"allow_private"`
}

// s3Origin is the objects of a bucket, see remote.S3.
type s3Origin struct {
	Endpoint     siteURL       `yaml:"endpoint" need:"true"`
	Bucket       string        `yaml:"bucket" need:"true"`
	Prefix       string        `yaml:"prefix"`
	Region       string        `yaml:"region"`
	Credentials  s3Credentials `yaml:"credentials"`
	Every        time.Duration `yaml:"every" min:"10s" max:"168h"`
	MaxBytes     Bytes         `yaml:"max_bytes" min:"1KiB" max:"1000GiB"`
	AllowPrivate allowance     `yaml:"allow_private"`

	access, secret, token func() string // nil for none
}

type s3Credentials struct {
	AccessKey    Secret `yaml:"access_key"`
	SecretKey    Secret `yaml:"secret_key"`
	SessionToken Secret `yaml:"session_token"`
}

// How often sources are fetched by default, and how long a crawl waits between requests.
const (
	everyGit  = 5 * time.Minute
	everySite = 6 * time.Hour
	everyS3   = 5 * time.Minute
	siteDelay = 200 * time.Millisecond
)

// A gitURL is the URL of a repository: https, http or ssh, also in the form git@HOST:PATH.
type gitURL string

// UnmarshalText refuses other protocols, and passwords, which would end up in logs.
func (g *gitURL) UnmarshalText(text []byte) error {
	s := string(text)
	if host, path, ok := strings.Cut(s, ":"); ok && !strings.Contains(s, "://") && strings.Contains(host, "@") && path != "" {
		s = "ssh://" + host + "/" + strings.TrimPrefix(path, "/")
	}
	u, err := url.Parse(s)
	if err == nil && u.User != nil {
		if _, password := u.User.Password(); password || u.Scheme != "ssh" {
			return errors.New("holds a user or password; write user, and password: {env: NAME} or {file: PATH}")
		}
	}
	if err != nil || !slices.Contains([]string{"http", "https", "ssh"}, u.Scheme) || u.Hostname() == "" || strings.Trim(u.Path, "/") == "" {
		if bytesAt := strings.LastIndexByte(s, '@'); bytesAt >= 0 {
			s = "…" + s[bytesAt:] // before it may be a password
		}
		return fmt.Errorf("%q is not the URL of a repository; write it as in https://github.com/OWNER/NAME or ssh://git@HOST/PATH", s)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q has a query or fragment behind it", u.Scheme+"://"+u.Host+u.Path)
	}
	*g = gitURL(s)
	return nil
}

// An allowance is true or false, and not shown where it is false.
type allowance bool

// UnmarshalText reads true or false.
func (a *allowance) UnmarshalText(text []byte) error {
	if s := string(text); s != "true" && s != "false" {
		return fmt.Errorf("%q is not true or false", text)
	}
	*a = string(text) == "true"
	return nil
}

// MarshalText is the inverse of UnmarshalText, but for false.
func (a allowance) MarshalText() ([]byte, error) {
	if a {
		return []byte("true"), nil
	}
	return nil, nil
}

// A siteURL is an http or https URL.
type siteURL string

// UnmarshalText refuses other protocols, and credentials, which would end up in logs.
func (s *siteURL) UnmarshalText(text []byte) error {
	u, err := url.Parse(string(text))
	switch {
	case mayLogin(u, err, text):
		return errors.New("holds a user or password, which would end up in logs")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("%q is not a URL; write it as in https://docs.example.com/", text)
	}
	*s = siteURL(text)
	return nil
}

// A pathGlob is a pattern for the paths of a site: /docs/**.
type pathGlob string

// UnmarshalText refuses a pattern that no path matches.
func (p *pathGlob) UnmarshalText(text []byte) error {
	if !strings.HasPrefix(string(text), "/") && !strings.HasPrefix(string(text), "**") {
		return fmt.Errorf("%q is not a pattern for paths; write it as in /docs/**", text)
	}
	if !doublestar.ValidatePattern(string(text)) {
		return fmt.Errorf("%q is not a pattern; write it as in /docs/**", text)
	}
	*p = pathGlob(text)
	return nil
}

// kind returns the key of the place that a base is fetched from; "" for a folder.
func (o Origins) kind() string {
	switch {
	case o.Git.URL != "":
		return "git"
	case len(o.Site.URLs) > 0 || o.Site.Sitemap != "":
		return "http"
	case o.S3.Endpoint != "":
		return "s3"
	}
	return ""
}

// Fetched reports whether the documents of a base are fetched from elsewhere, so that its path is a
// mirror in the state folder.
func (k Knowledge) Fetched() bool { return k.kind() != "" }

// remoteFolder is the folder in the state folder that has the mirrors.
const remoteFolder = "remote"

// locateMirrors sets the path of bases that are fetched to their mirrors. With the state in memory, a
// process that serves replaces it by a temporary folder.
func (c loader) locateMirrors() {
	for name, k := range c.Knowledge {
		if k.Fetched() {
			k.Path = remote.Path(c.MirrorFolder(name))
			c.Knowledge[name] = k
		}
	}
}

// MirrorFolder returns the folder with the mirror of a base.
func (c *Config) MirrorFolder(name Name) string {
	return filepath.Join(c.State.Path, remoteFolder, string(name))
}

// readOrigins reads the secrets of places that bases are fetched from.
func (c loader) readOrigins(src Source) {
	for _, name := range sortedKeys(c.Knowledge) {
		k, key := c.Knowledge[name], "knowledge."+string(name)
		if text := c.secretText(src, key+".git.user", &k.Git.User.Secret); text != "" {
			if err := k.Git.User.SetPlain(text); err != nil {
				c.problem(key+".git.user", "%v", err)
			}
		}
		k.Git.password = c.engineSecret(src, key+".git.password", &k.Git.Password)
		if text := c.secretText(src, key+".git.key", &k.Git.Key); text != "" {
			k.Git.Key.Value = proxy.NewSecret(text + "\n")
			k.Git.key = k.Git.Key.Value.Reveal
		}
		if hosts := k.Git.KnownHosts; hosts != "" {
			text := string(c.readNamed(src, key+".git.known_hosts", hosts))
			k.Git.knownHosts = func() string { return text }
		}
		c.readSecret(src, key+".git.webhook_secret", &k.Git.Webhook)
		k.S3.access = c.engineSecret(src, key+".s3.credentials.access_key", &k.S3.Credentials.AccessKey)
		k.S3.secret = c.engineSecret(src, key+".s3.credentials.secret_key", &k.S3.Credentials.SecretKey)
		k.S3.token = c.engineSecret(src, key+".s3.credentials.session_token", &k.S3.Credentials.SessionToken)
		c.Knowledge[name] = k
	}
}

// WebhookSecret returns the secret with which a forge signs its calls for a base; "" for none.
func (c *Config) WebhookSecret(name Name) string { return c.Knowledge[name].Git.Webhook.Value.Reveal() }

// A RemoteSource is where a base is fetched from, and how often.
type RemoteSource struct {
	remote.Source
	Every time.Duration
}

// EveryText formats Every as a file has it: 5m.
func (s RemoteSource) EveryText() string {
	text := s.Every.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// RemoteSource returns where a base is fetched from; ok is false for a base with a folder of its own or
// without one.
func (c *Config) RemoteSource(name Name) (s RemoteSource, ok bool) {
	k := c.Knowledge[name]
	bytes := func(text func() string) func() []byte {
		if text == nil {
			return nil
		}
		return func() []byte { return []byte(text()) }
	}
	switch k.kind() {
	case "git":
		g := k.Git
		return RemoteSource{remote.Git{
			URL: string(g.URL), Ref: g.Ref, Path: g.Path, User: g.User.Value.Reveal(), Password: g.password, Key: bytes(g.key), KnownHosts: bytes(g.knownHosts),
			Network: remote.Network{AllowPrivate: bool(g.AllowPrivate)}, Limits: remote.Limits{Bytes: int64(g.MaxBytes)},
		}, cmp.Or(g.Every, everyGit)}, true
	case "http":
		h := k.Site
		site := remote.Site{
			Sitemap: string(h.Sitemap), Include: Texts(h.Include), Exclude: Texts(h.Exclude), MaxPages: int(h.MaxPages), UserAgent: h.UserAgent, Delay: cmp.Or(h.Delay, siteDelay),
			URLs: Texts(h.URLs), Network: remote.Network{AllowPrivate: bool(h.AllowPrivate)}, Limits: remote.Limits{Bytes: int64(h.MaxBytes)},
		}
		return RemoteSource{site, cmp.Or(h.Every, everySite)}, true
	case "s3":
		s := k.S3
		return RemoteSource{remote.S3{
			Endpoint: string(s.Endpoint), Bucket: s.Bucket, Prefix: s.Prefix, Region: s.Region, AccessKey: s.access, SecretKey: s.secret, SessionToken: s.token,
			Wanted:  folder.Folder{Include: Texts(k.Include), Exclude: Texts(k.Exclude), OCR: k.OCR}.Wants,
			Network: remote.Network{AllowPrivate: bool(s.AllowPrivate)}, Limits: remote.Limits{Bytes: int64(s.MaxBytes)},
		}, cmp.Or(s.Every, everyS3)}, true
	}
	return RemoteSource{}, false
}

// mirror completes the folder of a base that is fetched.
func (c *Config) mirror(name Name, f folder.Folder) folder.Folder {
	k := c.Knowledge[name]
	if f.URL = k.pageURL(); !k.Fetched() {
		return f
	}
	s, _ := c.RemoteSource(name)
	f.Remote, f.Within = s.String(), ""
	switch k.kind() {
	case "git":
		g := s.Source.(remote.Git)
		ref := cmp.Or(g.Ref, "HEAD")
		if f.URL = cmp.Or(f.URL, g.PageTemplate()); f.URL != "" {
			within := (&url.URL{Path: strings.Trim(g.Path, "/")}).EscapedPath()
			f.URL = strings.NewReplacer("{ref}", (&url.URL{Path: ref}).EscapedPath(), "{path}", strings.TrimPrefix(within+"/{path}", "/")).Replace(f.URL)
		}
	case "http":
		if f.URL == "" {
			f.Address = func(string) string { return "" } // who opens the mirror knows them
		}
	}
	return f
}

// pageURL returns the template of the address of documents, "" for none.
func (k Knowledge) pageURL() string {
	if k.Page != "" || k.Engine != EngineEmbedded || len(k.URL) == 0 {
		return k.Page
	}
	return k.URL[0].template
}

// checkOrigins refuses places to fetch from that conflict or lack something.
func (c checker) checkOrigins(name Name) {
	k, key := c.Knowledge[name], "knowledge."+string(name)
	written := c.writtenKeys(key)
	first := ""
	for _, kind := range []string{"path", "git", "http", "s3"} {
		switch {
		case !written(kind):
		case first != "":
			c.problem(key+"."+kind, "is a second place to read, beside %s; keep one, or write a base for each", first)
		default:
			first = kind
		}
	}
	if written("http") && len(k.Site.URLs) == 0 && k.Site.Sitemap == "" {
		c.problem(key+".http.urls", "is missing; write urls: [https://HOST/PATH/], or sitemap")
	}
	if hosts := k.Site.hosts(); len(hosts) > 1 {
		c.problem(key+".http", "names the hosts %s; write a base for each", strings.Join(hosts, ", "))
	}
	if written("git.known_hosts") || written("git.key") {
		if k.Git.URL != "" && !strings.HasPrefix(string(k.Git.URL), "ssh://") {
			c.problem(key+".git.url", "%q is not reached by ssh, which key and known_hosts are for; write ssh://git@HOST/PATH, or user and password", k.Git.URL)
		}
	}
	if written("s3.credentials.access_key") != written("s3.credentials.secret_key") {
		c.problem(key+".s3.credentials", "has only one of access_key and secret_key")
	}
	if kind := k.kind(); kind != "" && !c.may(key, mayPaths) {
		c.forbidden(key+"."+kind, mayPaths, "is not for an included file to fetch")
	}
	if written("url") && k.Engine == EngineEmbedded && written("page") {
		c.problem(key+".url", "is the same as page, of a base in this process; keep one")
	}
	if strings.Contains(k.pageURL(), "{ref}") && k.kind() != "git" {
		c.problem(key+".page", "has {ref}, which only a base from git has")
	}
}

// hosts lists the hosts of a site.
func (s siteOrigin) hosts() (list []string) {
	for _, text := range append(slices.Clone(s.URLs), s.Sitemap) {
		if u, err := url.Parse(string(text)); err == nil && text != "" {
			list = append(list, strings.ToLower(u.Host))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TemporaryMirrors returns a new folder for mirrors where the state is in memory.
func TemporaryMirrors() (string, error) { return os.MkdirTemp("", "sidenote-mirrors-") }
