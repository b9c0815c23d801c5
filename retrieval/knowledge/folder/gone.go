package folder

import "fmt"

// A GoneError means that a base was left unchanged because so many files of its folder are missing
// that the folder is probably unavailable, such as a volume that is not mounted.
type GoneError struct {
	Knowledge string
	Path      string // see Folder.Place
	Remote    bool   // the folder is a mirror
	Gone      int
	Files     int // number of files with documents since the last walk of the whole folder
}

func (e *GoneError) Error() string {
	line := fmt.Sprintf("knowledge %s: %d of %d files are missing from %s", e.Knowledge, e.Gone, e.Files, e.Path)
	if e.Remote {
		return line
	}
	return line + "; is its volume mounted?"
}

// manyGone is the least number of missing files that is suspicious if it is more than half of a
// folder.
const manyGone = 20

// Suspicious reports whether so many of a folder's files are missing that the folder is probably
// unavailable.
func Suspicious(gone, files int) bool {
	return gone == files && files >= 2 || 2*gone > files && gone >= manyGone
}
