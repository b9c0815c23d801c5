//go:build !sidenote_plain

package chat

import "golang.org/x/sys/cpu"

// vectors reports whether this processor can run insideVectors.
var vectors = cpu.X86.HasAVX2 && cpu.X86.HasBMI1

// insideVectors is inside for the whole blocks of b from i on. If it finds no end of the text
// there, at is the first byte that it did not read, or the backslash before it; that is less than
// a block before the end of b.
//
// It finds the escaped characters of a whole block at once, however many backslashes are in a
// row, and classifies each byte by two tables, one for each half of the byte (Langdale and
// Lemire, Parsing Gigabytes of JSON per Second, VLDB Journal 28, 2019, §3.1.1 and §3.1.2). It
// does so for every block, even without backslashes: escapes are too irregular for the branch
// predictor. The only state between blocks is whether the first character of the next one is
// escaped. Blocks with \u escapes, as encoders with ASCII output write them, are checked for
// these; a block that splits one ends before it.
//
// Parsing 200 KB takes 24 µs with it and 106 without; 20 KB takes 6 and 12; for 1 KB there is no
// difference (BenchmarkParse of package rewrite, with the build tag sidenote_plain).
//
//go:noescape
func insideVectors(b []byte, i int) (at int, seen marks)
