package callers

import (
	"errors"
	"io/fs"
	"maps"
	"slices"

	"sidenote/proxy"
	"sidenote/proxy/identity"
)

// A Report reports what is wrong with the value of a key of the configuration.
type Report func(key, format string, args ...any)

// A File is a configuration that is being read.
type File interface {
	// Read reads the file that the value of a key names, and returns its path as well.
	Read(key, name string) (path string, text []byte, err error)
	// Written tells whether a key is there, be its value valid or not.
	Written(key string) bool
}

// Load checks the issuers of identity.jwt.
func Load[N ~string](issuers map[N]Issuer, file File, report Report) {
	for _, name := range slices.Sorted(maps.Keys(issuers)) {
		i, key := issuers[name], "identity.jwt."+string(name)
		for _, other := range slices.Sorted(maps.Keys(issuers)) {
			if o := issuers[other]; other < name && o.Issuer == i.Issuer && o.Audience == i.Audience && i.Issuer != "" {
				report(key, "takes the same tokens as %q", other)
			}
		}
		switch {
		case i.JWKSURL.URL != nil && i.JWKSFile != "":
			report(key, "has both jwks_url and jwks_file; keep one")
		case i.JWKSURL.URL == nil && i.JWKSFile == "":
			if !file.Written(key + ".jwks_url") {
				report(key, "has no keys; say where they are, by jwks_url or jwks_file")
			}
		case i.JWKSFile != "":
			path, text, err := file.Read(key+".jwks_file", i.JWKSFile)
			i.JWKSFile = path
			issuers[name] = i
			checkKeys(key+".jwks_file", path, text, err, report)
		}
	}
}

func checkKeys(key, path string, text []byte, err error, report Report) {
	if broken := (*fs.PathError)(nil); errors.As(err, &broken) {
		err = broken.Err // the path is named already
	}
	if err != nil {
		report(key, "%q cannot be read: %v", path, err)
		return
	}
	if _, err := identity.ParseKeys(text); err != nil {
		report(key, "%q %v", path, err)
	}
}

// Rules says which tokens name which tenant; claims are by tenant and issuer.
func Rules[N ~string](claims map[N]map[N]Claims) (all []identity.Rule) {
	for _, tenant := range slices.Sorted(maps.Keys(claims)) {
		for _, issuer := range slices.Sorted(maps.Keys(claims[tenant])) {
			all = append(all, claims[tenant][issuer].rule(string(tenant), string(issuer)))
		}
	}
	return all
}

// Check reports tenants that no token can tell apart.
func Check(rules []identity.Rule, report Report) {
	for _, o := range identity.Overlaps(rules) {
		report("tenants."+o.Rule.Tenant+".jwt."+o.Rule.Issuer,
			"every token that names this tenant names %q too, and a token that names two is refused", o.With.Tenant)
	}
}

// Add fills in by what callers are recognised. The issuers have no keys yet, which are read
// while the process runs.
func Add[N ~string](t *proxy.Tenants, issuers map[N]Issuer, rules []identity.Rule, header Header) {
	t.Rules, t.Trusted, t.Certificates = rules, Networks(header.Trusted), header.Certificates
	for _, name := range slices.Sorted(maps.Keys(issuers)) {
		i := issuers[name]
		t.Issuers = append(t.Issuers, identity.Issuer{Name: string(name), Issuer: i.Issuer, Audience: i.Audience, Algorithms: i.Allowed()})
	}
}
