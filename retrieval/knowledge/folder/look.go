package folder

import (
	"context"
	"hash/maphash"

	"sidenote/retrieval/knowledge/extract/pdf"
)

// lookSeed seeds digests. It is constant in a process.
var lookSeed = maphash.MakeSeed()

// Look walks a folder as Files does and returns a digest of what it finds: while the digest is the
// same, there is nothing new to read. It calls enter with the relative path of every folder it
// depends on, before it reads that folder.
func Look(ctx context.Context, f Folder, p *pdf.Reader, enter func(dir string)) (digest uint64) {
	var h maphash.Hash
	h.SetSeed(lookSeed)
	source, err := Open(f)
	if err != nil {
		maphash.WriteComparable(&h, reasonOf(err))
		return h.Sum64()
	}
	defer func() { _ = source.Close() }()
	files, skipped, err := source.files(ctx, f, p, enter)
	if err != nil {
		maphash.WriteComparable(&h, reasonOf(err))
	}
	for _, s := range skipped {
		maphash.WriteComparable(&h, s)
	}
	for _, name := range files {
		maphash.WriteComparable(&h, name)
		v, err := source.Version(name)
		if err != nil {
			maphash.WriteComparable(&h, reasonOf(err))
			continue
		}
		maphash.WriteComparable(&h, [...]int64{int64(v.Mode), v.Size, v.Modified.UnixNano(), v.Mark})
	}
	return h.Sum64()
}
