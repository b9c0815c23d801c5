package rewrite

import "golang.org/x/sys/cpu"

// vectors tells whether insideBlocks works on this machine.
var vectors = cpu.X86.HasAVX2

// insideBlocks is inside for the whole blocks that b holds from i on. Where it
// comes to none of what it looks for, at is the first byte that it did not look
// at, less than a block before the end of b.
//
// Which characters are escaped is worked out for a block at once, whatever the
// number of backslashes in a row (Langdale and Lemire, Parsing Gigabytes of JSON
// per Second, VLDB Journal 28, 2019, §3.1.1).
//
//go:noescape
func insideBlocks(b []byte, i int) (at int, escapes, wide bool)
