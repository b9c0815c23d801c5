package store

import "strings"

// Unsettled is the origin of a base that is being changed from one folder to another: it may hold
// documents of both.
const Unsettled = "?"

const (
	inPart  = "? "
	leaving = "?? "
)

// InPart returns the origin of a base whose folder has not been read completely: it holds only
// documents of that folder, but not all.
func InPart(folder string) string { return inPart + folder }

// Leaving returns the origin of a base in which some documents of its folder were read by the old
// rules and some by the new ones.
func Leaving(folder string) string { return leaving + folder }

// ReadOrigin parses an origin. settled reports whether all documents in the base are of that
// folder and read by its rules; whole reports whether they are all of the folder's documents. Both
// are true for a base without a folder.
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
