package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"sidenote/cmd/sidenote/internal/client"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/proxy/admin"
	"sidenote/proxy/tenant"
)

type keyCmd struct {
	New  keyNewCmd  `cmd:"" help:"Make a key and print it once, with its line for the configuration."`
	Hash keyHashCmd `cmd:"" help:"Read a key from stdin and print its SHA-256."`
	List keyListCmd `cmd:"" help:"List the keys that a running Sidenote knows, and when they were last used."`
}

type keyNewCmd struct {
	Tenant string `required:"" placeholder:"NAME" help:"The tenant that the key is for."`
}

// Run prints a new key of 256 random bits. It is not stored anywhere; the configuration holds only
// its digest.
func (c *keyNewCmd) Run(a *app) error {
	var name config.Name
	if err := name.UnmarshalText([]byte(c.Tenant)); err != nil {
		return usageError{fmt.Errorf("--tenant: %w", err)}
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails: it ends the process instead
	key := tenant.KeyPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	_, err := fmt.Fprintf(a.stdout, "key, shown this once:   %s\nfor the configuration:  tenants: {%s: {keys: [{sha256: %x}]}}\n",
		key, name, sha256.Sum256([]byte(key)))
	return err
}

type keyHashCmd struct{}

// Help shows how hash is used.
func (keyHashCmd) Help() string { return "printenv KEY | sidenote key hash" }

// maxKey exceeds any key or token that fits into a header, in bytes.
const maxKey = 64 << 10

// Run prints the digest of the key on stdin, for the configuration.
func (keyHashCmd) Run(a *app) error {
	text, err := io.ReadAll(io.LimitReader(a.stdin, maxKey+1))
	if err != nil {
		return fmt.Errorf("read key: %w", err)
	}
	key := strings.TrimSpace(string(text))
	switch {
	case key == "":
		return usageError{errors.New("no key on stdin; pipe one in, as in: printenv KEY | sidenote key hash")}
	case len(text) > maxKey:
		return usageError{fmt.Errorf("stdin has more than %d bytes; keys are shorter", maxKey)}
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return usageError{errors.New("stdin is not a single key: it contains spaces, line breaks or other bytes that a header cannot carry")}
	}
	_, err = fmt.Fprintf(a.stdout, "%x\n", sha256.Sum256([]byte(key)))
	return err
}

type keyListCmd struct {
	adminFlags
}

// Help shows how list is used.
func (keyListCmd) Help() string {
	return "Shows the first 8 hex digits of each key's SHA-256, and never a key.\n\nsidenote key list"
}

// Run lists the keys.
func (c *keyListCmd) Run(a *app) error {
	at, err := c.client(a)
	if err != nil {
		return err
	}
	keys, err := client.List[admin.Key](a.ctx, at, admin.KeysPath)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, map[string]any{"object": "list", "data": keys})
	}
	screen.Keys(a.stdout, keys)
	return nil
}
