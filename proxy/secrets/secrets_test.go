package secrets_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sidenote/proxy/secrets"
)

// keys matches what Mask finds, but takes many times as long.
var keys = regexp.MustCompile(`(?i)\bsk-[a-z0-9_-]{8,}|\bbearer +[a-z0-9._~+/=-]{8,}|("(?:[a-z_-]*(?:api[_-]?key|access[_-]?token|connection[_-]?string|authorization|password|secret)|key|token)"\s*:\s*")(?:[^"\\]|\\(?s:.)?)*("?)`)

func TestMaskFindsWhatKeysSay(t *testing.T) {
	pieces := []string{
		"sk-", "SK-", "Bearer ", "bearer", " ", "abcdefgh", "a", "9", "_", "-", "=", ".", `"`, `"`, `\`, "\n", ":", `":"`, `" : "`, ",", "key", "token", "api_key", "API-Key", "apikey", "x_",
		"access_token", "connection-string", "Authorization", "password", "client_secret", "secret", "é", "{", "}",
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 40).Draw(t, "pieces"), "")
		if got, want := secrets.Mask(text), keys.ReplaceAllString(text, "${1}(a key)${2}"); got != want {
			t.Fatalf("%q: %q, want %q", text, got, want)
		}
	})
}

// No text takes long.
func TestMaskIsFast(t *testing.T) {
	for _, piece := range []string{"sk-", "sk-abcdefgh ", `"`, `"key`, `"key":"`, `"a_`, "bearer ", `\`, "a", " "} {
		work := func(n int) time.Duration {
			text := strings.Repeat(piece, n/len(piece))
			start := time.Now()
			secrets.Mask(text)
			return time.Since(start)
		}
		var ratios []float64 // the least is what no other work of the machine has delayed
		for len(ratios) < 20 && (ratios == nil || slices.Min(ratios) >= 16) {
			ratios = append(ratios, float64(work(512<<10))/float64(work(64<<10)))
		}
		if slices.Min(ratios) >= 16 {
			t.Errorf("%q: %.0f times the time of an eighth", piece, ratios)
		}
	}
}
