package opensearch

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"github.com/tidwall/gjson"

	"sidenote/retrieval/engine"
)

// partsPath selects what is read of the answer to an _msearch.
const partsPath = "responses.status,responses.error,responses.timed_out,responses._shards.failed," +
	"responses.hits.total.value,responses.hits.hits._id,responses.hits.hits._score,responses.hits.hits._source,responses.hits.hits.sort,responses.aggregations"

// A part is the answer to a part of an _msearch.
type part struct {
	hits         []hit
	total        int64
	aggregations gjson.Result
}

type hit struct {
	id     string
	score  float64
	source gjson.Result
	sort   gjson.Result
}

// parseParts reads the answer to an _msearch of n parts. An error of one is an error of all.
func parseParts(answer []byte, n int) ([]part, error) {
	if !gjson.ValidBytes(answer) {
		return nil, fmt.Errorf("%w: not JSON", errAnswer)
	}
	responses := gjson.ParseBytes(answer).Get("responses").Array()
	if len(responses) != n {
		return nil, fmt.Errorf("%w: %d parts of %d", errAnswer, len(responses), n)
	}
	parts := make([]part, n)
	for i, r := range responses {
		p, err := parsePart(r)
		if err != nil {
			return nil, err
		}
		parts[i] = p
	}
	return parts, nil
}

func parsePart(r gjson.Result) (part, error) {
	var p part
	var failed gjson.Result
	incomplete, status := false, 0
	r.ForEach(func(key, v gjson.Result) bool { // one pass, as answers are large
		switch key.Str {
		case "error":
			failed = v
		case "status":
			status = int(v.Int())
		case "timed_out":
			incomplete = incomplete || v.Bool()
		case "_shards":
			incomplete = incomplete || v.Get("failed").Int() > 0
		case "aggregations":
			p.aggregations = v
		case "hits":
			p.readHits(v)
		}
		return true
	})
	if failed.Exists() {
		kind, reason := causeOf([]byte(failed.Raw))
		return part{}, &statusError{Status: status, Type: kind, Reason: reason}
	}
	if incomplete {
		return part{}, fmt.Errorf("%w: incomplete, as a shard did not answer", errAnswer)
	}
	return p, nil
}

func (p *part) readHits(v gjson.Result) {
	v.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "total":
			p.total = v.Get("value").Int()
		case "hits":
			v.ForEach(func(_, h gjson.Result) bool {
				p.hits = append(p.hits, parseHit(h))
				return true
			})
		}
		return true
	})
}

// parseHit reads a hit in one pass.
func parseHit(h gjson.Result) hit {
	var out hit
	h.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "_id":
			out.id = v.Str
		case "_score":
			out.score = v.Num
		case "_source":
			out.source = v
		case "sort":
			out.sort = v
		}
		return true
	})
	return out
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

// readNeighbours reads the texts of the previous and the next chunk. Those of chunks that are no
// candidates are ignored.
func (a *arms) readNeighbours(p part) error {
	for _, h := range p.hits {
		if i, ok := a.index[h.id]; ok {
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
	if i, ok := a.index[h.id]; ok {
		return &a.found.Candidates[i], nil
	}
	c, base, vector, err := parseChunk(h.source)
	if err != nil || h.id == "" {
		return nil, fmt.Errorf("%w: chunk %.100q: %w", errAnswer, h.id, err)
	}
	if c.Base, err = a.baseOf(base); err != nil {
		return nil, err
	}
	if vector != "" && len(a.q.Vector) > 0 {
		if c.Cosine, err = cosineOf(a.q.Vector, vector); err != nil {
			return nil, fmt.Errorf("%w: chunk %.100q: %w", errAnswer, h.id, err)
		}
	}
	a.index[h.id] = len(a.found.Candidates)
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
func parseChunk(source gjson.Result) (c engine.Candidate, base, vector string, err error) {
	number := func(v gjson.Result) int {
		n := v.Int()
		if n < 0 || n > math.MaxInt32 {
			err = fmt.Errorf("%s is no count", v.Raw)
		}
		return int(n)
	}
	bytesOf := func(v gjson.Result) []byte {
		b, e := base64.StdEncoding.DecodeString(v.Str)
		if e != nil {
			err = e
		}
		return b
	}
	var content gjson.Result
	source.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "v":
			vector = v.Str
		case "c":
			content = v
		}
		return true
	})
	content.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "base":
			base = v.Str
		case "doc":
			c.Doc = v.Str
		case "ordinal":
			c.Ordinal = number(v)
		case "name":
			c.Name = v.Str
		case "section":
			c.Section = v.Str
		case "text":
			c.Text = v.Str
		case "attributes":
			c.Attributes = v.Str
		case "tokens":
			c.Tokens = v.Str
		case "sketch":
			c.Sketch = bytesOf(v)
		case "length":
			c.Length = number(v)
		case "packed":
			c.Packed = bytesOf(v)
		case "key":
			c.VectorKey = bytesOf(v)
		case "chunks":
			c.Chunks = number(v)
		case "lengths":
			c.AllLengths = int64(number(v))
		}
		return true
	})
	if c.Doc == "" && err == nil {
		err = fmt.Errorf("has no document")
	}
	return c, base, vector, err
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
	if !gjson.ValidBytes(answer) {
		return part{}, fmt.Errorf("%w: not JSON", errAnswer)
	}
	return parsePart(gjson.ParseBytes(answer))
}

// sortValues returns the sort values of a hit, for search_after.
func (h hit) sortValues() json.RawMessage { return json.RawMessage(h.sort.Raw) }
