package main

import (
	"strings"
	"testing"
)

// Of many names only some are listed; the rest are counted.
func TestSome(t *testing.T) {
	for n, want := range map[int]string{1: "a", 2: "a, a", 100_000: "a and 99980 more"} {
		if got := someOf(strings.Split(strings.Repeat("a", n), "")); !strings.HasSuffix(got, want) || len(got) > 100 {
			t.Errorf("%d names: %s, want %s", n, got, want)
		}
	}
}
