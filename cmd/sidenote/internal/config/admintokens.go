package config

import (
	"crypto/sha256"
	"strings"
	"time"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy"
	"sidenote/proxy/admin"
)

// An AdminToken is a token of the admin port with a scope of its own.
type AdminToken struct {
	Name      Name      `yaml:"name" need:"true"`
	Scope     string    `yaml:"scope" need:"true" of:"admin|write|read|metrics"`
	File      TokenFile `yaml:"file"`
	SHA256    Digest    `yaml:"sha256"`    // instead of File
	Knowledge []Name    `yaml:"knowledge"` // with read and write: the bases it is for; none: all
	Expires   Date      `yaml:"expires"`   // its last day
}

// A TokenFile is the path of a file with a token, and the token.
type TokenFile struct {
	Path  string
	Value proxy.Secret
}

// UnmarshalText sets the path.
func (f *TokenFile) UnmarshalText(text []byte) error {
	*f = TokenFile{Path: string(text)}
	return nil
}

// Shown returns the path.
func (f TokenFile) Shown() string { return f.Path }

// sum returns the first 8 hex digits of the SHA-256 of the token; "" if it was not read.
func (f TokenFile) sum() string { return sumOf(f.Value) }

// digest returns the SHA-256 of the token; zero if it was not read.
func (t *AdminToken) digest() Digest {
	if text := t.File.Value.Reveal(); text != "" {
		return sha256.Sum256([]byte(text))
	}
	return t.SHA256
}

// minAdminToken is the least length of a token in bytes: 64 bits in hex.
const minAdminToken = 16

// readAdminTokens reads the files of tokens.
func (c loader) readAdminTokens(src Source) {
	for i := range c.Admin.Tokens {
		f, key := &c.Admin.Tokens[i].File, tokenKey(i)+".file"
		if f.Path == "" {
			continue
		}
		text := string(c.readNamed(src, key, f.Path))
		f.Path = c.locate(key, f.Path)
		switch {
		case text == "": // reported, or not read
		case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
			c.problem(key, "holds a space, line break or other byte that no header can carry")
		case len(text) < minAdminToken:
			c.problem(key, "holds a token of %d bytes; it needs %d at least, as `openssl rand -hex 16` prints", len(text), minAdminToken)
		default:
			f.Value = proxy.NewSecret(text)
		}
	}
}

func tokenKey(i int) string { return "admin.tokens[" + itoa(i) + "]" }

// checkAdminTokens refuses tokens that are missing, or of which one cannot be told from another.
func (c checker) checkAdminTokens() {
	names, owners := map[Name]string{}, map[Digest]string{sha256.Sum256(nil): ""}
	for key, s := range map[string]Secret{"admin.token": c.Admin.Token, "admin.read_token": c.Admin.ReadToken} {
		if text := s.Value.Reveal(); text != "" {
			owners[sha256.Sum256([]byte(text))] = key
		}
	}
	for i := range c.Admin.Tokens {
		t, key := &c.Admin.Tokens[i], tokenKey(i)
		if before, twice := names[t.Name]; twice && t.Name != "" {
			c.problem(key+".name", "%q is also the name of the token at %s", t.Name, c.Place(before))
		}
		names[t.Name] = key + ".name"
		_, file := c.places[key+".file"]
		_, sum := c.places[key+".sha256"]
		switch {
		case file && sum:
			c.problem(key+".sha256", "stands beside file; keep one")
		case !file && !sum:
			c.problem(key+".file", "is missing; name a file that holds the token, or give its sha256")
		}
		c.checkDistinct(t, key, owners)
		if t.Scope != string(admin.ScopeRead) && t.Scope != string(admin.ScopeWrite) && len(t.Knowledge) > 0 {
			c.problem(key+".knowledge", "limits tokens of the scopes read and write, not of %s", t.Scope)
		}
		c.checkKnowledge(key+".knowledge", t.Knowledge)
	}
}

// checkDistinct refuses a token that is another one too, or is empty. owners has the keys of those
// before it; that of the empty token is "".
func (c checker) checkDistinct(t *AdminToken, key string, owners map[Digest]string) {
	at := key + ".file"
	if t.File.Path == "" {
		at = key + ".sha256"
	}
	digest := t.digest()
	if digest == (Digest{}) {
		return // was reported, or not read
	}
	switch owner, taken := owners[digest]; {
	case taken && owner == "":
		c.problem(at, "is the digest of an empty token")
	case taken:
		c.problem(at, "is the same token as %s, at %s", owner, c.Place(owner))
	default:
		owners[digest] = at
	}
}

// AdminTokens returns the tokens of admin.tokens.
func (c *Config) AdminTokens() []admin.Token {
	var all []admin.Token
	for _, t := range c.Admin.Tokens {
		all = append(all, admin.Token{Name: string(t.Name), SHA256: t.digest(), Scope: admin.Scope(t.Scope), Knowledge: Texts(t.Knowledge), Expires: t.Expires.End()})
	}
	return all
}

// AdminToken returns the token that commands send to the admin port: admin.token, or else the first
// of admin.tokens that allows everything, has a file and is valid. It is empty if there is none.
func (c *Config) AdminToken(now time.Time) proxy.Secret {
	if c.Admin.Token.Value.Reveal() != "" {
		return c.Admin.Token.Value
	}
	for _, t := range c.Admin.Tokens {
		if end := t.Expires.End(); t.Scope == string(admin.ScopeAdmin) && t.File.Value.Reveal() != "" && (end.IsZero() || now.Before(end)) {
			return t.File.Value
		}
	}
	return proxy.Secret{}
}

// ShortTokens lists the settings with a token for everything, or to read everything, that is short
// enough to be guessed.
func (c *Config) ShortTokens() (short strictyaml.Problems) {
	for _, of := range []struct {
		key   string
		token Secret
	}{{"admin.token", c.Admin.Token}, {"admin.read_token", c.Admin.ReadToken}} {
		if n := len(of.token.Value.Reveal()); n > 0 && n < minAdminToken {
			short = append(short, strictyaml.Problem{Place: c.Place(of.key), Key: of.key, Reason: "has " + itoa(n) + " bytes and can be guessed; make one by `openssl rand -hex 16`"})
		}
	}
	return short
}

// expiredTokens lists the admin tokens whose last day is over.
func (c *Config) expiredTokens(now time.Time) (expired strictyaml.Problems) {
	for i, t := range c.Admin.Tokens {
		if end := t.Expires.End(); !end.IsZero() && !now.Before(end) {
			key := tokenKey(i) + ".expires"
			expired = append(expired, strictyaml.Problem{Place: c.Place(key), Key: key, Reason: t.Expires.Format(time.DateOnly) + " has passed; whoever has this token is refused"})
		}
	}
	return expired
}
