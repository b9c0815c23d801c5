package cache_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"sidenote/cache"
)

// keyLine returns the line of a key whose bytes are all fill.
func keyLine(id string, fill byte) string {
	return id + " " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32))
}

func keysOf(t testing.TB, lines ...string) *cache.Keys {
	t.Helper()
	keys, err := cache.ParseKeys([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// aeadOf returns the cipher of keyLine's key.
func aeadOf(t testing.TB, fill byte) cipher.AEAD {
	t.Helper()
	block, err := aes.NewCipher(bytes.Repeat([]byte{fill}, 32))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	return aead
}

func TestParseKeys(t *testing.T) {
	long := strings.Repeat("k", 32)
	for name, c := range map[string]struct{ text, want string }{
		"one":                {keyLine("k1", 1), "k1"},
		"two":                {keyLine("2026-08", 1) + "\n" + keyLine("2026-02", 2) + "\n", "2026-08,2026-02"},
		"comments":           {"# keys\n\n  \t\n" + keyLine("k1", 1) + "\n  # old: \n" + keyLine("k0", 2), "k1,k0"},
		"line ends, columns": {"\r\n  " + strings.Replace(keyLine("k1", 1), " ", " \t ", 1) + " \r\n", "k1"},
		"no padding":         {strings.TrimRight(keyLine("k1", 1), "="), "k1"},
		"ids":                {keyLine("A.b_c-9", 1) + "\n" + keyLine(long, 2), "A.b_c-9," + long},
		"same key twice":     {keyLine("a", 1) + "\n" + keyLine("b", 1), "a,b"},
	} {
		keys, err := cache.ParseKeys([]byte(c.text))
		if err != nil || keys.String() != c.want {
			t.Errorf("%s: got %q, %v, want %q", name, keys, err, c.want)
		}
	}
}

// Errors name the line and the problem but never quote the line: a key may be in the wrong place.
func TestParseKeysErrors(t *testing.T) {
	const canary = "c2VjcmV0" // "secret"
	good := keyLine("k1", 1)
	for name, c := range map[string]struct{ text, want string }{
		"nothing":           {"", "no key"},
		"comments alone":    {"# " + canary + "\n\n", "no key"},
		"id alone":          {good + "\n" + canary, "line 2: want an id and a key, has 1 words"},
		"three words":       {"\n\nk2 " + canary + " " + canary, "line 3: want an id and a key, has 3 words"},
		"id of that key":    {canary + good[2:] + "\n" + canary + keyLine("", 2), "line 2: the id is that of an earlier key"},
		"id too long":       {strings.Repeat(canary, 5) + good[2:], "line 1: the id must be"},
		"id with a colon":   {canary + ":1 " + good[3:], "line 1: the id must be"},
		"id in Cyrillic":    {"ключ" + good[2:], "line 1: the id must be"},
		"exchanged":         {good[3:] + " " + canary, "line 1: the id must be"},
		"too short":         {"k1 " + canary, "line 1: the key has 6 bytes, want 32"},
		"AES-128":           {"k1 " + canary + "AAAAAAAAAAAAAA", "line 1: the key has 16 bytes, want 32"},
		"too long":          {"k1 " + strings.Repeat(canary, 6), "line 1: the key has 36 bytes, want 32"},
		"hex":               {"k1 " + strings.Repeat("0f", 32), "line 1: the key has 48 bytes, want 32"},
		"base64 for URLs":   {"k1 " + canary + strings.Repeat("-", 35), "line 1: the key is not base64"},
		"too much padding":  {good + "=", "line 1: the key is not base64"},
		"something after":   {good + canary, "line 1: the key is not base64"},
		"bits left over":    {"k1 " + canary + strings.Repeat("A", 34) + "B=", "line 1: the key is not base64"},
		"NUL":               {"k1 " + canary + "\x00", "line 1: the key is not base64"},
		"a second bad line": {good + "\n" + keyLine("k2", 2) + canary, "line 2: the key is not base64"},
	} {
		keys, err := cache.ParseKeys([]byte(c.text))
		if keys != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: shows the key: %v", name, err)
		}
	}
}

// Keys are never printed, however deeply they are nested and whatever the verb.
func TestKeysNeverPrint(t *testing.T) {
	const fill = 0xab
	keys := keysOf(t, keyLine("k1", fill))
	store := cache.NewCodecStore(&slot{}, keys)
	hidden := struct {
		inner *cache.Keys
		copy  cache.Keys
	}{keys, *keys}
	open := struct{ Keys *cache.Keys }{keys}
	var text bytes.Buffer
	for _, v := range []any{keys, *keys, hidden, &hidden, open, &open, store, *store, []*cache.Keys{keys}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%b", "%o"} {
			fmt.Fprintf(&text, verb+"\n", v)
		}
		encoded, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(encoded)
		for _, h := range []slog.Handler{slog.NewTextHandler(&text, nil), slog.NewJSONHandler(&text, nil)} {
			slog.New(h).Info("keys", "keys", v, "group", slog.GroupValue(slog.Any("inner", v)))
		}
	}
	word, decimal := uint32(fill)<<24|fill<<16|fill<<8|fill, fmt.Sprint(fill)
	for _, canary := range []string{
		base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 30)), "abab", "ABAB", "\xab\xab", `\xab\xab`,
		strings.Repeat(decimal+" ", 4), strings.Repeat(decimal+",", 4), fmt.Sprint(word), fmt.Sprintf("%b", word), fmt.Sprintf("%o", word),
		"0xab, 0xab", "0253 0253", "253 253", "10101011 10101011",
	} {
		if strings.Contains(text.String(), canary) {
			t.Errorf("printed %q", canary)
		}
	}
	if keys.String() != "k1" || (*cache.Keys)(nil).String() != "" || (&cache.Keys{}).String() != "" {
		t.Error("String does not name the ids")
	}
}

// A new key is added at the end, moved to the top, and the old one is removed: at no step is a
// value lost that a process wrote with the keys of the step before.
func TestKeyRotation(t *testing.T) {
	older, newer := keyLine("old", 1), keyLine("new", 2)
	steps := [][]string{{older}, {older, newer}, {newer, older}, {newer}}
	first := []string{"old", "old", "new", "new"}
	value := valueOf(1000)
	var before []byte
	for i, lines := range steps {
		b := newBench(keysOf(t, lines...))
		stored := bytes.Clone(b.pack(t, value))
		if id := stored[headSize+1:][:3]; string(id) != first[i] {
			t.Errorf("step %d: kept with %q, want %q", i, id, first[i])
		}
		if i > 0 { // both ways, because processes change one after the other
			if got, err := b.unpack(t, before); err != nil || !bytes.Equal(got, value) {
				t.Errorf("step %d: what was kept before: %v", i, err)
			}
			if got, err := newBench(keysOf(t, steps[i-1]...)).unpack(t, stored); err != nil || !bytes.Equal(got, value) {
				t.Errorf("step %d: kept, but not legible to those a step behind: %v", i, err)
			}
		}
		before = stored
	}
	oldest := newBench(keysOf(t, older)).pack(t, value)
	if _, err := newBench(keysOf(t, newer)).unpack(t, oldest); !errors.Is(err, cache.MismatchEncryption) {
		t.Errorf("the old key is gone: got %v", err)
	}
}

// Keys that ParseKeys did not make must not be treated as no keys.
func TestZeroKeys(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("taken")
		}
	}()
	cache.NewCodecStore(&slot{}, &cache.Keys{})
}
