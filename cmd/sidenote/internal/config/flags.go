package config

import (
	"fmt"
	"strings"
	"time"

	"sidenote/cmd/sidenote/internal/strictyaml"
)

// applyFlags replaces values of the files by those of the flags.
func (c loader) applyFlags(f Flags) {
	c.applyListenFlag(f.Listen)
	c.flag("--admin", "admin.listen", f.Admin, c.Admin.Listen.UnmarshalText)
	c.flag("--redis", "redis.url", f.Redis, func(text []byte) error { return c.Redis.URL.setFlag(string(text), f.RedisShown) })
	c.flag("--telemetry", "telemetry.listen", f.Telemetry, c.Telemetry.Listen.UnmarshalText)
	c.flag("--mcp", "mcp.listen", f.MCP, c.MCP.Listen.UnmarshalText)
	c.flag("--ready", "ready", f.Ready, c.setReady)
	c.flag("--shutdown-delay", "shutdown_delay", f.ShutdownDelay, c.setShutdownDelay)
	if f.State != "" {
		c.State.Path = f.State
		c.places["state.path"] = strictyaml.Mark{Place: strictyaml.Place{File: "--state"}}
	}
	c.State.Follow = c.State.Follow || f.Follow
	if f.Open != nil {
		c.Identity.Open = *f.Open
	}
	if f.Upstream != "" {
		c.Upstream = Upstream{} // an API key is only ever sent to its own base_url
		c.forget("upstream")
		c.flag("--upstream", "upstream.base_url", f.Upstream, c.Upstream.BaseURL.UnmarshalText)
	}
	if len(f.Knowledge) == 0 {
		return
	}
	declared := c.Knowledge
	delete(c.places, "knowledge")
	for name, k := range declared {
		if !k.Remote() { // the others are kept where a flag names them
			c.forget("knowledge." + string(name))
		}
	}
	c.Knowledge = make(map[Name]Knowledge, len(f.Knowledge))
	for _, text := range f.Knowledge {
		name, path, err := parseKnowledge(text)
		place := strictyaml.Place{File: "--knowledge"}
		if err != nil {
			c.problems = append(c.problems, strictyaml.Problem{Place: place, Reason: err.Error()})
			continue
		}
		if before, ok := c.Knowledge[name]; ok {
			c.problems = append(c.problems, strictyaml.Problem{Place: place, Reason: fmt.Sprintf("%q is the name of both %q and %q; write NAME=PATH", name, before.Path, path)})
			continue
		}
		if k := declared[name]; k.Remote() {
			c.Knowledge[name] = k
			if path != "" {
				c.problems = append(c.problems, strictyaml.Problem{Place: place, Reason: fmt.Sprintf("%s is in %s, which would not get %q; write path: %s in its configuration", name, k.Engine, path, path)})
			}
			continue
		}
		// A base given by name only is embedded if the file says so.
		embed := path == "" && declared[name].Embed
		c.Knowledge[name] = Knowledge{Path: path, Engine: EngineEmbedded, MustExist: path == "", Embed: embed}
		c.places["knowledge."+string(name)] = strictyaml.Mark{Place: place}
	}
}

// setReady parses listening or knowledge.
func (c loader) setReady(text []byte) error {
	if c.Ready = string(text); c.Ready != "listening" && c.Ready != ReadyKnowledge {
		return fmt.Errorf("%q is none of listening, knowledge", text)
	}
	return nil
}

// setShutdownDelay parses a duration such as 5s.
func (c loader) setShutdownDelay(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed < 0 {
		return fmt.Errorf("%q is not a duration; write it as in 300ms, 5s or 10m", text)
	}
	c.ShutdownDelay = parsed
	return nil
}

// flag replaces the value of key in the files by that of a flag, which set parses.
func (c loader) flag(name, key, value string, set func([]byte) error) {
	if value == "" {
		return
	}
	place := strictyaml.Place{File: name}
	c.forget(key)
	c.places[key] = strictyaml.Mark{Place: place}
	if err := set([]byte(value)); err != nil {
		c.problems = append(c.problems, strictyaml.Problem{Place: place, Reason: err.Error()})
	}
}

// forget drops the positions of a key that a flag replaces, and of all keys below it.
func (c loader) forget(key string) {
	for k := range c.places {
		if k == key || strings.HasPrefix(k, key+".") {
			delete(c.places, k)
		}
	}
}
