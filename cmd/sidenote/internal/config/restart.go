package config

import (
	"reflect"
	"slices"
	"strings"

	"sidenote/cmd/sidenote/internal/strictyaml"
)

// takenOver are the keys whose new value a running process takes over, with all below them.
// Others are fixed at the start: ports, folders, caches and limits are made of them.
func takenOver() []string {
	return []string{
		"version", "include", "upstream", "upstreams", "models", "models_file", "prices", "policies", "tenants", "identity", "admin.token", "admin.read_token",
		"timeouts.connect", "timeouts.first_byte", "timeouts.idle", "ready", "shutdown_grace", "shutdown_delay",
	}
}

// needsRestart tells whether a running process keeps the old value of a key until it is
// started again. Of bases see waits.
func needsRestart(key string) bool {
	return !slices.ContainsFunc(takenOver(), func(k string) bool { return key == k || strings.HasPrefix(key, k+".") })
}

// Running returns next as a process that began with old takes it over: what needs a restart
// is as it is in old.
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

// comesOrGoes tells whether a base is in one of two configurations only, and can be added to
// a running process or taken out.
func comesOrGoes(name Name, old, next *Config) bool {
	before, was := old.Knowledge[name]
	after, is := next.Knowledge[name]
	return was != is && before.Engine != EngineVectorStore && after.Engine != EngineVectorStore
}

// keep gives to the values of old whose keys need a restart.
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

// waits tells whether a running process keeps the old value of a key that has changed until
// it is started again.
func waits(key string, old, next *Config) bool {
	if rest, found := strings.CutPrefix(key, "knowledge."); found {
		name, rest, _ := strings.Cut(rest, ".")
		_, was := old.Knowledge[Name(name)]
		_, is := next.Knowledge[Name(name)]
		policy := was && is && (rest == "relevance_threshold" || rest == "description") // they are part of the policies that search the base
		return !policy && !comesOrGoes(Name(name), old, next)
	}
	// The tokens of the admin port were checked for the address that next has.
	return needsRestart(key) || strings.HasPrefix(key, "admin.") && old.Admin.Listen != next.Admin.Listen
}
