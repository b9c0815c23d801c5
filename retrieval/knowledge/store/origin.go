package store

import "strings"

// Unsettled is the origin of a base that is on its way from one folder to another: it
// holds documents of both.
const Unsettled = "?"

const (
	inPart  = "? "
	leaving = "?? "
)

// InPart is the origin of a base whose folder has not been read to its end: it holds
// documents of that folder alone, and not all of them.
func InPart(folder string) string { return inPart + folder }

// Leaving is the origin of a base in which some documents of its folder were read by the
// rules of before and some by the present ones.
func Leaving(folder string) string { return leaving + folder }

// ReadOrigin takes an origin apart. settled tells whether the documents in the base
// are of that folder, read by its rules, and whole whether they are all of them; a
// base that is kept with no folder is both.
func ReadOrigin(origin string) (folder string, settled, whole bool) {
	if origin == Unsettled {
		return "", false, false
	}
	if folder, ok := strings.CutPrefix(origin, leaving); ok {
		return folder, false, false
	}
	if folder, ok := strings.CutPrefix(origin, inPart); ok {
		return folder, true, false
	}
	return origin, true, true
}
