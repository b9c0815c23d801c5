package index

import (
	"encoding/binary"
	"hash/crc32"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index/bm25"
)

// OpenFile opens a segment file.
func OpenFile(name string) (*Segment, error) {
	f, err := bm25.OpenMapped(name)
	if err != nil {
		return nil, err
	}
	return Open(name, f.Bytes(), f)
}

// ReadAll reads everything in the segment.
func (s *Segment) ReadAll() (all []string, err error) {
	for d := range s.texts.documents {
		attributes, err := s.attributes(d)
		if err != nil {
			return nil, err
		}
		all = append(all, string(s.texts.id(d)), string(s.texts.name(d)), chunk.Encoded(attributes))
		for t := s.texts.first(d); t < s.texts.first(d+1); t++ {
			_, text, _, err := s.around(t, s.texts.first(d), s.texts.first(d+1))
			if err != nil {
				return nil, err
			}
			all = append(all, string(s.texts.section(t)), text)
		}
	}
	return all, nil
}

// Write returns the segments of documents, which are given as id, name, attributes and then
// section and text of each chunk.
func Write(documents map[int64][]string) (images [][]byte, err error) {
	return WriteWithin(0, documents)
}

// WriteWithin is Write with a limit on the size of a segment's terms in bytes.
func WriteWithin(limit int, documents map[int64][]string) (images [][]byte, err error) {
	w := Writer{Emit: func(image []byte, _ []int64) error {
		images = append(images, image)
		return nil
	}, postings: bm25.Builder{Limit: limit}}
	for row, parts := range documents {
		d := Document{Row: row, ID: parts[0], Name: parts[1], Attributes: parts[2]}
		for i := 3; i < len(parts); i += 2 {
			d.Chunks = append(d.Chunks, chunk.Chunk{Section: parts[i], Text: parts[i+1]})
		}
		if err := w.Add(d); err != nil {
			return nil, err
		}
	}
	return images, w.Flush()
}

// Seal corrects the checksums of a modified segment image, except those of its postings, as far as
// the headers are usable.
func Seal(image []byte) {
	if len(image) < fileHeader+textsHeader {
		return
	}
	binary.LittleEndian.PutUint32(image[12:], headerChecksum(image))
	texts := image[fileHeader:]
	c := countsOf(texts)
	if c.bytes() <= uint64(len(texts)) {
		binary.LittleEndian.PutUint32(texts[tableSum:], crc32.Checksum(texts[textsHeader:textsHeader+c.table()], crc32c()))
	}
	binary.LittleEndian.PutUint32(texts[headerSum:], crc32.Checksum(texts[:headerSum], crc32c()))
}

// MergeWithout merges segments without the documents in gone.
func MergeWithout(gone map[int64]bool, segments ...*Segment) (*Segment, []int64, error) {
	var sources Segments
	for _, s := range segments {
		sources = append(sources, s.Without(s.WithRows(gone), nil))
	}
	image, rows, err := Merge(sources)
	if err != nil {
		return nil, nil, err
	}
	merged, err := Open("merged", image, nil)
	return merged, rows, err
}

// OneText returns a document with one text.
func OneText(row int64, id, attributes, text string) Document {
	return Document{Row: row, ID: id, Attributes: attributes, Chunks: []chunk.Chunk{{Text: text}}}
}

// SegmentMemory returns a Writer's estimate for making a segment; MergeMemory the estimate for a
// merge.
func SegmentMemory(documents []Document) (bytes int64) {
	w := Writer{}
	for i := range documents {
		bytes = w.memory(&documents[i])
		w.weight, w.texts = w.weight+documents[i].weight(), w.texts+len(documents[i].Chunks)
	}
	return bytes
}

func MergeMemory(some Segments) int64 {
	bytes, texts := 0, 0
	for _, s := range some {
		bytes, texts = bytes+s.size, texts+s.Postings.Len()
	}
	return mergeMemory(bytes, texts)
}
