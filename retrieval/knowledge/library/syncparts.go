package library

import (
	"context"
	"fmt"
	"iter"

	"golang.org/x/sync/errgroup"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
)

const (
	// partBytes is the size from which a file with many documents is written in parts: while they
	// are cut and counted, documents take ten times the memory of their text.
	partBytes = 1 << 20
	// partDocuments and partText limit a part; a single document may be longer.
	partDocuments = 512
	partText      = 2 << 20
)

// inParts reads one file and writes its documents in parts, in at most most bytes of memory; 0 is no
// limit. The first document is written with the last part: until then the file counts as changed,
// also if the process is killed.
func (s *syncing) inParts(ctx context.Context, f *syncFile, extractor folder.Extractor, most int64, last bool) error {
	documents, skip := s.source.ReadBy(ctx, f.name, s.l.reader.deps.PDF, extractor)
	if err := ctx.Err(); err != nil {
		return err
	}
	f.read, f.skip = len(documents) > 0 || skip == nil, skip
	if most > 0 && memoryInParts(documents) > most {
		f.reject(fmt.Sprintf("its text takes more than the %d MB of memory that are free", most>>20))
		return s.write(ctx, []*syncFile{f}, last)
	}
	var first []chunk.Document
	if len(documents) > 0 {
		first, documents = documents[:1], documents[1:]
	}
	for part := range partsOf(documents) {
		if err := s.cutPart(ctx, f, part); err != nil {
			return err
		}
		if len(part) == len(documents) {
			break // the only one
		}
		f.stamp()
		written, touched := s.collect(f, nil, nil)
		if err := s.put(ctx, written, touched, false); err != nil {
			return err
		}
		f.written += len(f.documents) + len(f.same)
		f.documents, f.same = nil, nil
		clear(part)
	}
	if err := s.cutPart(ctx, f, first); err != nil {
		return err
	}
	f.stamp()
	return s.write(ctx, []*syncFile{f}, last)
}

// partsOf yields the documents of a file in parts.
func partsOf(documents []chunk.Document) iter.Seq[[]chunk.Document] {
	return func(yield func([]chunk.Document) bool) {
		for start := 0; start < len(documents); {
			end, text := start, 0
			for end < len(documents) && end-start < partDocuments && (end == start || text+len(documents[end].Text) <= partText) {
				text += len(documents[end].Text)
				end++
			}
			if !yield(documents[start:end]) {
				return
			}
			start = end
		}
	}
}

// cutPart cuts documents of a file in parallel.
func (s *syncing) cutPart(ctx context.Context, f *syncFile, part []chunk.Document) error {
	if err := s.hold(ctx, part); err != nil {
		return err
	}
	cut := make([]syncDocument, len(part))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(s.l.reader.deps.Parallel())
	const run = 16 // documents of a goroutine
	for start := 0; start < len(part); start += run {
		g.Go(func() error {
			for i := start; i < min(start+run, len(part)); i++ {
				cut[i] = s.cutOne(f, part[i])
			}
			return gctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, d := range cut {
		s.take(f, d)
	}
	return nil
}
