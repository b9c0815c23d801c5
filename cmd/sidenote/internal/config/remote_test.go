package config_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval/knowledge/remote"
)

// A base may come from a repository, a site or a bucket; its folder is the mirror in the state folder, and
// its documents have the address at which people read them.
func TestRemoteSources(t *testing.T) {
	src := disk{"c.yaml": `
upstream: https://u.test
state: {path: /state}
knowledge:
  code:
    git: {url: "git@github.com:o/r.git", ref: a b, path: /docs/, key: {file: key}, every: 1m, max_bytes: 1MiB}
  wiki:
    path: wiki
    url: https://wiki.test/{path}
  site:
    http: {urls: ["https://docs.test/a/"], exclude: ["/a/old/**"], allow_private: true}
  bucket:
    s3: {endpoint: "https://s3.test", bucket: b, prefix: p/, credentials: {access_key: {env: KEY}, secret_key: {env: SECRET}}}
    include: ["**/*.md"]
    page: https://files.test/{path}`, "key": "one\ntwo\n"}.source("c.yaml")
	src.Env = env(map[string]string{"KEY": "k", "SECRET": "canary"})
	c, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	code := c.Folder("code")
	if code.Path != filepath.FromSlash("/state/remote/code/files") || code.Remote != "git ssh://git@github.com/o/r.git a b /docs/" || code.URL != "https://github.com/o/r/blob/a%20b/docs/{path}" {
		t.Errorf("code is %+v", code)
	}
	s, _ := c.RemoteSource("code")
	if g := s.Source.(remote.Git); s.Every != time.Minute || g.Limits.Bytes != 1<<20 || string(g.Key()) != "one\ntwo\n" || g.AllowPrivate {
		t.Errorf("code is fetched from %+v", s)
	}
	if wiki := c.Folder("wiki"); wiki.URL != "https://wiki.test/{path}" || wiki.Remote != "" {
		t.Errorf("wiki is %+v", wiki)
	}
	s, _ = c.RemoteSource("site")
	if h := s.Source.(remote.Site); s.Every != 6*time.Hour || h.Delay != 200*time.Millisecond || !h.AllowPrivate || c.Folder("site").Address == nil {
		t.Errorf("site is fetched from %+v", s)
	}
	s, _ = c.RemoteSource("bucket")
	b := s.Source.(remote.S3)
	if b.SecretKey() != "canary" || strings.Contains(b.String(), "canary") || !b.Wanted("a/b.md") || b.Wanted("a.pdf") || c.Folder("bucket").URL != "https://files.test/{path}" {
		t.Errorf("bucket is fetched from %+v", s)
	}
	if err := c.CheckFolders(func(name config.Name) bool { return name == "wiki" }); err != nil {
		t.Error(err)
	}
}

func TestRemoteSourcesThatConflict(t *testing.T) {
	const site = "http: {urls: ['https://a.test/']"
	for base, want := range map[string]string{
		"git: {url: 'https://u:canary@h.test/r'}":                                            "a.git.url: holds a user or password; write user, and password: {env: NAME} or {file: PATH}",
		"git: {url: /srv/r}":                                                                 `a.git.url: "/srv/r" is not the URL of a repository; write it as in https://github.com/OWNER/NAME or ssh://git@HOST/PATH`,
		"git: {url: 'file:///srv/r'}":                                                        `a.git.url: "file:///srv/r" is not the URL of a repository`,
		"git: {ref: main}":                                                                   "a.git.url: is missing",
		"git: {url: 'https://h.test/r', password: canary}":                                   "a.git.password: is a secret in plain text",
		"git: {url: 'https://h.test/r', key: {file: key}}":                                   `a.git.url: "https://h.test/r" is not reached by ssh, which key and known_hosts are for`,
		"git: {url: 'https://h.test/r', every: 1s}":                                          "a.git.every: 1s is out of range; use 10s to 168h",
		"git: {url: 'https://h.test/r'}, path: docs":                                         "a.git: is a second place to read, beside path",
		site + "}, s3: {endpoint: 'https://s.test', bucket: b}":                              "a.s3: is a second place to read, beside http",
		"http: {max_pages: 5}":                                                               "a.http.urls: is missing",
		"http: {urls: ['https://a.test/', 'https://b.test/']}":                               "a.http: names the hosts a.test, b.test; write a base for each",
		"http: {urls: ['https://u:canary@a.test/']}":                                         "a.http.urls[0]: holds a user or password",
		site + ", include: ['docs/**']}":                                                     `a.http.include[0]: "docs/**" is not a pattern for paths; write it as in /docs/**`,
		site + ", allow_private: yes}":                                                       `a.http.allow_private: "yes" is not true or false`,
		"s3: {endpoint: 'https://s.test', bucket: b, credentials: {access_key: {env: KEY}}}": "a.s3.credentials: has only one of access_key and secret_key",
		"s3: {bucket: b}":                                                                    "a.s3.endpoint: is missing",
		"path: docs, page: 'https://wiki.test/'":                                             `a.page: "https://wiki.test/" has no {path}`,
		"path: docs, url: 'wiki/{path}'":                                                     `a.url: "wiki/{path}" is not the address of a page`,
		"path: docs, page: 'https://w.test/{ref}/{path}'":                                    "{ref}",
		"engine: vector_store, upstream: default, id: vs, " + site + "}":                     "a.http: does not go with engine vector_store",
	} {
		src := disk{"c.yaml": "upstream: https://u.test\nknowledge: {a: {" + base + "}}", "key": "k"}.source("c.yaml")
		src.Env = env(map[string]string{"KEY": "k"})
		_, err := config.Load(src)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "c.yaml:2:") {
			t.Errorf("%s\ngot  %v\nwant %s", base, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error shows a secret: %v", base, err)
		}
	}
}

// An included file may only fetch with a permission, as it names what this machine connects to.
func TestRemoteSourceOfAnInclude(t *testing.T) {
	team := "knowledge: {a: {http: {urls: ['https://a.test/']}}}"
	_, err := config.Load(disk{"c.yaml": "upstream: https://u.test\ninclude: [team.yaml]", "team.yaml": team}.source("c.yaml"))
	if err == nil || !strings.Contains(err.Error(), "knowledge.a.http: is not for an included file to fetch") {
		t.Errorf("without a permission: %v", err)
	}
	if _, err = config.Load(disk{"c.yaml": "upstream: https://u.test\ninclude: [{path: team.yaml, may: [paths]}]", "team.yaml": team}.source("c.yaml")); err != nil {
		t.Error(err)
	}
}
