package opensearch

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/tidwall/gjson"

	"sidenote/retrieval/engine"
)

// partsPath selects what is read of the answer to an _msearch.
const partsPath = "responses.status,responses.error,responses.timed_out,responses._shards.failed," +
	"responses.hits.total.value,responses.hits.hits._id,responses.hits.hits._index,responses.hits.hits._score,responses.hits.hits._source,responses.hits.hits.sort,responses.aggregations"

// A part is the answer to a part of an _msearch.
type part struct {
	hits         []hit
	total        int64
	aggregations gjson.Result
}

type hit struct {
	index  string
	id     string
	score  float64
	raw    string       // the source
	sort   string       // JSON
	source gjson.Result // of raw, unless only parts of it are read
}

// parseParts reads the answer to an _msearch of n parts. An error of one is an error of all.
func parseParts(answer []byte, n int) ([]part, error) {
	s := scanner{text: string(answer)}
	var parts []part
	for key := range s.fields {
		if key != "responses" {
			continue
		}
		for range s.elements {
			p, err := parsePart(&s)
			if err != nil {
				return nil, err
			}
			parts = append(parts, p)
		}
	}
	if s.bad || len(parts) != n {
		return nil, fmt.Errorf("%w: %d parts of %d", errAnswer, len(parts), n)
	}
	return parts, nil
}

func parsePart(s *scanner) (part, error) {
	var p part
	failed, incomplete, status := "", false, 0
	for key := range s.fields {
		switch key {
		case "error":
			failed = s.skip()
		case "status":
			status = int(s.number())
		case "timed_out":
			incomplete = incomplete || s.skip() == "true"
		case "_shards":
			incomplete = incomplete || gjson.Get(s.skip(), "failed").Int() > 0
		case "aggregations":
			p.aggregations = gjson.Parse(s.skip())
		case "hits":
			p.readHits(s)
		}
	}
	switch {
	case s.bad:
		return part{}, fmt.Errorf("%w: not the JSON of a search", errAnswer)
	case failed != "":
		kind, reason := causeOf([]byte(failed))
		return part{}, &statusError{Status: status, Type: kind, Reason: reason}
	case incomplete:
		return part{}, fmt.Errorf("%w: incomplete, as a shard did not answer", errAnswer)
	}
	return p, nil
}

func (p *part) readHits(s *scanner) {
	for key := range s.fields {
		switch key {
		case "total":
			p.total = gjson.Get(s.skip(), "value").Int()
		case "hits":
			for range s.elements {
				p.hits = append(p.hits, parseHit(s))
			}
		}
	}
}

func parseHit(s *scanner) hit {
	var h hit
	for key := range s.fields {
		switch key {
		case "_id":
			h.id = s.str()
		case "_index":
			h.index = s.str()
		case "_score":
			h.score = s.number()
		case "_source":
			h.raw = s.skip()
		case "sort":
			h.sort = s.skip()
		}
	}
	h.source = gjson.Result{Type: gjson.JSON, Raw: h.raw}
	return h
}

func (a *arms) readWords(p part) error {
	for rank, h := range p.hits {
		c, err := a.candidate(h)
		if err != nil {
			return err
		}
		c.ByWords = rank + 1
	}
	return nil
}

func (a *arms) readNearest(p part) error {
	for rank, h := range p.hits {
		c, err := a.candidate(h)
		if err != nil {
			return err
		}
		c.ByVector = rank + 1
		if c.Cosine == 0 {
			c.Cosine = cosine(h.score)
		}
		if rank < a.q.Neighbours {
			c.Before, c.After = neighbours(h.source)
		}
	}
	return nil
}

// key identifies a hit among those of all indexes: several bases may have a document with one id.
func (h hit) key() string { return h.index + "/" + h.id }

// readNeighbours reads the texts of the previous and the next chunk. Those of chunks that are no
// candidates are ignored.
func (a *arms) readNeighbours(p part) error {
	for _, h := range p.hits {
		if i, ok := a.index[h.key()]; ok {
			c := &a.found.Candidates[i]
			c.Before, c.After = neighbours(h.source)
		}
	}
	return nil
}

func neighbours(source gjson.Result) (before, after string) {
	n := source.Get("n")
	return n.Get("b").String(), n.Get("a").String()
}

// readListed reads chunks with their vectors.
func (a *arms) readListed(p part) error {
	for _, h := range p.hits {
		c, err := a.candidate(h)
		if err != nil {
			return err
		}
		if c.Vector, err = unpackVector(h.source.Get("v").Str); err != nil {
			return fmt.Errorf("%w: chunk %.100q: %w", errAnswer, h.id, err)
		}
	}
	return nil
}

// candidate returns the candidate of a hit, which it adds if another part has not.
func (a *arms) candidate(h hit) (*engine.Candidate, error) {
	if i, ok := a.index[h.key()]; ok {
		return &a.found.Candidates[i], nil
	}
	stored, err := parseChunk(h.raw)
	c, vector := stored.Candidate, stored.vector
	if err != nil || h.id == "" {
		return nil, fmt.Errorf("%w: chunk %.100q: %w", errAnswer, h.id, err)
	}
	if c.Base, err = a.baseOf(stored.base); err != nil {
		return nil, err
	}
	if vector != "" && len(a.q.Vector) > 0 {
		if c.Cosine, err = cosineOf(a.q.Vector, vector); err != nil {
			return nil, fmt.Errorf("%w: chunk %.100q: %w", errAnswer, h.id, err)
		}
	}
	a.index[h.key()] = len(a.found.Candidates)
	a.found.Candidates = append(a.found.Candidates, c)
	return &a.found.Candidates[len(a.found.Candidates)-1], nil
}

func (a *arms) baseOf(base string) (int, error) {
	for i, b := range a.q.Bases {
		if b == base {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%w: a chunk of base %.100q, which was not searched", errAnswer, base)
}

// parseChunk reads what put.go stored.
func parseChunk(source string) (c storedChunk, err error) {
	s := scanner{text: source}
	for key := range s.fields {
		switch key {
		case "v":
			c.vector = s.str()
		case "c":
			err = c.read(&s)
		}
	}
	switch {
	case err != nil:
		return c, err
	case s.bad:
		return c, errors.New("is not stored as it must be")
	case c.Doc == "":
		return c, errors.New("has no document")
	}
	return c, nil
}

// storedChunk is a chunk as put.go stored it.
type storedChunk struct {
	engine.Candidate
	base, vector string
}

func (c *storedChunk) read(s *scanner) (err error) {
	number := func() int {
		n := s.number()
		if n < 0 || n > math.MaxInt32 || n != math.Trunc(n) {
			err = fmt.Errorf("%v is no count", n)
			return 0
		}
		return int(n)
	}
	bytesOf := func() []byte {
		text := s.str()
		if text == "" {
			return nil
		}
		b, e := base64.StdEncoding.DecodeString(text)
		if e != nil {
			err = e
		}
		return b
	}
	for key := range s.fields {
		switch key {
		case "base":
			c.base = s.str()
		case "doc":
			c.Doc = s.str()
		case "ordinal":
			c.Ordinal = number()
		case "name":
			c.Name = s.str()
		case "section":
			c.Section = s.str()
		case "text":
			c.Text = s.str()
		case "attributes":
			c.Attributes = s.str()
		case "tokens":
			c.Tokens = s.str()
		case "sketch":
			c.Sketch = bytesOf()
		case "length":
			c.Length = number()
		case "packed":
			c.Packed = bytesOf()
		case "key":
			c.VectorKey = bytesOf()
		case "chunks":
			c.Chunks = number()
		case "lengths":
			c.AllLengths = int64(number())
		}
	}
	return err
}

func (a *arms) readCounts(p part) error {
	at := make(map[string]int, len(a.q.Terms))
	for i, t := range a.q.Terms {
		at[t.Text] = i
	}
	for _, h := range p.hits {
		base, err := a.baseOf(h.source.Get("base").Str)
		if err != nil {
			return err
		}
		count, err := termOf(h.source, a.states[base].Current)
		if err != nil {
			return err
		}
		if i, ok := at[count.Text]; ok {
			a.found.Counts[i][base] = count
		}
	}
	return nil
}

// termOf reads a document of a term as of a generation.
func termOf(source gjson.Result, current int64) (engine.TermCount, error) {
	texts, total := source.Get("texts"), source.Get("total")
	if source.Get("born").Int() > current {
		texts, total = source.Get("old_texts"), source.Get("old_total")
	}
	count := engine.TermCount{Text: source.Get("term").Str, Texts: int(texts.Int()), Total: total.Int()}
	if count.Texts < 0 || count.Total < 0 {
		return count, fmt.Errorf("%w: term %.100q has a negative count", errAnswer, count.Text)
	}
	return count, nil
}

// readStates compares the states of the answer with those that the search was sent with.
func (a *arms) readStates(p part) error {
	seen := map[string]state{}
	for _, h := range p.hits {
		st, err := parseState(h.id, []byte(h.source.Raw))
		if err != nil {
			return err
		}
		seen[h.id] = st
	}
	newer := false
	for i, base := range a.q.Bases {
		st, ok := seen[base]
		// A document that was just written may not be searchable yet, though it could be read.
		if ok && (st.Current > a.states[i].Current || st.Measures != a.states[i].Measures && st.Now > a.states[i].Now) {
			newer = newer || st.Current > a.states[i].Current
			continue
		}
		seen[base] = a.states[i]
	}
	a.server.remember(a.q.Bases, seen)
	if newer {
		a.newer = make([]state, len(a.q.Bases))
	}
	for i, base := range a.q.Bases {
		st := seen[base]
		a.found.States[i].Measures = st.Measures
		if newer {
			a.newer[i] = st
		}
	}
	return nil
}

// Vectors are stored as base64 of half-precision floats, little endian: the error of a cosine of
// texts is below .0005, which is far below what two texts of one meaning differ by.

func packVector(v []float32) string {
	b := make([]byte, 0, 2*len(v))
	for _, f := range v {
		b = binary.LittleEndian.AppendUint16(b, halfOf(f))
	}
	return base64.StdEncoding.EncodeToString(b)
}

func unpackVector(text string) ([]float32, error) {
	if text == "" {
		return nil, nil
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b)%2 != 0 {
		return nil, fmt.Errorf("vector is not stored as it must be")
	}
	v := make([]float32, len(b)/2)
	for i := range v {
		v[i] = floatOf(binary.LittleEndian.Uint16(b[2*i:]))
	}
	return v, nil
}

// cosineOf returns the cosine of two vectors; 0 if their dimensions differ.
func cosineOf(question []float32, text string) (float64, error) {
	v, err := unpackVector(text)
	if err != nil || len(v) != len(question) {
		return 0, err
	}
	return cosineBetween(question, v), nil
}

// cosineBetween returns the cosine of two vectors with the same dimensions.
func cosineBetween(question, v []float32) float64 {
	var dot, length, asked float64
	for i := range v {
		dot += float64(v[i]) * float64(question[i])
		length += float64(v[i]) * float64(v[i])
		asked += float64(question[i]) * float64(question[i])
	}
	cos := dot / math.Sqrt(length*asked)
	if math.IsNaN(cos) || math.IsInf(cos, 0) {
		return 0
	}
	return max(-1, min(1, cos))
}

// halfOf rounds a float32 to half precision (IEEE 754 binary16).
func halfOf(f float32) uint16 {
	bits := math.Float32bits(f)
	sign, magnitude := uint16(bits>>16&0x8000), bits&0x7fffffff
	switch {
	case magnitude >= 0x47800000: // too large
		return sign | 0x7bff
	case magnitude < 0x33000000: // less than half of the smallest
		return sign
	case magnitude < 0x38800000: // subnormal: the smallest is 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(magnitude))*(1<<24)))
	}
	rounded := magnitude + 0xfff + magnitude>>13&1
	return sign | uint16(min((rounded-0x38000000)>>13, 0x7bff))
}

// floatOf returns the value of a half-precision float.
func floatOf(h uint16) float32 {
	sign, exponent, fraction := uint32(h&0x8000)<<16, uint32(h>>10&0x1f), uint32(h&0x3ff)
	if exponent == 0 {
		f := float32(fraction) / (1 << 24)
		return math.Float32frombits(math.Float32bits(f) | sign)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// page sends one search, and returns the answer.
func (s *Server) page(ctx context.Context, index string, body object) (part, error) {
	answer, err := s.client.call(ctx, "POST", "/"+index+"/_search", mustJSON(body))
	if err != nil {
		return part{}, err
	}
	return parsePart(&scanner{text: string(answer)})
}

// sortValues returns the sort values of a hit, for search_after.
func (h hit) sortValues() json.RawMessage { return json.RawMessage(h.sort) }
