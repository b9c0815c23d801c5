package engine

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"sort"

	"sidenote/retrieval/knowledge/chunk"
)

// packedTerm is the size of a packed term: a hash and a count.
const packedTerm = 5

// mostCount is the largest count of a packed term; a text that has it more often gets this.
const mostCount = 255

// Pack returns the terms of a text, given in any order with repetitions, as Count reads them:
// hashes (FNV-1a, 32 bits) in ascending order, each with a count. That two terms of a question and
// a text have one hash has a probability of about 1 in 10^7.
func Pack(terms []string) []byte {
	counts := make(map[uint32]int, len(terms))
	for _, t := range terms {
		counts[hash(t)]++
	}
	packed := make([]byte, 0, packedTerm*len(counts))
	for _, h := range slices.Sorted(maps.Keys(counts)) {
		packed = append(binary.BigEndian.AppendUint32(packed, h), byte(min(counts[h], mostCount)))
	}
	return packed
}

// Count returns how often a text has a term, given what Pack returned for the text.
func Count(packed []byte, term string) int {
	h, n := hash(term), len(packed)/packedTerm
	i := sort.Search(n, func(i int) bool { return binary.BigEndian.Uint32(packed[packedTerm*i:]) >= h })
	if i < n && binary.BigEndian.Uint32(packed[packedTerm*i:]) == h {
		return int(packed[packedTerm*i+packedTerm-1])
	}
	return 0
}

// Distinct returns the number of distinct terms of a text, given what Pack returned for it.
func Distinct(packed []byte) int { return len(packed) / packedTerm }

func hash(term string) uint32 {
	h := uint32(2166136261)
	for i := range len(term) {
		h = (h ^ uint32(term[i])) * 16777619
	}
	return h
}

// TokensOf returns counts as Chunk.Tokens holds them: a JSON object.
func TokensOf(counts []chunk.Count) string {
	if len(counts) == 0 {
		return ""
	}
	all := make(map[string]int, len(counts))
	for _, c := range counts {
		all[c.Counter] = c.Tokens
	}
	text, _ := json.Marshal(all) // cannot fail
	return string(text)
}

// TokensBy returns the count of one counter; 0 if it is unknown.
func TokensBy(tokens, counter string) int {
	if tokens == "" {
		return 0
	}
	var all map[string]int
	if json.Unmarshal([]byte(tokens), &all) != nil {
		return 0
	}
	return all[counter]
}
