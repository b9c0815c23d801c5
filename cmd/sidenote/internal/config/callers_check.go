package config

import (
	"errors"
	"io/fs"
	"maps"
	"slices"

	"sidenote/proxy/tenant"
)

// A reportCallers reports a problem with the value of a key.
type reportCallers func(key, format string, args ...any)

// A keysFile is a configuration that is being read.
type keysFile interface {
	// Read reads the file named by the value of a key, and also returns its path.
	Read(key, name string) (path string, text []byte, err error)
	// Written reports whether a key is present, whether or not its value is valid.
	Written(key string) bool
}

// loadKeys checks the issuers of identity.jwt.
func loadKeys[N ~string](issuers map[N]Issuer, file keysFile, report reportCallers) {
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

func checkKeys(key, path string, text []byte, err error, report reportCallers) {
	if broken := (*fs.PathError)(nil); errors.As(err, &broken) {
		err = broken.Err // the message has the path already
	}
	if err != nil {
		report(key, "%q cannot be read: %v", path, err)
		return
	}
	if _, err := tenant.ParseKeys(text); err != nil {
		report(key, "%q %v", path, err)
	}
}

// claimRules returns the rules that map tokens to tenants; claims are by tenant and issuer.
func claimRules[N ~string](claims map[N]map[N]Claims) (all []tenant.ClaimRule) {
	for _, tenant := range slices.Sorted(maps.Keys(claims)) {
		for _, issuer := range slices.Sorted(maps.Keys(claims[tenant])) {
			all = append(all, claims[tenant][issuer].rule(string(tenant), string(issuer)))
		}
	}
	return all
}

// checkIssuer reports tenants that no token can tell apart.
func checkIssuer(rules []tenant.ClaimRule, report reportCallers) {
	for _, o := range tenant.Overlaps(rules) {
		report("tenants."+o.Rule.Tenant+".jwt."+o.Rule.Issuer,
			"every token that names this tenant names %q too, and a token that names two is refused", o.With.Tenant)
	}
}

// addIssuer sets how callers are recognised. The issuers have no keys yet; those are read at run
// time.
func addIssuer[N ~string](t *tenant.Tenants, issuers map[N]Issuer, rules []tenant.ClaimRule, header Header) {
	t.Rules, t.Trusted, t.Certificates = rules, Networks(header.Trusted), header.Certificates
	for _, name := range slices.Sorted(maps.Keys(issuers)) {
		i := issuers[name]
		t.Issuers = append(t.Issuers, tenant.Issuer{Name: string(name), Issuer: i.Issuer, Audience: i.Audience, Algorithms: i.Allowed()})
	}
}
