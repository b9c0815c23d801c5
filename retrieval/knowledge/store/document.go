package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sidenote/retrieval/knowledge/chunk"
)

// A Document is a document with its chunks.
type Document struct {
	ID         string // unique in its base, not empty
	Name       string // title
	Kind       string // how it was read, such as "markdown"
	Source     string // where it came from, such as a path
	Size       int64  // size of the source in bytes
	Modified   time.Time
	Mark       int64          // distinguishes versions of the source with the same size and time; 0 if unused
	Hash       [32]byte       // of its content, with its Reader as prefix
	Attributes map[string]any // see Attribute
	Sum        chunk.Sum      // its contribution to the base's sum
	Chunks     []Chunk
}

// A Chunk is a part of a document.
type Chunk struct {
	Section string
	Text    string
	Tokens  map[string]int // by encoding
}

// An Entry is a stored document; in lists it has no chunks.
type Entry struct {
	Row int64 // never reused for another document
	Document
	ChunkCount int
	Bytes      int64 // total length of the chunks' texts
}

// maxChunks is the most chunks of a document.
const maxChunks = 1 << 20

// chunkRow returns the row id of a document's chunk at a place, counted from 0. It is never
// reused.
func chunkRow(document int64, place int) int64 { return document*maxChunks + int64(place) }

// A row is a document ready to be written.
type row struct {
	*Document
	attributes string
	modified   int64
	tokens     []string // of each chunk, encoded
	chunks     int
	bytes      int64
}

// rowsOf validates and prepares documents. If one is invalid, nothing is written.
func rowsOf(docs []Document) ([]row, error) {
	seen := make(map[string]bool, len(docs))
	out := make([]row, len(docs))
	for i := range docs {
		d := &docs[i]
		switch {
		case d.ID == "":
			return nil, fmt.Errorf("document %d of %d has no id", i+1, len(docs))
		case seen[d.ID]:
			return nil, fmt.Errorf("document %q comes twice", d.ID)
		case len(d.Chunks) > maxChunks:
			return nil, fmt.Errorf("document %q has %d chunks, more than %d", d.ID, len(d.Chunks), maxChunks)
		}
		seen[d.ID] = true
		r, err := rowOf(d)
		if err != nil {
			return nil, fmt.Errorf("document %q: %w", d.ID, err)
		}
		out[i] = r
	}
	return out, nil
}

func rowOf(d *Document) (r row, err error) {
	r = row{Document: d, modified: nanoseconds(d.Modified), tokens: make([]string, len(d.Chunks)), chunks: len(d.Chunks)}
	if r.attributes, err = chunk.EncodeAttributes(d.Attributes); err != nil {
		return r, err
	}
	for i, c := range d.Chunks {
		r.bytes += int64(len(c.Text))
		if r.tokens[i], err = encodeTokens(c.Tokens); err != nil {
			return r, fmt.Errorf("chunk %d: %w", i, err)
		}
	}
	return r, nil
}

// checksum returns the checksum of the document's row, without its chunks.
func (r *row) checksum(number, base int64) int64 {
	b := make([]byte, 0, 256)
	for _, v := range []int64{number, base, r.Size, r.modified, r.Mark, int64(r.chunks), r.bytes} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	b = append(b, chunk.Fields(r.ID, r.Name, r.Kind, r.Source, r.attributes)...)
	b = append(append(b, r.Hash[:]...), r.Sum[:]...)
	return int64(checksum(b))
}

// chunkChecksum returns the checksum of a chunk's row.
func chunkChecksum(number int64, section, text, tokens string) int64 {
	b := binary.LittleEndian.AppendUint64(nil, uint64(number))
	b = append(b, chunk.Fields(section, tokens)...)
	return int64(checksum(append(b, text...)))
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// encodingName matches valid encoding names.
var encodingName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// encodeTokens returns counts as "encoding=count encoding=count", sorted.
func encodeTokens(tokens map[string]int) (string, error) {
	var counts []string
	for _, encoding := range slices.Sorted(maps.Keys(tokens)) {
		n := tokens[encoding]
		if n < 0 || !encodingName.MatchString(encoding) {
			return "", fmt.Errorf("%d tokens of encoding %q: a name of letters, digits, ., _ and - and a count are expected", n, encoding)
		}
		counts = append(counts, encoding+"="+strconv.Itoa(n))
	}
	return strings.Join(counts, " "), nil
}

// decodeTokens reverses encodeTokens; it returns nil if there are no counts.
func decodeTokens(text string) (map[string]int, error) {
	if text == "" {
		return nil, nil
	}
	out := map[string]int{}
	for field := range strings.SplitSeq(text, " ") {
		encoding, count, _ := strings.Cut(field, "=")
		n, err := strconv.Atoi(count)
		if err != nil {
			return nil, fmt.Errorf("token counts: %w", err)
		}
		out[encoding] = n
	}
	return out, nil
}

// validBase returns an error if id is not a valid id of a base.
func validBase(id string) error {
	if !regexp.MustCompile(`^[a-z0-9_-]{1,64}$`).MatchString(id) {
		return fmt.Errorf("knowledge id %q: 1 to 64 of a-z, 0-9, _ and - are allowed", id)
	}
	return nil
}
