package config

import (
	"cmp"
	"crypto/x509"
	"errors"

	"sidenote/cache"
	"sidenote/cache/redis"
	"sidenote/cmd/sidenote/internal/config/document"
	"sidenote/proxy"
)

// SetPlain sets the URL that is written in the file itself. One with a password is refused.
func (u *RedisURL) SetPlain(text string) error {
	if redis.HasPassword(text) {
		return errors.New("holds a password in plain text; write {env: NAME} or {file: PATH}")
	}
	return u.set(text)
}

// Shown tells where the URL is read, or the hosts of one that is written in the file.
func (u RedisURL) Shown() string { return cmp.Or(u.Secret.Shown(), redis.Address(u.Value.Reveal())) }

// Used tells whether there is a Redis.
func (r Redis) Used() bool { return r.URL.Shown() != "" }

func (u *RedisURL) set(text string) error {
	if err := redis.CheckURL(text); err != nil {
		return err
	}
	u.Value = proxy.NewSecret(text)
	return nil
}

// A Prefix begins all keys of an installation on a shared Redis.
type Prefix string

// UnmarshalText refuses characters that have a meaning in keys or patterns.
func (p *Prefix) UnmarshalText(text []byte) error {
	if err := redis.CheckPrefix(string(text)); err != nil {
		return err
	}
	*p = Prefix(text)
	return nil
}

// readRedis reads the files that the Redis section names.
func (c loader) readRedis(src Source) {
	r := &c.Redis
	if text := c.secretText(src, "redis.url", &r.URL.Secret); text != "" {
		if err := r.URL.set(text); err != nil {
			c.problem("redis.url", "%v", err)
		}
	}
	if r.CA != "" && !src.NoSecrets {
		pem, err := src.Read(c.locate("redis.ca", r.CA))
		if err != nil {
			c.problem("redis.ca", "%q cannot be read: %v", r.CA, document.Cause(err))
		} else if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			c.problem("redis.ca", "%q holds no certificate in PEM form", r.CA)
		}
		r.CAPEM = pem
	}
	if text := c.secretText(src, "redis.encryption_keys", &r.EncryptionKeys); text != "" {
		if _, err := cache.ParseKeys([]byte(text)); err != nil {
			c.problem("redis.encryption_keys", "%v", err)
		}
		r.EncryptionKeys.Value = proxy.NewSecret(text)
	}
}

// checkRedis reports a section without a URL.
func (c checker) checkRedis() {
	_, written := c.places["redis"]
	_, url := c.places["redis.url"]
	if written && !url {
		c.problem("redis.url", "is missing; write it here or give --redis")
	}
}

// errShown is about a password on a command line, which all users of a machine can read.
var errShown = errors.New("holds a password, and others can read it in the list of processes; " +
	"set SIDENOTE_REDIS in its place, or write redis: {url: {env: NAME}} or {file: PATH} in a configuration")

// setFlag sets the URL of --redis in place of the one of the files. shown says that it was
// given on the command line.
func (u *RedisURL) setFlag(text string, shown bool) error {
	*u = RedisURL{}
	if err := u.set(text); err != nil {
		return err
	}
	if shown && redis.HasPassword(text) {
		return errShown
	}
	return nil
}
