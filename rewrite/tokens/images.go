package tokens

import (
	"cmp"
	"math"
)

// ImageReserve is the assumed cost of an image, in tokens, for models without a public rule. It
// covers most models: Gemini counts at most 1,120 since Gemini 3, and before that 258 for each of
// a few tiles of 768 pixels (ai.google.dev, "Media resolution" and "Understand and count
// tokens"); the older Claude counts 1,568. Open models that take images of any size, such as
// Qwen-VL, can count more.
const ImageReserve = 1_600

// mostPatches is the largest number of patches of an image that OpenAI accepts; it refuses larger
// images.
const mostPatches = 30_000

// An ImageRule says how a family of models counts images. It is comparable. The zero value is for
// models without a public rule: ImageReserve, whatever the size.
//
// The rules and their numbers are those of OpenAI's guide "Images and vision"
// (developers.openai.com/api/docs/guides/images-vision), sections "Model sizing behavior" and
// "Calculating costs", and of Anthropic's guide "Vision"
// (platform.claude.com/docs/en/build-with-claude/vision), section "Resolution and token cost".
type ImageRule struct {
	base, tile int // tokens per image and per tile, for models that count tiles

	patch      int // side of a patch in pixels, for models that count patches
	hundredths int // cost of a patch in hundredths of a token

	low, high, original, auto limits
}

// limits are the sizes to which an image is scaled down before its patches are counted.
type limits struct {
	side    int // longest side in pixels
	patches int // maximum number of patches; 0 is no limit
}

// tiled is the rule of models up to gpt-5.1, except the small ones of gpt-4.1 and gpt-5.
func tiled(base, tile int) ImageRule { return ImageRule{base: base, tile: tile} }

// patched is the rule of models that count patches of 32 pixels, with the same limits for any
// detail.
func patched(hundredths int, l limits) ImageRule {
	return ImageRule{patch: 32, hundredths: hundredths, low: l, high: l, original: l, auto: l}
}

// detailed is the rule of models since gpt-5.4, whose limits depend on the detail.
func detailed(low, high, original, auto limits) ImageRule {
	return ImageRule{patch: 32, hundredths: 120, low: low, high: high, original: original, auto: auto}
}

// claude is the rule of Anthropic's models, which ignore the detail.
func claude(l limits) ImageRule {
	return ImageRule{patch: 28, hundredths: 100, low: l, high: l, original: l, auto: l}
}

// Tokens returns the maximum tokens that an image of width times height pixels costs. If either
// is not positive, the size is unknown and the result is the maximum of any image. A rotated
// image costs the same. detail is "low", "high" or "original"; anything else is treated as the
// model treats "auto": as high until gpt-5.4, as original since gpt-5.5.
func (r ImageRule) Tokens(width, height int, detail string) int {
	switch {
	case r.tile > 0 && detail == "low":
		return r.base
	case r.tile > 0:
		return r.base + r.tile*tiles(width, height)
	case r.patch > 0:
		return (r.patches(width, height, r.limits(detail))*r.hundredths + 99) / 100
	}
	return ImageReserve
}

func (r ImageRule) limits(detail string) limits {
	switch detail {
	case "low":
		return r.low
	case "high":
		return r.high
	case "original":
		return r.original
	}
	return r.auto
}

// tiles returns how many tiles of 512 pixels cover an image scaled down to fit into 2048 by 2048
// pixels, and then to 768 on its shorter side.
func tiles(width, height int) int {
	const side, short, tile = 2048, 768, 512
	if width <= 0 || height <= 0 {
		return side / tile * cover(short, tile)
	}
	w, h := fit(width, height, side)
	if scale := short / min(w, h); scale < 1 {
		w, h = math.Floor(w*scale), math.Floor(h*scale)
	}
	return cover(w, tile) * cover(h, tile)
}

// patches returns how many patches cover an image scaled down to l.
func (r ImageRule) patches(width, height int, l limits) int {
	most := cmp.Or(l.patches, mostPatches)
	if width <= 0 || height <= 0 {
		side := cover(float64(l.side), r.patch)
		return min(side*side, most)
	}
	w, h := fit(width, height, l.side)
	n := cover(w, r.patch) * cover(h, r.patch)
	if n > most && l.patches > 0 && r.patch == 32 {
		return shrunk(w, h, most)
	}
	return min(n, most) // Anthropic scales to the largest size within the limit
}

// shrunk returns how many patches of 32 pixels cover an image that is scaled down to a budget of
// patches, by the formula of "Patch-based image tokenization".
func shrunk(w, h float64, budget int) int {
	const patch = 32
	scale := math.Sqrt(patch * patch * float64(budget) / (w * h))
	across, down := w*scale/patch, h*scale/patch
	scale *= min(math.Floor(across)/across, math.Floor(down)/down)
	w, h = math.Floor(w*scale), math.Floor(h*scale)
	if w < 1 || h < 1 { // so thin that the formula leaves nothing of it
		return budget
	}
	return min(budget, cover(w, patch)*cover(h, patch))
}

// fit scales an image down until its longer side has at most side pixels, in whole pixels. It
// does not multiply width and height, so no size overflows.
func fit(width, height, side int) (w, h float64) {
	w, h = float64(width), float64(height)
	if scale := float64(side) / max(w, h); scale < 1 {
		w, h = max(1, math.Round(w*scale)), max(1, math.Round(h*scale))
	}
	return w, h
}

// cover returns how many squares cover pixels in one direction.
func cover(pixels float64, square int) int { return int(math.Ceil(pixels / float64(square))) }
