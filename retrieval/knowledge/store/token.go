package store

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	tokenName  = "admin-token"
	tokenBytes = 32
)

// TokenPath returns the path of the token file of a state folder.
func TokenPath(dir string) string { return filepath.Join(dir, tokenName) }

// AdminToken returns the token of a state folder: 256 random bits, 43 characters of base64url.
// Only users who may read the folder can have it, so it authorizes changes to the folder. It is an
// error if the file holds anything else or is readable for others; the next writer then replaces
// it.
func AdminToken(dir string) (string, error) {
	if dir == Memory {
		return "", errors.New("the state is in memory")
	}
	path := TokenPath(dir)
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, 4*tokenBytes))
	if err != nil {
		return "", err
	}
	if info, err := f.Stat(); err != nil || shared(info) {
		return "", errors.Join(err, fmt.Errorf("%s can be read by others; the next process that writes the folder makes a new one", path))
	}
	token := strings.TrimSpace(string(text))
	if raw, err := base64.RawURLEncoding.DecodeString(token); err != nil || len(raw) != tokenBytes || strings.ContainsAny(token, "\r\n") {
		return "", fmt.Errorf("%s holds no token; the next process that writes the folder makes one", path)
	}
	return token, nil
}

// makeToken makes the token, unless there is one that nobody else can have read, and calls notice
// with the reason if one is replaced. Without a token, as on a full disk, the folder can still be
// used; only AdminToken fails.
func (s *database) makeToken(notice func(error)) {
	_, err := AdminToken(s.dir)
	if err == nil {
		return
	}
	path := TokenPath(s.dir)
	if notice != nil && !errors.Is(err, fs.ErrNotExist) {
		why, _, _ := strings.Cut(err.Error(), "; the next")
		notice(errors.New("a new admin token is made: " + why))
	}
	for _, old := range []string{path, path + freshSuffix} {
		// First, so that the old one is never used again, even if there is no space for a new one.
		if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			_ = os.Rename(old, old+asideSuffix) // a folder of that name
		}
	}
	var raw [tokenBytes]byte
	_, _ = rand.Read(raw[:]) // never returns an error
	token := base64.RawURLEncoding.EncodeToString(raw[:]) + "\n"
	_ = writeWhole(path, []byte(token), func(step string) { s.step("token: " + step) })
}
