package retrieval_test

import (
	"testing"

	"sidenote/retrieval"
)

// The key of a vector depends on passage, model, dimensions and input rules.
func TestSpaceKey(t *testing.T) {
	space := retrieval.Space{Model: "m", Dimensions: 512, Input: "passage: "}
	seen := map[[32]byte]string{}
	for name, key := range map[string][32]byte{
		"it":         space.Key("text"),
		"passage":    space.Key("text "),
		"model":      retrieval.Space{Model: "m5", Dimensions: 12, Input: "passage: "}.Key("text"),
		"dimensions": retrieval.Space{Model: "m", Dimensions: 51, Input: "passage: "}.Key("text"),
		"input":      retrieval.Space{Model: "m", Dimensions: 512, Input: "passage: t"}.Key("ext"),
	} {
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s have one key", name, other)
		}
		seen[key] = name
	}
	if space.Key("text") != space.Key("text") || space.String() != "m/512" || (retrieval.Space{Model: "m"}).String() != "m" {
		t.Error(space)
	}
}
