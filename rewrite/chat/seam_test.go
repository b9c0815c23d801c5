package chat

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The last seam is after the last escaped line feed that is followed by plain text.
func TestLastSeam(t *testing.T) {
	piece := rapid.SampledFrom([]string{`\n`, `\n`, `\\`, `\"`, `\u00e9`, `\t`, "é", " ", "/", "n", "nothing else", "a"})
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces")
		want := 0
		at := 1
		for i, p := range pieces {
			at += len(p)
			if p == `\n` && i+1 < len(pieces) && strings.Contains("na", pieces[i+1][:1]) {
				want = at
			}
		}
		if raw := `"` + strings.Join(pieces, "") + `"`; lastSeam([]byte(raw)) != want {
			t.Fatalf("%s: %d, want %d", raw, lastSeam([]byte(raw)), want)
		}
	})
}
