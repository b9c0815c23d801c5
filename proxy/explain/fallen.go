package explain

import (
	"encoding/binary"
	"math"

	"sidenote/retrieval"
)

// Of a question that no cache had, what fell is kept in bytes: some 40 entries with pointers to
// five texts each, of 1,000 reports, were half of what the collector had to follow.

// appendFallen writes what fell, with what is kept of its texts, without its places, which are the engine's. A text that is the
// same in the entry before is not written again.
func appendFallen(b []byte, list []retrieval.Excluded) []byte {
	var before [fallenTexts]string
	for i := range list {
		x := &list[i]
		for t, text := range [fallenTexts]string{x.Knowledge, shorterThan(maxID, x.Doc), short(x.Name), short(x.Section), string(x.Arm), string(x.Reason), short(x.Detail)} {
			if text == before[t] {
				b = append(b, 0)
				continue
			}
			b = append(binary.AppendUvarint(b, uint64(len(text))+1), text...)
			before[t] = text
		}
		b = binary.AppendVarint(b, int64(x.Chunk))
		for _, f := range [...]float64{x.Score, x.Relevance, x.Least} {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
		}
		if x.Arm != retrieval.ArmNone {
			for _, f := range [...]float32{x.ByArm.Words, x.ByArm.Vector} {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
			}
		}
	}
	return b
}

// fallenTexts is how many texts an entry has.
const fallenTexts = 7

// readFallen reads what appendFallen wrote.
func readFallen(b []byte) (list []retrieval.Excluded) {
	var texts [fallenTexts]string
	for len(b) > 0 {
		for t := range texts {
			n, read := binary.Uvarint(b)
			if b = b[read:]; n > 0 {
				texts[t], b = string(b[:n-1]), b[n-1:]
			}
		}
		chunk, read := binary.Varint(b)
		b = b[read:]
		var floats [3]float64
		for f := range floats {
			floats[f], b = math.Float64frombits(binary.LittleEndian.Uint64(b)), b[8:]
		}
		var byArm [2]float32
		if texts[4] != "" {
			for f := range byArm {
				byArm[f], b = math.Float32frombits(binary.LittleEndian.Uint32(b)), b[4:]
			}
		}
		list = append(list, retrieval.Excluded{
			Knowledge: texts[0], Doc: texts[1], Name: texts[2], Section: texts[3], Arm: retrieval.Arm(texts[4]), ByArm: retrieval.ArmScores{Words: byArm[0], Vector: byArm[1]},
			Reason: retrieval.ExcludeReason(texts[5]), Detail: texts[6],
			Chunk: int(chunk), Score: floats[0], Relevance: floats[1], Least: floats[2],
		})
	}
	return list
}
