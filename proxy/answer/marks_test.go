package answer_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/proxy/answer"
)

// Marks are returned exactly where a reader sees citations.
func TestMarks(t *testing.T) {
	for said, want := range map[string][]int{
		"It takes 5 days [1]. Ü [2, 3]【4】 [10][2].": {1, 2, 3, 4, 10, 2},
		"`[1]` and [2](http://x) and [0] [1000]":    nil,
		"```\n[1]\n```\n[2]":                        {2},
		"\\[1] [x [1] y] [ 2 ; 3 ]":                 {1, 2, 3},
		"[1]":                                       {1},
		"":                                          nil,
		"\xff\xc3[1]\x80":                           {1},
		"[1, 1]":                                    {1, 1},
	} {
		var ids []int
		for _, m := range answer.Marks(said) {
			if said[m.From:m.To] != strconv.Itoa(m.ID) {
				t.Errorf("%q: %v", said, m)
			}
			ids = append(ids, m.ID)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("%q: %v", said, ids)
		}
	}
}

// For any text, marks are in order and at the digits of their ids.
func TestMarksOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		said := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"[1]", "[2, 3]", "【4】", "`", "```\n", "\n", " ", "[", "]", "(", "\\", "é", "\xc3", "a"})).Draw(t, "pieces"), "")
		at := 0
		for _, m := range answer.Marks(said) {
			if m.From < at || said[m.From:m.To] != strconv.Itoa(m.ID) {
				t.Fatalf("%q: %v", said, m)
			}
			at = m.To
		}
	})
}
