//go:build !amd64 || sidenote_plain

package chat

const vectors = false

func insideVectors(_ []byte, i int) (at int, seen marks) { return i, 0 }
