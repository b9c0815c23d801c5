package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy"
)

// readSecrets reads all secrets. No problem ever shows one.
func (c loader) readSecrets(src Source) {
	c.readSecret(src, "admin.token", &c.Admin.Token)
	c.readSecret(src, "admin.read_token", &c.Admin.ReadToken)
	c.readAdminTokens(src)
	c.readUpstream(src, "upstream", &c.Upstream)
	c.readRedis(src)
	c.readEmbeddings(src)
	c.readEngines(src)
	c.readRecords(src)
	for _, name := range sortedKeys(c.Upstreams) {
		u := c.Upstreams[name]
		c.readUpstream(src, "upstreams."+string(name), &u)
		c.Upstreams[name] = u
	}
}

// AdminTokenEnv is the environment variable of the admin token. There is only a flag for its file,
// because other users can read command lines.
const AdminTokenEnv = "SIDENOTE_ADMIN_TOKEN"

// applyAdminToken replaces the token of the files by that of the flag or the environment.
func (c loader) applyAdminToken(src Source) {
	given, from := Secret{File: src.Flags.AdminTokenFile}, "--admin-token-file"
	if given.File == "" {
		if text, _ := src.Env(AdminTokenEnv); text == "" {
			return
		}
		given, from = Secret{Env: AdminTokenEnv}, AdminTokenEnv
	}
	c.forget("admin.token")
	c.places["admin.token"] = strictyaml.Mark{Place: strictyaml.Place{File: from}}
	c.Admin.Token = given
}

// SetPlain refuses a secret that is written in the file itself.
func (s *Secret) SetPlain(string) error {
	return errors.New("is a secret in plain text; write {env: NAME} or {file: PATH}")
}

// Shown returns where the secret is read from, never the secret.
func (s Secret) Shown() string {
	switch {
	case s.Env != "":
		return "env " + s.Env
	case s.File != "":
		return "file " + s.File
	}
	return ""
}

// sum returns the first 8 hex digits of the SHA-256 of the secret; "" if there is none.
func (s Secret) sum() string { return sumOf(s.Value) }

func sumOf(s proxy.Secret) string {
	text := s.Reveal()
	if text == "" {
		return ""
	}
	digest := sha256.Sum256([]byte(text))
	return hex.EncodeToString(digest[:4])
}

// readSecret reads a secret that must be one word.
func (c loader) readSecret(src Source, key string, s *Secret) {
	text := c.secretText(src, key, s)
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		c.problem(key, "holds a space, line break or other byte that no header can carry")
		return
	}
	if text != "" {
		s.Value = proxy.NewSecret(text)
	}
}

// secretText returns the trimmed content of what s names, or "" if there is none or it cannot be
// read; the latter is reported.
func (c loader) secretText(src Source, key string, s *Secret) string {
	if _, written := c.places[key]; !written {
		return ""
	}
	switch {
	case s.Env != "" && s.File != "":
		c.problem(key, "has both env and file; keep one")
	case s.Env != "" && !c.may(key, maySecrets):
		c.forbidden(key+".env", maySecrets, "is not for an included file to read")
	case s.Env != "" && src.NoSecrets:
	case s.Env != "":
		value, ok := src.Env(s.Env)
		if !ok || strings.TrimSpace(value) == "" {
			c.problem(key+".env", "%s is not set in the environment", s.Env)
		}
		return strings.TrimSpace(value)
	case s.File != "":
		return string(c.readNamed(src, key+".file", s.File))
	}
	return ""
}

// readAgain reads the file at key; an included file may read only its own folder.
func readAgain(c loader, src Source, key, name string) ([]byte, error) {
	path := c.locate(key, name)
	if c.may(key, maySecrets) {
		return src.Read(path)
	}
	return src.readWithin(c.Place(key).File, path)
}

// readNamed returns the trimmed content of the file at key; an included file may read only its own
// folder. It reports problems and then returns nil.
func (c loader) readNamed(src Source, key, name string) []byte {
	data, err := readAgain(c, src, key, name)
	text := bytes.TrimSpace(strictyaml.TrimBOM(data))
	switch {
	case errors.Is(err, errOutside):
		c.forbidden(key, maySecrets, "%q %v", name, err)
	case src.NoSecrets:
	case err != nil:
		c.problem(key, "%q cannot be read: %v", name, strictyaml.Cause(err))
	case len(text) == 0:
		c.problem(key, "%q is empty", name)
	default:
		return text
	}
	return nil
}
