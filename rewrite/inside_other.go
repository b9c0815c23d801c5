//go:build !amd64

package rewrite

const vectors = false

func insideBlocks(_ []byte, i int) (at int, escapes, wide bool) { return i, false, false }
