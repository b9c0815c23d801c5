package model_test

import (
	"slices"
	"testing"

	"sidenote/rewrite/model"
)

// An upstream that truncates prompts reveals its window by its bills. Other reasons for low bills
// are not mistaken for a window.
func TestServedWindow(t *testing.T) {
	type answers [][2]int // counted, billed
	repeat := func(n, counted, billed int) answers { return slices.Repeat(answers{{counted, billed}}, n) }
	for name, c := range map[string]struct {
		answers answers
		want    int
	}{
		"cut at a fixed length":                   {repeat(6, 6000, 2048), 2048},
		"cut so short that the bill is absurd":    {repeat(6, 60_000, 4096), 4096},
		"whole messages are dropped":              {answers{{6000, 1900}, {9000, 2010}, {6500, 1700}, {30_000, 1850}, {7000, 2000}}, 2010},
		"short prompts between":                   {slices.Concat(repeat(2, 6000, 2048), repeat(5, 500, 510), repeat(2, 9000, 2048)), 2048},
		"a complete prompt billed at a bit more":  {slices.Concat(repeat(4, 6000, 1900), repeat(1, 2000, 2040)), 2040},
		"not often enough":                        {repeat(3, 6000, 2048), 0},
		"another tokenizer":                       {repeat(64, 6000, 4200), 0},
		"exact bills":                             {repeat(64, 6000, 6010), 0},
		"larger bills":                            {repeat(64, 6000, 9000), 0},
		"only what a prompt cache lacked, short":  {repeat(64, 6000, 300), 0},
		"only what a prompt cache lacked, uneven": {answers{{6000, 6000}, {7000, 1100}, {8000, 1200}, {9000, 1050}, {12_000, 1100}, {13_000, 1150}}, 0},
		"wild bills":                              {answers{{60_000, 1024}, {60_000, 4000}, {60_000, 9000}, {60_000, 20_000}}, 0},
		"a larger window since":                   {slices.Concat(repeat(6, 6000, 2048), repeat(1, 6000, 6010)), 0},
		"none truncated for long":                 {slices.Concat(repeat(6, 6000, 2048), repeat(65, 500, 510)), 0},
		"truncated again at another length":       {slices.Concat(repeat(6, 6000, 2048), repeat(1, 6000, 6010), repeat(64, 500, 510), repeat(4, 20_000, 8192)), 8192},
		"impossible bills":                        {repeat(6, 6000, -1), 0},
	} {
		tracker, k := model.NewTracker(), model.CalibrationKey{Tenant: "a", Upstream: "u", Row: "llama3.1*", Name: "llama3.1:8b"}
		for _, a := range c.answers {
			tracker.Observe(k, a[0], a[1])
		}
		if got := tracker.Window(k); got != c.want {
			t.Errorf("%s: window %d, want %d", name, got, c.want)
		}
		if got := tracker.Window(model.CalibrationKey{Tenant: "b", Upstream: "u", Row: "llama3.1*", Name: "llama3.1:8b"}); got != 0 {
			t.Errorf("%s: window %d of another tenant", name, got)
		}
	}
}
