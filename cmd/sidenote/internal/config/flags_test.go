package config_test

import (
	"fmt"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// All users of a machine can read command lines, but not the environment of a process.
func TestRedisPasswordOnTheCommandLine(t *testing.T) {
	const refused = "--redis: holds a password, and others can read it in the list of processes; " +
		"set SIDENOTE_REDIS in its place, or write redis: {url: {env: NAME}} or {file: PATH} in a configuration"
	for _, c := range []struct {
		url   string
		shown bool
		want  string
	}{
		{"redis://app:canary@r.test", true, refused},
		{"redis://r.test?master_name=m&sentinel_password=canary", true, refused},
		{"redis://app:canary@r.test", false, "<nil>"},
		{"redis://app@r.test", true, "<nil>"},
		{"redis://r.test", true, "<nil>"},
	} {
		_, err := config.Load(config.Source{Flags: config.Flags{Upstream: "https://u.test", Redis: c.url, RedisShown: c.shown}})
		if fmt.Sprint(err) != c.want {
			t.Errorf("%s, shown %v:\ngot  %v\nwant %s", c.url, c.shown, err, c.want)
		}
	}
}
