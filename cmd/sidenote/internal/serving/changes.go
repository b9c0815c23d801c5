package serving

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy/admin"
	"sidenote/proxy/audit"
)

// changes compares a configuration with the running one. It lists the tenants that differ, with
// their changed keys; other changed keys that are applied; and those that need a restart.
func changes(old, fresh *config.Config) admin.Reloaded {
	out := admin.Reloaded{Object: "reload", Tenants: []admin.ReloadedTenant{}, Keys: []string{}, Restart: []string{}}
	all := config.CompareConfigs(old, fresh)
	out.Changes = values(all)
	for _, t := range all.Tenants {
		keys := keysOf(t.Changes, false)
		if t.Kind != config.Changed || len(keys) > 0 { // a restart is needed, so nothing changes now
			out.Tenants = append(out.Tenants, admin.ReloadedTenant{Tenant: string(t.Name), Change: t.Kind, Keys: keys})
		}
	}
	for i, c := range all.Keys { // for a new or removed base or upstream, the name is enough
		if parts := strings.SplitN(c.Key, ".", 3); len(parts) == 3 && !inBoth(old, fresh, parts[0], config.Name(parts[1])) {
			all.Keys[i].Key = parts[0] + "." + parts[1]
		}
	}
	out.Keys = append(out.Keys, keysOf(all.Keys, false)...)
	out.Restart = append(out.Restart, keysOf(all.Keys, true)...)
	ups, freshUps := config.ProxyUpstreams(old), config.ProxyUpstreams(fresh)
	for _, name := range fresh.KnowledgeNames() {
		up := old.Knowledge[name].Upstream
		if before, after := ups[string(up)], freshUps[string(up)]; up != "" && !reflect.DeepEqual(before, after) {
			out.Restart = append(out.Restart, fmt.Sprintf("knowledge.%s (its upstream %s)", name, up))
		}
	}
	return out
}

// values returns all changes with their values.
func values(all config.Changes) (list []audit.Change) {
	add := func(prefix string, changes []config.Change) {
		for _, c := range changes {
			one := audit.NewChange(prefix+c.Key, c.Old, c.New)
			one.OldSHA256, one.NewSHA256, one.Restart = c.OldSHA256, c.NewSHA256, c.Restart
			list = append(list, one)
		}
	}
	add("", all.Keys)
	for _, t := range all.Tenants {
		key := "tenants." + string(t.Name)
		switch t.Kind {
		case config.Added:
			list = append(list, audit.NewChange(key, "", config.Added))
		case config.Removed:
			list = append(list, audit.NewChange(key, config.Removed, ""))
		default:
			add(key+".", t.Changes)
		}
	}
	return list
}

// inBoth reports whether both configurations have a base or an upstream. Other keys are in both.
func inBoth(a, b *config.Config, key string, name config.Name) bool {
	switch key {
	case "knowledge":
		_, inA := a.Knowledge[name]
		_, inB := b.Knowledge[name]
		return inA && inB
	case "upstreams":
		_, inA := a.Upstreams[name]
		_, inB := b.Upstreams[name]
		return inA && inB
	}
	return true
}

// keysOf returns the keys that need a restart, or those that do not.
func keysOf(changes []config.Change, restart bool) (keys []string) {
	for _, c := range changes {
		if c.Restart == restart && !slices.Contains(keys, c.Key) {
			keys = append(keys, c.Key)
		}
	}
	return keys
}

// notYet lists the tenants that would search bases which need a restart, and the removed tenants
// that still own ports until a restart.
func notYet(next, fresh *config.Config) (problems strictyaml.Problems) {
	for _, l := range next.CallerPorts() {
		if _, there := fresh.Tenants[l.Tenant]; l.Tenant != "" && !there {
			problems = append(problems, strictyaml.Problem{Place: fresh.Place("tenants"), Key: "tenants." + string(l.Tenant), Reason: fmt.Sprintf("is gone, and %s is its port until a restart", l.Address)})
		}
	}
	for _, name := range fresh.TenantNames() {
		p, _ := fresh.Tenant(name)
		for one := range p.All {
			for _, id := range one.Rewrite.Knowledge {
				if _, runs := next.Knowledge[config.Name(id)]; !runs {
					key := "knowledge." + id
					problems = append(problems, strictyaml.Problem{Place: fresh.Place(key), Key: key, Reason: fmt.Sprintf("is a new vector store, so it needs a restart, and tenant %s would search it", name)})
				}
			}
		}
	}
	return problems
}
