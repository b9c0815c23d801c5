package engine

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/index/bm25"
)

const (
	// mostVocabulary is how many terms are stored with what was measured: the most frequent ones that
	// are words. They find what a misspelled word stands for, and compounds.
	mostVocabulary = 200_000
	// mostMeasured limits what is read, in bytes after decompression.
	mostMeasured = 64 << 20
)

// measured is what was measured of a base, and is stored in its engine for all sidecars.
type measured struct {
	knowledge.Measures
	version string
	step    string            // see stepOf
	drawn   []bm25.CorpusTerm // while it is measured: all terms, sorted by text
	terms   []bm25.CorpusTerm // words, sorted by text
	whole   bool              // terms are all words of the base
	own     *knowledge.Vocabulary

	// Of a sample, see mapped.go: terms are those of the sample, which has so many texts with such
	// totals.
	sampled           int
	lengths, distinct uint64
	generation        string
	at                time.Time
}

// A storedMeasured is the stored form, compressed with gzip.
type storedMeasured struct {
	Measures knowledge.Measures `json:"measures"`
	Step     string             `json:"step"`
	Whole    bool               `json:"whole"`
	Terms    []string           `json:"terms"` // sorted
	Texts    []int              `json:"texts"` // by term: chunks that contain it
}

// encode returns the stored form.
func (m *measured) encode() ([]byte, error) {
	s := storedMeasured{Measures: m.Measures, Step: m.step, Whole: m.whole}
	for _, t := range m.terms {
		s.Terms, s.Texts = append(s.Terms, t.Text), append(s.Texts, t.Texts)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if err := json.NewEncoder(w).Encode(s); err != nil {
		return nil, fmt.Errorf("encode measures: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encode measures: %w", err)
	}
	return b.Bytes(), nil
}

// decodeMeasured decodes the stored form, which is untrusted.
func decodeMeasured(version string, stored []byte, of *State) (*measured, error) {
	r, err := gzip.NewReader(bytes.NewReader(stored))
	if err != nil {
		return nil, fmt.Errorf("what was measured is damaged: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r, mostMeasured))
	if err != nil {
		return nil, fmt.Errorf("what was measured is damaged: %w", err)
	}
	var s storedMeasured
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("what was measured is damaged: %w", err)
	}
	if len(s.Terms) != len(s.Texts) || len(s.Terms) > mostVocabulary {
		return nil, errors.New("what was measured is damaged: the numbers of terms differ")
	}
	m := &measured{Measures: s.Measures, version: version, step: s.Step, whole: s.Whole}
	for i, term := range s.Terms {
		if i > 0 && term <= s.Terms[i-1] || s.Texts[i] < 1 {
			return nil, fmt.Errorf("what was measured is damaged at term %q", term)
		}
		m.terms = append(m.terms, bm25.CorpusTerm{Text: term, Texts: s.Texts[i], Total: uint64(s.Texts[i])}) //nolint:gosec // checked
	}
	m.own = knowledge.NewVocabulary(corpusOf(*of), m.terms, m.whole)
	return m, nil
}

// corpusOf returns the statistics of bases together.
func corpusOf(states ...State) (c bm25.Corpus) {
	for _, s := range states {
		c.Texts, c.Lengths, c.Terms = c.Texts+max(0, s.Chunks), c.Lengths+s.Length, c.Terms+s.Distinct
	}
	return c
}

// keptVocabularies is the number of combinations of bases whose vocabularies are kept.
const keptVocabularies = 8

// joinedVocabularies keeps the vocabularies of several bases together.
type joinedVocabularies struct {
	mu   sync.Mutex
	kept map[string]*knowledge.Vocabulary
}

// vocabulary returns the words of bases together; nil if nothing was measured of one of them.
func (e *Engine) vocabulary(bases []baseState) *knowledge.Vocabulary {
	versions := make([]string, len(bases))
	for i := range bases {
		if bases[i].measured == nil {
			return nil
		}
		versions[i] = bases[i].Base + " " + bases[i].measured.version
	}
	if len(bases) == 1 {
		return bases[0].measured.own
	}
	key, j := strings.Join(versions, ","), &e.joined
	j.mu.Lock()
	defer j.mu.Unlock()
	if v := j.kept[key]; v != nil {
		return v
	}
	if j.kept == nil || len(j.kept) >= keptVocabularies {
		j.kept = map[string]*knowledge.Vocabulary{}
	}
	v := joinVocabularies(bases)
	j.kept[key] = v
	return v
}

func joinVocabularies(bases []baseState) *knowledge.Vocabulary {
	var all []bm25.CorpusTerm
	var states []State
	whole := true
	for i := range bases {
		all = append(all, bases[i].measured.terms...)
		states, whole = append(states, bases[i].State), whole && bases[i].measured.whole
	}
	slices.SortFunc(all, func(a, b bm25.CorpusTerm) int { return cmp.Compare(a.Text, b.Text) })
	joined := all[:0]
	for _, t := range all {
		if n := len(joined); n > 0 && joined[n-1].Text == t.Text {
			joined[n-1].Texts, joined[n-1].Total = joined[n-1].Texts+t.Texts, joined[n-1].Total+t.Total
			continue
		}
		joined = append(joined, t)
	}
	return knowledge.NewVocabulary(corpusOf(states...), joined, whole)
}
