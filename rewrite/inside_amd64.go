package rewrite

import "golang.org/x/sys/cpu"

// vectors tells whether insideBlocks works on this machine.
var vectors = cpu.X86.HasAVX2 && cpu.X86.HasBMI1

// insideBlocks is inside for the whole blocks that b holds from i on. Where it
// comes to none of what it looks for, at is the first byte that it did not look
// at, or the backslash before it, at most a block before the end of b.
//
// Which characters are escaped is worked out for a block at once, whatever the
// number of backslashes in a row, and what a byte is from tables for its halves
// (Langdale and Lemire, Parsing Gigabytes of JSON per Second, VLDB Journal 28,
// 2019, §3.1.1 and §3.1.2). It is done for each block, needed or not: the escapes of
// texts are too irregular for a branch. All that one block takes from the one
// before is whether its first character is escaped.
//
//go:noescape
func insideBlocks(b []byte, i int) (at int, seen marks)
