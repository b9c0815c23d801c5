package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// applyFlags replaces values of the files by those of the flags.
func (c loader) applyFlags(f Flags) {
	c.flag("--listen", "listen", f.Listen, c.Listen.UnmarshalText)
	c.flag("--admin", "admin.listen", f.Admin, c.Admin.Listen.UnmarshalText)
	c.flag("--redis", "redis.url", f.Redis, func(text []byte) error { return c.Redis.URL.setFlag(string(text), f.RedisShown) })
	c.flag("--telemetry", "telemetry.listen", f.Telemetry, c.Telemetry.Listen.UnmarshalText)
	c.flag("--shutdown-delay", "shutdown_delay", f.ShutdownDelay, c.setShutdownDelay)
	if f.State != "" {
		c.State.Path = f.State
		c.places["state.path"] = mark{Place: Place{File: "--state"}}
	}
	c.State.Follow = c.State.Follow || f.Follow
	if f.Open != nil {
		c.Identity.Open = *f.Open
	}
	if f.Upstream != "" {
		c.Upstream = Upstream{} // a key is only ever sent to its own base_url
		c.forget("upstream")
		c.flag("--upstream", "upstream.base_url", f.Upstream, c.Upstream.BaseURL.UnmarshalText)
	}
	if len(f.Knowledge) == 0 {
		return
	}
	c.forget("knowledge")
	c.Knowledge = make(map[Name]Knowledge, len(f.Knowledge))
	for _, value := range f.Knowledge {
		name, path, err := ParseKnowledge(value)
		place := Place{File: "--knowledge"}
		if err != nil {
			c.problems = append(c.problems, Problem{place, "", err.Error()})
			continue
		}
		if before, ok := c.Knowledge[name]; ok {
			c.problems = append(c.problems, Problem{place, "", fmt.Sprintf("%q is the name of both %q and %q; write NAME=PATH", name, before.Path, path)})
			continue
		}
		c.Knowledge[name] = Knowledge{Path: path, Engine: EngineEmbedded, MustExist: path == ""}
		c.places["knowledge."+string(name)] = mark{Place: place}
	}
}

// setShutdownDelay reads 5s.
func (c loader) setShutdownDelay(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed < 0 {
		return fmt.Errorf("%q is not a duration; write it as in 300ms, 5s or 10m", text)
	}
	c.ShutdownDelay = parsed
	return nil
}

// flag lets set read the value of a flag in place of what the files have at a key.
func (c loader) flag(name, key, value string, set func([]byte) error) {
	if value == "" {
		return
	}
	place := Place{File: name}
	c.forget(key)
	c.places[key] = mark{Place: place}
	if err := set([]byte(value)); err != nil {
		c.problems = append(c.problems, Problem{place, "", err.Error()})
	}
}

// forget drops the places of a key that a flag replaces, and of all keys below it.
func (c loader) forget(key string) {
	for k := range c.places {
		if k == key || strings.HasPrefix(k, key+".") {
			delete(c.places, k)
		}
	}
}

// ParseKnowledge reads [NAME=]PATH. Without a name the base is called after the
// folder or file. A text without / . and ~ is the name of a base in the state folder; its
// path is "".
func ParseKnowledge(value string) (name Name, path string, err error) {
	left, path, named := strings.Cut(value, "=")
	if !named || strings.ContainsAny(left, `/\.~`) {
		if !strings.ContainsAny(value, `/\.~`) {
			if err := name.UnmarshalText([]byte(value)); err != nil {
				return "", "", fmt.Errorf("%w; for a folder of that name write ./%s", err, value)
			}
			return name, "", nil
		}
		name, err = folderName(value)
		return name, value, err
	}
	if err := name.UnmarshalText([]byte(left)); err != nil {
		return "", "", err
	}
	if strings.TrimSpace(path) == "" {
		return "", "", fmt.Errorf("%q has no path after the =", value)
	}
	return name, path, nil
}

// folderName folds the last element of path to a name.
func folderName(path string) (Name, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolve %q: %w", path, err)
	}
	var b strings.Builder
	for _, r := range strings.ToLower(filepath.Base(abs)) {
		switch {
		case r < 128 && validName(string(r)):
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := b.String()
	name = strings.Trim(name[:min(len(name), 64)], "-")
	if !validName(name) {
		return "", fmt.Errorf("%q gives no name of a-z 0-9 _ -; write NAME=PATH", path)
	}
	return Name(name), nil
}
