package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// Default ports.
const (
	defaultPort  = "6379"
	sentinelPort = "26379"
)

// CheckURL returns what is wrong with a URL, without quoting it, because it may contain a
// password. See Options.URL for the valid forms.
func CheckURL(text string) error {
	_, err := parseURL(text)
	return err
}

// HasPassword reports whether a URL contains a password and so is itself a secret.
func HasPassword(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return strings.Contains(text, "@")
	}
	_, set := u.User.Password()
	return set || u.Query().Has("sentinel_password") || u.User == nil && strings.Contains(text, "@") || endsEarly(text)
}

// endsEarly reports whether a / ? or # inside a password ended the host, so that the rest of the
// password would be taken for something else, and shown.
func endsEarly(text string) bool {
	_, rest, _ := strings.Cut(text, "//")
	return strings.ContainsAny(rest[:max(0, strings.LastIndexByte(rest, '@'))], "/?#")
}

// Address returns the hosts of a URL, without user and password.
func Address(text string) string {
	o, err := parseURL(text)
	if err != nil {
		return ""
	}
	return strings.Join(o.Addrs, ",")
}

// UsesTLS reports whether a URL selects TLS.
func UsesTLS(text string) bool {
	o, err := parseURL(text)
	return err == nil && o.TLSConfig != nil
}

var validPrefix = regexp.MustCompile(`^[._:A-Za-z0-9-]{1,64}$`)

// CheckPrefix returns what is wrong with a key prefix.
func CheckPrefix(text string) error {
	if !validPrefix.MatchString(text) {
		return fmt.Errorf("%q is not a prefix; use 1 to 64 of . _ : - a-z A-Z 0-9", text)
	}
	return nil
}

// parseURL converts a URL to the library's options. Query parameters have the library's names,
// where it has one.
func parseURL(text string) (*goredis.UniversalOptions, error) {
	text, more := cutHosts(text)
	u, err := url.Parse(text)
	switch {
	case endsEarly(text):
		return nil, errors.New("has one of / ? # before an @; write them as %2F %3F %23, and an @ after the host as %40")
	case err != nil && strings.Contains(text, "://") && strings.Contains(text, "@"):
		return nil, errors.New("is not a URL; in a user or password write all but letters and digits by percent-encoding: % as %25, @ as %40, / as %2F")
	case err != nil || u.Opaque != "":
		return nil, errors.New("is not a URL; write it as in redis://127.0.0.1:6379/0")
	case repeatsUser(text):
		return nil, errors.New("has several users; write several hosts as in redis://user:password@h1:6379,h2:6379, and the @ of a password as %40")
	case u.Fragment != "":
		return nil, errors.New("has a #; write that of a password as %23")
	}
	words, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("has a query that cannot be read; it is word=value, joined by &")
	}
	o := &goredis.UniversalOptions{Username: u.User.Username()}
	o.Password, _ = u.User.Password()
	switch u.Scheme {
	case "redis":
	case "rediss":
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	case "unix":
		return o, unixURL(o, u, words)
	case "":
		return nil, errors.New("has no scheme; write it as in redis://127.0.0.1:6379/0")
	default:
		return nil, fmt.Errorf("begins with %q; write redis://, rediss:// (TLS) or unix://", u.Scheme+":")
	}
	if o.DB, err = database(strings.Trim(u.Path, "/")); err != nil {
		return nil, err
	}
	if err := query(o, words); err != nil {
		return nil, err
	}
	port := defaultPort
	if o.MasterName != "" {
		port = sentinelPort
	}
	o.Addrs = slices.Concat([]string{u.Host}, more, o.Addrs)
	for i, addr := range o.Addrs {
		if o.Addrs[i], err = withPort(addr, port); err != nil {
			return nil, err
		}
	}
	if o.DB != 0 && isCluster(o) {
		return nil, fmt.Errorf("names database %d; a cluster has only database 0", o.DB)
	}
	return o, nil
}

// cutHosts returns text with only the first of its comma-separated hosts, and the other hosts.
func cutHosts(text string) (one string, more []string) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return text, nil
	}
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	i := strings.LastIndexByte(authority, '@') + 1
	hosts := strings.Split(authority[i:], ",")
	return scheme + "://" + authority[:i] + hosts[0] + path, hosts[1:]
}

// repeatsUser reports whether a URL seems to have a user and a password for each of several hosts,
// which would be parsed as a part of the password.
func repeatsUser(text string) bool {
	_, rest, _ := strings.Cut(text, "://")
	first, last := strings.IndexByte(rest, '@'), strings.LastIndexByte(rest, '@')
	return first < last && strings.Contains(rest[first:last], ",")
}

func unixURL(o *goredis.UniversalOptions, u *url.URL, words url.Values) error {
	if u.Path == "" || u.Host != "" {
		return errors.New("names no socket; write it as in unix:///run/redis.sock?db=0")
	}
	o.Addrs = []string{u.Path}
	for key := range words {
		if key != "db" {
			return fmt.Errorf("has an unknown word %q; after a socket there is db", key)
		}
	}
	var err error
	o.DB, err = database(words.Get("db"))
	return err
}

func database(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("names database %q; it is a number, as in redis://127.0.0.1:6379/0", text)
	}
	return n, nil
}

func query(o *goredis.UniversalOptions, q url.Values) error {
	for key, values := range q {
		last := values[len(values)-1]
		switch key {
		case "addr":
			o.Addrs = values
		case "master_name":
			o.MasterName = last
		case "sentinel_username":
			o.SentinelUsername = last
		case "sentinel_password":
			o.SentinelPassword = last
		case "cluster":
			if last != "true" && last != "false" {
				return fmt.Errorf("has cluster=%q; it is true or false", last)
			}
			o.IsClusterMode = last == "true"
		default:
			if q.Has("sentinel_password") { // it may be part of the password
				return errors.New("has an unknown word beside sentinel_password; write an & of a password as %26")
			}
			return fmt.Errorf("has an unknown word %q; there are addr, cluster, master_name, sentinel_username, sentinel_password", key)
		}
	}
	if o.MasterName != "" && o.IsClusterMode {
		return errors.New("has both master_name (Sentinel) and cluster; keep one")
	}
	return nil
}

// withPort adds the port if there is none, and checks the address.
func withPort(addr, port string) (string, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		addr = net.JoinHostPort(strings.Trim(addr, "[]"), port)
	}
	host, number, err := net.SplitHostPort(addr)
	if strings.Contains(host, ":") && err == nil {
		_, err = netip.ParseAddr(host)
	}
	if n, bad := strconv.ParseUint(number, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
		return "", errors.New("has no host and port; write it as in redis://127.0.0.1:6379/0")
	}
	return addr, nil
}
