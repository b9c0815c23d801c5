package vectorstore

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
)

// found is the decoded answer to a search.
type found struct {
	sources    []retrieval.Source // best first
	floor      float64            // 0: none
	generation string             // reported by a Sidenote; "" if there is none
	mixed      bool               // the results are of several generations, so they must not be cached
	dropped    int                // results that do not match the filter, or lack the attributes to decide
	joint      *jointAnswer       // from a Sidenote that was asked jointly
}

// A jointAnswer is what a Sidenote says about a joint search.
type jointAnswer struct {
	Bases []struct {
		ID         string `json:"kb_id"`
		Generation string `json:"generation"`
	} `json:"bases"` // that were searched
	Least       float64               `json:"least"`
	Reason      retrieval.Reason      `json:"reason"`
	Partial     bool                  `json:"partial"`
	Provisional bool                  `json:"provisional"`
	Degraded    retrieval.Stage       `json:"degraded"`
	Embed       retrieval.EmbedReason `json:"embed"`
}

// check replaces words that are not in the closed lists of their types.
func (a *jointAnswer) check() {
	switch a.Reason {
	case retrieval.ReasonNone, retrieval.ReasonNoQueryTerms, retrieval.ReasonIndexing, retrieval.ReasonState, retrieval.ReasonTimeout, retrieval.ReasonError:
	default:
		a.Reason = retrieval.ReasonNone // such as no-match, which follows from the sources
	}
	if a.Degraded != retrieval.StageEmbed {
		a.Degraded = ""
	}
	switch a.Embed {
	case retrieval.EmbedTimeout, retrieval.EmbedError, retrieval.EmbedInvalid:
	default:
		a.Embed = ""
	}
}

// generation returns the generation of a base that was searched; false if it was not.
func (a *jointAnswer) generation(id string) (string, bool) {
	for _, base := range a.Bases {
		if base.ID == id {
			raw, _ := json.Marshal(base.Generation) // a string
			own := generationOf(raw)
			return own, own != ""
		}
	}
	return "", false
}

// A result is an element of an answer's data. Anything may be null or missing: engines behind
// gateways offer less than OpenAI's.
type result struct {
	FileID     string                     `json:"file_id"`
	Filename   string                     `json:"filename"`
	Score      json.RawMessage            `json:"score"`
	Attributes map[string]json.RawMessage `json:"attributes"`
	Content    []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
}

// decodePage decodes the answer to a search into at most limit sources. Results without text are
// dropped, and so are those that do not match filter. Chunks without an ordinal are numbered
// within their document.
func decodePage(body []byte, limit int, filter *filter.Filter, neutralise func(string) string) (found, error) {
	var page struct {
		Data  json.RawMessage `json:"data"`
		Joint *jointAnswer    `json:"sidenote"`
	}
	var results []result
	if err := json.Unmarshal(body, &page); err != nil {
		return found{}, fmt.Errorf("answer is not a page of results: %w", err)
	}
	if page.Data == nil {
		return found{}, errors.New("answer is not a page of results: it has no data")
	}
	if err := json.Unmarshal(page.Data, &results); err != nil { // null is an empty list
		return found{}, fmt.Errorf("answer is not a page of results: %w", err)
	}
	if page.Joint != nil {
		page.Joint.check()
	}
	results, dropped := keep(results, filter)
	f := found{floor: commonFloor(results), dropped: dropped, joint: page.Joint}
	chunks := map[string]int{}
	for i := range results {
		s, ok := results[i].source(neutralise)
		if !ok {
			continue
		}
		if s.Chunk < 0 {
			s.Chunk = chunks[s.Doc]
			chunks[s.Doc]++
		}
		if exact := number(results[i].Attributes["sidenote_score"]); f.floor > 0 && exact > 0 {
			s.Score = exact
		} else if f.floor > 0 {
			s.Score = retrieval.FromRelevance(s.Score, f.floor)
		}
		told := generationOf(results[i].Attributes["sidenote_generation"])
		f.mixed = f.mixed || len(f.sources) > 0 && told != f.generation
		f.generation = told
		f.sources = append(f.sources, s)
	}
	if f.mixed {
		f.generation = ""
	}
	slices.SortStableFunc(f.sources, func(a, b retrieval.Source) int { return cmp.Compare(b.Score, a.Score) })
	f.sources = f.sources[:min(len(f.sources), limit)]
	return f, nil
}

// commonFloor returns the floor that all results have, 0 if they have none or different ones.
func commonFloor(results []result) float64 {
	common := 0.0
	for i := range results {
		floor := number(results[i].Attributes["sidenote_floor"])
		if !(floor > 0) || i > 0 && floor != common {
			return 0
		}
		common = floor
	}
	return common
}

// source converts a result, with a Chunk of -1 if it has no ordinal; false if it has no text.
func (r *result) source(neutralise func(string) string) (retrieval.Source, bool) {
	var texts []string
	for _, c := range r.Content {
		if c.Type == "text" || c.Type == "" {
			texts = append(texts, c.Text)
		}
	}
	text := retrieval.TrimLines(neutralise(strings.Join(texts, "\n\n")))
	if text == "" {
		return retrieval.Source{}, false
	}
	s := retrieval.Source{Type: "rag", Text: text, Score: number(r.Score), Chunk: -1, Arm: retrieval.ArmVector}
	s.Doc = shorten(strings.Map(retrieval.Visible, cmp.Or(r.FileID, r.Filename)), maxID)
	if s.Doc == "" {
		h := fnv.New32a()
		_, _ = h.Write([]byte(text))
		s.Doc = "text-" + strconv.FormatUint(uint64(h.Sum32()), 16)
	}
	s.Name = cmp.Or(retrieval.Line(word(r.Attributes["sidenote_name"])), retrieval.Line(r.Filename), s.Doc)
	s.Section = retrieval.Line(word(r.Attributes["sidenote_section"]))
	if s.Knowledge = word(r.Attributes["sidenote_knowledge"]); s.Knowledge != "" { // of a joint search
		s.Arm = retrieval.ArmNone
		if arm := retrieval.Arm(word(r.Attributes["sidenote_arm"])); arm == retrieval.ArmWords || arm == retrieval.ArmVector {
			s.Arm = arm
		}
	}
	s.Attributes = timeOf(r.Attributes)
	if sketch, err := base64.StdEncoding.DecodeString(word(r.Attributes["sidenote_sketch"])); err == nil && len(sketch) == retrieval.SketchBytes {
		s.Sketch = string(sketch)
	}
	if n := number(r.Attributes["sidenote_chunk"]); r.Attributes["sidenote_chunk"] != nil && n >= 0 && n < 1<<31 {
		s.Chunk = int(n)
	}
	return s, true
}

// maxTime is the maximum length of the attributes that tell the time of a document, in bytes.
const maxTime = 4 << 10

// timeOf returns the attributes that tell the date or version of a document, "" if there are none.
func timeOf(attributes map[string]json.RawMessage) string {
	told := map[string]json.RawMessage{}
	for _, name := range [...]string{"date", "version", "supersedes"} {
		for _, name := range [...]string{name, retrieval.VersionAttributes + name} {
			if raw, ok := attributes[name]; ok {
				told[name] = raw
			}
		}
	}
	if raw, ok := attributes[retrieval.FileTimeAttribute]; ok {
		told[retrieval.FileTimeAttribute] = raw
	}
	text, err := json.Marshal(told)
	if err != nil || len(told) == 0 || len(text) > maxTime {
		return ""
	}
	return string(text)
}

// number parses a finite number; anything else is 0.
func number(raw json.RawMessage) float64 {
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0
	}
	return n
}

// word parses a string; anything else is "".
func word(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// generationOf parses the generation of a Sidenote, lower-case hex.
func generationOf(raw json.RawMessage) string {
	s := word(raw)
	if _, err := hex.DecodeString(s); err != nil || len(s) > 128 || s != strings.ToLower(s) {
		return ""
	}
	return s
}

// maxID is the maximum length of an id, in bytes.
const maxID = 512

func shorten(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most-len("…")], "") + "…"
	}
	return s
}

// A store is the state of a store, as the API reports it.
type store struct {
	ID         string `json:"id"`
	Status     string `json:"status"`
	CreatedAt  int64  `json:"created_at"`
	UsageBytes int64  `json:"usage_bytes"`
	FileCounts struct {
		InProgress int `json:"in_progress"`
		Completed  int `json:"completed"`
		Failed     int `json:"failed"`
		Cancelled  int `json:"cancelled"`
		Total      int `json:"total"`
	} `json:"file_counts"`
	Metadata map[string]json.RawMessage `json:"metadata"`
}

func decodeStore(body []byte) (store, error) {
	var s store
	if err := json.Unmarshal(body, &s); err != nil {
		return store{}, fmt.Errorf("answer is not a vector store: %w", err)
	}
	if s.ID == "" {
		return store{}, errors.New("answer is not a vector store: it has no id")
	}
	return s, nil
}

func (s store) generation() string { return generationOf(s.Metadata["sidenote_generation"]) }

// joint reports whether the store takes a jointRequest.
func (s store) joint() bool { return s.generation() != "" && word(s.Metadata["sidenote_joint"]) == "1" }

func (s store) counts() string { return fmt.Sprint(s.FileCounts) }

// A filePage is a page of the list of a store's files.
type filePage struct {
	files []string // JSON in canonical form
	last  string   // id of the last one
	more  bool
}

// decodeFiles decodes a page of files. All fields of an entry count, except when the file was last
// used.
func decodeFiles(body []byte) (filePage, error) {
	var page struct {
		Data    []map[string]any `json:"data"`
		HasMore bool             `json:"has_more"`
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&page); err != nil {
		return filePage{}, fmt.Errorf("answer is not a list of files: %w", err)
	}
	if page.Data == nil {
		return filePage{}, errors.New("answer is not a list of files: it has no data")
	}
	p := filePage{more: page.HasMore}
	for _, file := range page.Data {
		p.last, _ = file["id"].(string)
		if p.last == "" {
			return filePage{}, errors.New("answer is not a list of files: one has no id")
		}
		maps.DeleteFunc(file, func(name string, _ any) bool { return strings.HasPrefix(name, "last_") && name != "last_error" })
		text, err := json.Marshal(file)
		if err != nil {
			return filePage{}, fmt.Errorf("answer is not a list of files: %w", err)
		}
		p.files = append(p.files, string(text))
	}
	return p, nil
}
