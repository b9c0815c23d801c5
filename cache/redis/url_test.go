package redis_test

import (
	"strings"
	"testing"

	"sidenote/cache/redis"
)

// canary is a password that must not be shown anywhere.
const canary = "CANARY"

const (
	notURL = "is not a URL; write it as in redis://127.0.0.1:6379/0"
	encode = "is not a URL; in a user or password write all but letters and digits by percent-encoding: % as %25, @ as %40, / as %2F"
)

func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		"redis://h":                              "h:6379",
		"redis://h:1/":                           "h:1",
		"redis://h:1/15":                         "h:1",
		"rediss://user:CANARY@h":                 "h:6379",
		"redis://:CANARY@h:1":                    "h:1",
		"redis://:CANARY%2F%3F%23%40@h:1":        "h:1",
		"redis://[::1]":                          "[::1]:6379",
		"redis://h1:6379,h2:6380":                "h1:6379,h2:6380",
		"rediss://u:CANARY@h1,h2:1/0":            "h1:6379,h2:1",
		"redis://[::1]:1,[::2],h?addr=b":         "[::1]:1,[::2]:6379,h:6379,b:6379",
		"redis://a,b:1/3?master_name=m&addr=c":   "a:26379,b:1,c:26379",
		"redis://u:CAN@ARY@h":                    "h:6379", // unambiguous, so it is accepted
		"redis://[::1]:1":                        "[::1]:1",
		"redis://a?addr=b&addr=[::1]:3&addr=::2": "a:6379,b:6379,[::1]:3,[::2]:6379",
		"redis://a?cluster=true":                 "a:6379",
		"redis://a/0?cluster=true":               "a:6379",
		"redis://a?cluster=false":                "a:6379",
		"redis://a/3?master_name=m&addr=b:1":     "a:26379,b:1",
		"redis://a?master_name=m&sentinel_username=u&sentinel_password=CANARY": "a:26379",
		"unix:///run/redis.sock":               "/run/redis.sock",
		"unix://u:CANARY@/run/redis.sock?db=3": "/run/redis.sock",
		"unix:///run/a%40b.sock":               "/run/a@b.sock",
	} {
		if err := redis.CheckURL(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got := redis.Address(text); got != want {
			t.Errorf("%s: address %q, want %q", text, got, want)
		}
		if got := open(t, redis.Options{URL: text}).Address(); got != want {
			t.Errorf("%s: address of the DB %q, want %q", text, got, want)
		}
	}
}

func TestURLIsRefused(t *testing.T) {
	const before = "has one of / ? # before an @; write them as %2F %3F %23, and an @ after the host as %40"
	const noHost = "has no host and port; write it as in redis://127.0.0.1:6379/0"
	const noNumber = `; it is a number, as in redis://127.0.0.1:6379/0`
	const words = "; there are addr, cluster, master_name, sentinel_username, sentinel_password"
	for text, want := range map[string]string{
		"":                                     `has no scheme; write it as in redis://127.0.0.1:6379/0`,
		"127.0.0.1:6379":                       notURL,
		"user:CANARY@h:6379":                   notURL,
		"CANARY@h:6379":                        notURL,
		":CANARY@h:6379":                       notURL,
		"CANARY:6379":                          notURL,
		"redis://:CANARY%zz@h":                 encode,
		"redis://:CANARY@h:port":               encode,
		"redis://:CANARY@[::1":                 encode,
		"redis://:CAN ARY@h":                   encode,
		"redis://:CAN[ARY@h":                   encode,
		"redis://u:CAN#ARY@h":                  before,
		"redis://:CAN/ARY@h":                   before,
		"redis://:CAN?ARY@h":                   before,
		"redis://:CAN@/ARY@h":                  before,
		"redis://u:CANARY@a,u:CANARY@b":        "has several users; write several hosts as in redis://user:password@h1:6379,h2:6379, and the @ of a password as %40",
		"redis://h1,":                          noHost,
		"redis://,h2":                          noHost,
		"redis://h1:6379,h2:port":              noHost,
		"redis://h1:6379:6380":                 noHost,
		"redis://h?addr=b:1:2":                 noHost,
		"redis://h1,h2/1":                      "names database 1; a cluster has only database 0",
		"redis://h?sentinel_password=a&CANARY": "has an unknown word beside sentinel_password; write an & of a password as %26",
		"redis://u:1/CANARY@h":                 before,
		"redis://u:1?CANARY@h":                 before,
		"redis://u:1#CANARY@h":                 before,
		"redis://u:1@CANARY/CANARY@h":          before,
		"redis://u:1/CANARY?x=CANARY@h":        before,
		"redis://h?sentinel_password=CANARY@":  before,
		"redis://h#CANARY":                     "has a #; write that of a password as %23",
		"redis://h?cluster=true;x=CANARY":      "has a query that cannot be read; it is word=value, joined by &",
		"http://:CANARY@h":                     `begins with "http:"; write redis://, rediss:// (TLS) or unix://`,
		"redis://:CANARY@":                     noHost,
		"redis://:CANARY@:6379":                noHost,
		"redis://:CANARY@h:0":                  noHost,
		"redis://:CANARY@h:70000":              noHost,
		"redis://h?addr=":                      noHost,
		"redis://h?addr=b:port":                noHost,
		"redis://:CANARY@h/main":               `names database "main"` + noNumber,
		"redis://:CANARY@h/-1":                 `names database "-1"` + noNumber,
		"redis://:CANARY@h/0/1":                `names database "0/1"` + noNumber,
		"redis://h/1?cluster=true":             "names database 1; a cluster has only database 0",
		"redis://h/1?addr=b":                   "names database 1; a cluster has only database 0",
		"redis://h?cluster=yes":                `has cluster="yes"; it is true or false`,
		"redis://h?master_name=m&cluster=true": "has both master_name (Sentinel) and cluster; keep one",
		"redis://h?password=CANARY":            `has an unknown word "password"` + words,
		"redis://h?db=1":                       `has an unknown word "db"` + words,
		"unix://":                              "names no socket; write it as in unix:///run/redis.sock?db=0",
		"unix://run/redis.sock":                "names no socket; write it as in unix:///run/redis.sock?db=0",
		"unix:///run/redis.sock?cluster=true":  `has an unknown word "cluster"; after a socket there is db`,
		"unix:///run/redis.sock?db=main":       `names database "main"` + noNumber,
	} {
		err := redis.CheckURL(text)
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
		if _, opened := redis.Open(redis.Options{URL: text}); opened == nil || opened.Error() != "redis URL: it "+want {
			t.Errorf("open %s: got %v", text, opened)
		}
		if got := redis.Address(text); got != "" {
			t.Errorf("%s: address %q of no URL", text, got)
		}
	}
}

// Wherever the password of a malformed URL ends up, no error shows it, and the URL counts as a
// secret.
func TestURLNeverShowsAPassword(t *testing.T) {
	for _, odd := range []string{"/", "?", "#", "@", "%", ":", "&", "=", ";", " ", "[", "]", "\x00", "/?", "#/@", "12/", "12?", "12#", "12@x/"} {
		for _, shape := range []string{"redis://u:%@h:6379/0", "rediss://:%@h", "redis://%@h", "u:%@h", ":%@h", "unix://u:%@/run/x", "redis://h?sentinel_password=%@"} {
			for _, password := range []string{canary + odd + canary, odd + canary, canary + odd} {
				text := strings.ReplaceAll(shape, "%", password)
				err := redis.CheckURL(text)
				if err != nil && strings.Contains(err.Error(), canary) {
					t.Errorf("%q: %v", text, err)
				}
				if shape != "redis://%@h" && !redis.HasPassword(text) { // this one has only a user
					t.Errorf("%q: not taken for a secret", text)
				}
				if got := redis.Address(text); strings.Contains(got, canary) {
					t.Errorf("%q: address %q", text, got)
				}
			}
		}
	}
}

func TestHasPassword(t *testing.T) {
	for text, want := range map[string]bool{
		"redis://h":                     false,
		"redis://user@h/0?cluster=true": false,
		"redis://user:@h":               true, // set, though empty
		"redis://user:p@h":              true,
		"redis://:p@h":                  true,
		"redis://h?sentinel_password=p": true,
		"redis://h?sentinel_username=u": false,
		"unix://:p@/run/redis.sock":     true,
		"unix:///run/redis.sock":        false,
		"user:p@h":                      true,
		"redis://u:%zz@h":               true,
		"":                              false,
	} {
		if got := redis.HasPassword(text); got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

func TestCheckPrefix(t *testing.T) {
	for _, text := range []string{"a", "sidenote", "A-z_0.9:b", strings.Repeat("p", 64)} {
		if err := redis.CheckPrefix(text); err != nil {
			t.Error(err)
		}
	}
	for _, text := range []string{"", " ", "a b", "a*", "a{b}", "a?", "[a]", "a\n", "ä", "a/b", strings.Repeat("p", 65)} {
		if redis.CheckPrefix(text) == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestAuthorities(t *testing.T) {
	for name, c := range map[string]struct{ url, ca, want string }{
		"without TLS": {"redis://h", "x", "redis: a CA is of use with rediss:// only"},
		"no PEM":      {"rediss://h", "x", "redis: the CA file contains no PEM certificate"},
	} {
		if _, err := redis.Open(redis.Options{URL: c.url, CA: []byte(c.ca)}); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
