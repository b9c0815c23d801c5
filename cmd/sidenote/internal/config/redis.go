package config

import (
	"cmp"
	"crypto/x509"
	"errors"

	"sidenote/cache"
	"sidenote/cache/redis"
	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy"
)

// SetPlain sets a URL that is written in the file itself. It refuses one with a password.
func (u *RedisURL) SetPlain(text string) error {
	if redis.HasPassword(text) {
		return errors.New("holds a password in plain text; write {env: NAME} or {file: PATH}")
	}
	return u.set(text)
}

// Shown returns where the URL is read from, or the hosts of one written in the file.
func (u RedisURL) Shown() string { return cmp.Or(u.Secret.Shown(), redis.Address(u.Value.Reveal())) }

// Used reports whether Redis is configured.
func (r Redis) Used() bool { return r.URL.Shown() != "" }

func (u *RedisURL) set(text string) error {
	if err := redis.CheckURL(text); err != nil {
		return err
	}
	u.Value = proxy.NewSecret(text)
	return nil
}

// A Prefix starts all keys of an installation on a shared Redis.
type Prefix string

// UnmarshalText refuses characters with a special meaning in keys or patterns.
func (p *Prefix) UnmarshalText(text []byte) error {
	if err := redis.CheckPrefix(string(text)); err != nil {
		return err
	}
	*p = Prefix(text)
	return nil
}

// budgetsURLKey is the key of the URL of the Redis for budgets.
const budgetsURLKey = "budgets.redis.url"

// readRedis reads the files that the Redis settings name.
func (c loader) readRedis(src Source) {
	r := &c.Redis
	for key, u := range map[string]*RedisURL{"redis.url": &r.URL, budgetsURLKey: &c.Budgets.Redis.URL} {
		if text := c.secretText(src, key, &u.Secret); text != "" {
			if err := u.set(text); err != nil {
				c.problem(key, "%v", err)
			}
		}
	}
	if r.CA != "" && !src.NoSecrets {
		pem, err := src.Read(c.locate("redis.ca", r.CA))
		if err != nil {
			c.problem("redis.ca", "%q cannot be read: %v", r.CA, strictyaml.Cause(err))
		} else if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			c.problem("redis.ca", "%q contains no PEM certificate", r.CA)
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

// checkRedis reports Redis settings without a URL.
func (c checker) checkRedis() {
	written := func(key string) bool {
		_, ok := c.places[key]
		return ok
	}
	if written("redis") && !written("redis.url") && !written(budgetsURLKey) {
		c.problem("redis.url", "is missing; write it here or give --redis")
	}
	if c.Budgets.Store == "process" && written("budgets.redis") {
		c.problem("budgets.redis", "is not used where budgets.store is process")
	} else if written("budgets.redis") && !written(budgetsURLKey) && !written("redis.url") {
		c.problem(budgetsURLKey, "is missing, as redis names no server for it either; write one of them")
	}
}

// BudgetsRedisURL returns the URL of the Redis that counts budgets, and the key that sets it; "" if
// budgets are not counted in Redis.
func BudgetsRedisURL(c *Config) (url, key string) {
	switch {
	case c.Budgets.Store == "process":
		return "", ""
	case c.Budgets.Redis.URL.Value.Reveal() != "":
		return c.Budgets.Redis.URL.Value.Reveal(), budgetsURLKey
	}
	return c.Redis.URL.Value.Reveal(), "redis.url"
}

// errShown refuses a password on a command line, which all users of a machine can read.
var errShown = errors.New("holds a password, and others can read it in the list of processes; " +
	"set SIDENOTE_REDIS in its place, or write redis: {url: {env: NAME}} or {file: PATH} in a configuration")

// setFlag replaces the URL of the files by that of --redis. shown says that it was given on the
// command line.
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
