package tokens_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"sidenote/rewrite/tokens"
)

func images(model string) tokens.ImageRule {
	row, _ := tokens.Lookup(tokens.Builtin(), model)
	return row.Images
}

// Examples from OpenAI's guide, and sizes at the limits of its rules.
func TestImageTokens(t *testing.T) {
	f := func(model string, width, height int, detail string, want int) {
		t.Helper()
		if got := images(model).Tokens(width, height, detail); got != want {
			t.Errorf("%s counts %d×%d, %q, as %d; want %d", model, width, height, detail, got, want)
		}
	}
	// Tiles.
	f("gpt-4o", 1024, 1024, "high", 765)
	f("gpt-4o", 2048, 4096, "high", 1105)
	f("gpt-4o", 4096, 8192, "low", 85)
	f("gpt-4o", 1, 1, "auto", 85+170)
	f("gpt-4o", 512, 512, "", 85+170)
	f("gpt-4o", 513, 512, "", 85+2*170)
	f("gpt-4.1", 2049, 513, "high", 85+8*170) // 2048×513, as measured
	f("gpt-4.1", 2050, 513, "high", 85+4*170) // 2048×512
	f("gpt-4.1", 1920, 1080, "high", 85+6*170)
	f("gpt-4.1", 0, 0, "high", 85+8*170)
	f("gpt-4o-mini", 1024, 1024, "high", 2833+4*5667)
	f("gpt-4o-mini", 1024, 1024, "low", 2833)
	f("gpt-5", 1024, 1024, "high", 70+4*140)
	f("gpt-5-chat-latest", 1024, 1024, "low", 70)
	f("gpt-5.1", 1024, 1024, "original", 70+4*140)
	f("o1", 1024, 1024, "high", 75+4*150)
	f("o1-pro", 1024, 1024, "low", 75)
	f("o3", 1024, 1024, "high", 75+4*150)
	f("computer-use-preview", 1024, 768, "high", 65+4*129)

	// Patches, at most 1,536 of them.
	f("gpt-5-mini", 1024, 1024, "high", 1229)
	f("gpt-5-mini", 1800, 2400, "high", 1743) // 1,452 patches × 1.2
	f("gpt-5-mini", 2048, 768, "low", 1844)
	f("gpt-5-mini", 1, 1, "low", 2)
	f("gpt-5-mini", 0, 0, "low", 1844)
	f("gpt-5-nano", 1600, 1600, "high", 2282) // 1,521 patches × 1.5
	f("o4-mini", 1800, 2400, "high", 2498)    // 1,452 patches × 1.72
	// Fitted into 2,048 pixels.
	f("gpt-4.1-mini", 1024, 1024, "high", 1659)
	f("gpt-4.1-mini", 4096, 4096, "low", 6636) // 64 × 64 patches × 1.62
	f("gpt-4.1-nano", 1024, 1024, "high", 2520)
	f("gpt-5.2", 4096, 2048, "high", 2458)

	// By detail.
	f("gpt-5.4", 2048, 2048, "high", 3000)
	f("gpt-5.4", 2048, 2048, "auto", 3000)
	f("gpt-5.4", 2048, 2048, "low", 4916) // low is not always less
	f("gpt-5.4", 2048, 2048, "original", 4916)
	f("gpt-5.4-mini", 1600, 1600, "high", 3000)
	f("gpt-5.5", 2048, 2048, "", 4916)
	f("gpt-5.5", 2048, 2048, "low", 308)
	f("gpt-5.5", 20_000, 20_000, "auto", 12_000)
	f("gpt-5.6-sol", 2048, 2048, "high", 3000)
	f("gpt-5.6-sol", 4096, 512, "high", 615) // 2048×256
	f("gpt-5.6-sol", 4096, 4096, "auto", 19_661)
	f("gpt-5.6-sol", 20_000, 20_000, "auto", 36_000) // refused
	f("gpt-5.6-sol", 0, 0, "auto", 36_000)
	f("gpt-6-astra", 1024, 1024, "high", 1229)
	f("gpt-6-astra", 2048, 2048, "high", 3000)
	f("gpt-6-astra", 4096, 512, "high", 2458)
	f("gpt-6-astra", 3200, 960, "high", 2916)
	f("gpt-6-astra", 2560, 1440, "high", 2931)
	f("gpt-6-astra", 640, 480, "low", 231)
	f("gpt-6-astra", 640, 480, "huge", 360)
	f("gpt-6-astra", 65_535, 33, "high", 2384) // 63,551×32
	f("gpt-6-astra", 1<<40, 1, "high", 2458)   // 2,048 patches in one row

	// Anthropic's.
	f("claude-opus-5", 3840, 2160, "", 4784)
	f("claude-opus-5", 1932, 1932, "low", 4761)
	f("claude-3-5-sonnet", 1075, 1520, "", 1568)
	f("claude-3-5-sonnet", 224, 224, "", 64)
	f("claude-3-5-sonnet", 0, 100, "", 1568)

	// No rule.
	f("o3-mini", 10, 10, "low", tokens.ImageReserve)
	f("gemini-2.5-pro", 0, 0, "", tokens.ImageReserve)
	f("my-deployment", math.MaxInt, math.MaxInt, "high", tokens.ImageReserve)
}

// For any size the cost is positive, at most that of an unknown size, and the same for the
// rotated image.
func TestImageTokensAreBounded(t *testing.T) {
	table := tokens.Builtin()
	size := rapid.OneOf(rapid.IntRange(1, 5000), rapid.IntRange(1, 1<<20), rapid.SampledFrom([]int{1, 31, 32, 33, 511, 512, 513, 767, 768, 769, 2047, 2048, 2049, 6000, 65_535, 65_536, math.MaxInt - 1, math.MaxInt}))
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.SampledFrom(table).Draw(t, "row")
		w, h := size.Draw(t, "width"), size.Draw(t, "height")
		for _, detail := range []string{"low", "high", "original", "auto", "", "other"} {
			got, most := row.Images.Tokens(w, h, detail), row.Images.Tokens(0, 0, detail)
			if got < 1 || got > most || most > 60_000 {
				t.Fatalf("%s counts %d×%d, %q, as %d, unknown sizes as %d", row.Match, w, h, detail, got, most)
			}
			if other := row.Images.Tokens(h, w, detail); other != got {
				t.Fatalf("%s counts %d×%d, %q, as %d, on its side as %d", row.Match, w, h, detail, got, other)
			}
			for _, unknown := range [][2]int{{0, h}, {w, 0}, {-w, h}, {w, -h}, {math.MinInt, math.MinInt}} {
				if got := row.Images.Tokens(unknown[0], unknown[1], detail); got != most {
					t.Fatalf("%s counts %v, %q, as %d, unknown sizes as %d", row.Match, unknown, detail, got, most)
				}
			}
		}
	})
}
