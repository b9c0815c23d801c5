package cache_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"sidenote/cache"
	"sidenote/retrieval"
)

// Keys are the same in all processes of a release, which share a store. Any change of their input
// must change the schema, and this test.
func TestKeysStayTheSame(t *testing.T) {
	q := question("how long")
	q.Settings = retrieval.Settings{TopK: 5, NumCandidates: 50, MaxPerDocument: 2, ScoreThreshold: -1, Deadline: time.Second}
	for want, key := range map[string]cache.Key{
		"v12:selected:{acme}:16e400a987413232d01ada75cc6a2e10e6822b8462a9b25c9014df2b26b48fa1":   cache.NewKey(cache.Selected, q),
		"v12:candidates:{acme}:f533234ba21c63f95bad93c65b8fc9b83d024f4f31b9e3d44d666f36588e3f16": cache.NewKey(cache.Candidates, q),
		"v12:calibration:{}:2502af038a747f5d90352016bea93735c0922802ba3967bdb84e693c5c2183ec":    cache.NamedKey(cache.Calibration, "upstream", "model"),
	} {
		if got := key.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A key shows at most 64 bytes of a tenant's name, and only characters that cannot be mistaken for
// its structure.
func TestKeyShowsPlainNames(t *testing.T) {
	const plain = "-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
	for c := range 256 {
		want := "v12:k:{_}:"
		if strings.IndexByte(plain, byte(c)) >= 0 {
			want = "v12:k:{" + string(rune(c)) + "}:"
		}
		key := cache.Key{Kind: "k", Tenant: string([]byte{byte(c)})}
		if got := key.String(); got != want+strings.Repeat("0", 64) {
			t.Errorf("%q: %s, want %s", key.Tenant, got, want)
		}
		line := string([]byte{'k', byte(c)}) + keyLine("", 1)
		_, err := cache.ParseKeys([]byte(line))
		if ok := !strings.Contains(want, "_}") || c == '_'; ok != (err == nil) && c > ' ' && c < 0x80 {
			t.Errorf("an id of key with %q: %v", rune(c), err)
		}
	}
	for n, shown := range map[int]int{63: 63, 64: 64, 65: 64} {
		key := cache.Key{Tenant: strings.Repeat("x", n)}
		if want := "v12::{" + strings.Repeat("x", shown) + "}:" + strings.Repeat("0", 64); key.String() != want {
			t.Errorf("%d bytes: %s", n, key)
		}
	}
}

// A value whose parts do not add up is a Mismatch, wherever it ends.
func TestValuesOfAnyShape(t *testing.T) {
	whole := cache.Seal(codecKey, nil)
	head := whole[:tenantAt-1] // up to the tenant
	sum := func(parts ...[]byte) []byte { return cache.Resum(append(bytes.Join(parts, nil), 0, 0, 0, 0)) }
	length := func(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
	tenant := []byte("\x04acme")
	for name, c := range map[string]struct {
		value []byte
		want  error
	}{
		"no body":                    {whole, nil},
		"the same, put together":     {sum(head, tenant, length(0)), nil},
		"a body":                     {sum(head, tenant, length(1), []byte("a")), nil},
		"too short for anything":     {sum(whole[:flagsAt]), cache.MismatchVersion},
		"nothing but flags":          {sum(whole[:digestAt]), cache.MismatchBody},
		"half a digest":              {sum(whole[:digestAt+31]), cache.MismatchBody},
		"no tenant":                  {sum(head), cache.MismatchBody},
		"a tenant, and nothing more": {sum(head, tenant), cache.MismatchBody},
		"a tenant that ends behind":  {sum(head, []byte("\x05acme")), cache.MismatchBody},
		"a tenant without end":       {sum(head, bytes.Repeat([]byte{0xff}, 11)), cache.MismatchBody},
		"half a tenant's length":     {sum(head, []byte{0x80}), cache.MismatchBody},
		"another tenant":             {sum(head, []byte("\x04acmf"), length(0)), cache.MismatchTenant},
		"half a length":              {sum(head, tenant, []byte{0, 0, 0}), cache.MismatchBody},
		"one byte missing":           {sum(head, tenant, length(2), []byte("a")), cache.MismatchBody},
		"one byte too many":          {sum(head, tenant, length(0), []byte("a")), cache.MismatchBody},
		"another digest":             {sum(head[:digestAt], make([]byte, 32), tenant, length(0)), cache.MismatchKey},
		"another magic":              {sum([]byte("SM"), whole[2:headSize], length(0)), cache.MismatchVersion},
		"another schema":             {sum([]byte("SN\x01"), whole[3:headSize], length(0)), cache.MismatchVersion},
		"what a CodecStore keeps":    {sum(head[:flagsAt], []byte{1}, whole[digestAt:headSize], length(0)), cache.MismatchVersion},
		"another sum":                {append(bytes.Clone(whole[:len(whole)-1]), whole[len(whole)-1]+1), cache.MismatchChecksum},
	} {
		body, err := cache.Body(codecKey, c.value)
		if !errors.Is(err, c.want) || c.want == nil && len(body) != len(c.value)-len(whole) {
			t.Errorf("%s: %q, %v, want %v", name, body, err, c.want)
		}
	}
	long := codecKey
	long.Tenant = strings.Repeat("x", 1000)
	if body, err := cache.Body(long, cache.Seal(long, nil)); err != nil || len(body) != 0 {
		t.Errorf("a long tenant: %q, %v", body, err)
	}
	if cache.Seal(codecKey, make([]byte, 1<<30+1)) != nil {
		t.Error("a body that is too large was sealed")
	}
	if got := cache.MismatchVersion.Error(); got != "cached value: version mismatch" {
		t.Error(got)
	}
}
