package tokens

import (
	"cmp"
	"math"
)

// ImageReserve is what an image is taken to cost a model without a public rule, in
// tokens. It covers what most count: Gemini at most 1,120 since Gemini 3 and 258 for
// each of the few tiles of 768 pixels before (ai.google.dev, "Media resolution" and
// "Understand and count tokens"), the older Claude 1,568. Open models that take
// images as large as they come, as Qwen-VL, can count more.
const ImageReserve = 1_600

// mostPatches is how many patches OpenAI takes in an image; it refuses more.
const mostPatches = 30_000

// An ImageRule says what a family of models counts an image as. It is comparable.
// The zero value is the rule of models that have no public one: ImageReserve,
// whatever the size.
//
// The rules and their numbers are those of OpenAI's guide "Images and vision"
// (developers.openai.com/api/docs/guides/images-vision), sections "Model sizing
// behavior" and "Calculating costs", and of Anthropic's guide "Vision"
// (platform.claude.com/docs/en/build-with-claude/vision), section "Resolution and
// token cost".
type ImageRule struct {
	base, tile int // tokens of an image and of each tile, of models that count tiles

	patch      int // pixels of a patch's side, of models that count patches
	hundredths int // of a token, what a patch costs

	low, high, original, auto limits
}

// Limits are what an image is scaled down to before its patches are counted.
type limits struct {
	side    int // pixels of the longer side
	patches int // 0 is no limit
}

// tiled is the rule of the models up to gpt-5.1, but the small ones of gpt-4.1 and
// gpt-5.
func tiled(base, tile int) ImageRule { return ImageRule{base: base, tile: tile} }

// patched is the rule of models that count patches of 32 pixels, at any detail
// within the same limits.
func patched(hundredths int, l limits) ImageRule {
	return ImageRule{patch: 32, hundredths: hundredths, low: l, high: l, original: l, auto: l}
}

// detailed is the rule of the models since gpt-5.4, whose limits depend on the
// detail.
func detailed(low, high, original, auto limits) ImageRule {
	return ImageRule{patch: 32, hundredths: 120, low: low, high: high, original: original, auto: auto}
}

// claude is the rule of Anthropic's models, which know no detail.
func claude(l limits) ImageRule {
	return ImageRule{patch: 28, hundredths: 100, low: l, high: l, original: l, auto: l}
}

// Tokens returns what an image of width times height pixels costs at most; where
// one is not positive the size is unknown, and the cost the most that an image can
// cost. An image on its side costs the same. Detail is "low", "high", "original",
// or else what the model makes of "auto": high until gpt-5.4, original since
// gpt-5.5.
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

// tiles returns how many tiles of 512 pixels cover an image that is first scaled
// down to fit into 2048 by 2048, then to 768 on its shorter side.
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

// patches returns how many patches cover an image that is scaled down to l.
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
	return min(n, most) // Anthropic shrinks to the largest size within the limit
}

// shrunk returns how many patches of 32 pixels cover an image that is scaled down
// to a budget of them, by the formula of "Patch-based image tokenization".
func shrunk(w, h float64, budget int) int {
	const patch = 32
	scale := math.Sqrt(patch * patch * float64(budget) / (w * h))
	across, down := w*scale/patch, h*scale/patch
	scale *= min(math.Floor(across)/across, math.Floor(down)/down)
	w, h = math.Floor(w*scale), math.Floor(h*scale)
	if w < 1 || h < 1 { // a thread: the formula leaves nothing of it
		return budget
	}
	return min(budget, cover(w, patch)*cover(h, patch))
}

// fit scales an image down until its longer side has at most side pixels, whole
// ones. It takes no product of the two, so no size is too large.
func fit(width, height, side int) (w, h float64) {
	w, h = float64(width), float64(height)
	if scale := float64(side) / max(w, h); scale < 1 {
		w, h = max(1, math.Round(w*scale)), max(1, math.Round(h*scale))
	}
	return w, h
}

// cover returns how many squares cover pixels in one direction.
func cover(pixels float64, square int) int { return int(math.Ceil(pixels / float64(square))) }
