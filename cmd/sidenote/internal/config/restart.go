package config

import (
	"reflect"
	"slices"
	"strings"

	"sidenote/cmd/sidenote/internal/strictyaml"
)

// takenOver lists the keys whose new values a running process applies, including all keys below
// them. Other keys are fixed at the start: ports, folders, caches and limits are built from them.
func takenOver() []string {
	return []string{
		"version", "include", "upstream", "upstreams", "models", "models_file", "prices", "policies", "tenants", "identity", "admin.token", "admin.read_token", "admin.tokens",
		"timeouts.connect", "timeouts.first_byte", "timeouts.idle", "ready", "shutdown_grace", "shutdown_delay",
	}
}

// needsRestart reports whether a running process keeps the old value of a key until it is
// restarted. For bases see waits.
func needsRestart(key string) bool {
	return !slices.ContainsFunc(takenOver(), func(k string) bool { return key == k || strings.HasPrefix(key, k+".") })
}

// Running returns next as a process that was started with old applies it: what needs a restart is
// as in old.
func Running(old, next *Config) *Config {
	running := *next
	keep("", reflect.ValueOf(old).Elem(), reflect.ValueOf(&running).Elem())
	if old.Admin.Listen != next.Admin.Listen {
		running.Admin = old.Admin
	}
	running.Knowledge = map[Name]Knowledge{}
	for name, k := range old.Knowledge {
		now, stays := next.Knowledge[name]
		if stays {
			k.RelevanceThreshold, k.Description = now.RelevanceThreshold, now.Description
			k.Password, k.APIKey = replaced(k.Password, now.Password), replaced(k.APIKey, now.APIKey)
		}
		if stays || k.Engine != EngineEmbedded {
			running.Knowledge[name] = k
		}
	}
	for name, k := range next.Knowledge {
		if comesOrGoes(name, old, next) {
			running.Knowledge[name] = k
		}
	}
	return &running
}

// comesOrGoes reports whether a base is in only one of two configurations and can be added to, or
// removed from, a running process.
func comesOrGoes(name Name, old, next *Config) bool {
	before, was := old.Knowledge[name]
	after, is := next.Knowledge[name]
	return was != is && before.inProcess() && after.inProcess()
}

// inProcess reports whether a base, or the zero Knowledge, needs no connection.
func (k Knowledge) inProcess() bool { return k.Engine == EngineEmbedded || k.Engine == "" }

// replaced returns the secret of an engine that a running process uses: it reads the same file
// again for each connection, but learns of another file only when it is restarted.
func replaced(old, next Secret) Secret {
	if old.Shown() == next.Shown() {
		return next
	}
	return old
}

// follows reports whether a running process uses the new value of a changed key of a base that is
// in both configurations.
func follows(key string, before, after Knowledge) bool {
	switch key {
	case "relevance_threshold", "description": // part of the policies that search the base
		return true
	case "password":
		return before.Password.Shown() == after.Password.Shown()
	case "api_key":
		return before.APIKey.Shown() == after.APIKey.Shown()
	}
	return false
}

// keep copies from old the values that need a restart.
func keep(key string, old, to reflect.Value) {
	if !needsRestart(key) {
		return
	}
	part := func(k string) bool { return strings.HasPrefix(k, key+".") || key == "" }
	if !slices.ContainsFunc(takenOver(), part) {
		to.Set(old)
		return
	}
	for _, f := range strictyaml.Fields(to.Type()) {
		keep(strictyaml.Join(key, f.Key), old.FieldByIndex(f.Index), to.FieldByIndex(f.Index))
	}
}

// waits reports whether a running process keeps the old value of a changed key until it is
// restarted.
func waits(key string, old, next *Config) bool {
	if rest, found := strings.CutPrefix(key, "knowledge."); found {
		name, rest, _ := strings.Cut(rest, ".")
		before, was := old.Knowledge[Name(name)]
		after, is := next.Knowledge[Name(name)]
		return !(was && is && follows(rest, before, after)) && !comesOrGoes(Name(name), old, next)
	}
	// The tokens of the admin port were checked for the address in next.
	return needsRestart(key) || strings.HasPrefix(key, "admin.") && old.Admin.Listen != next.Admin.Listen
}
