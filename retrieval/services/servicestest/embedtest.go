// Package servicestest is a fake embedding service for tests: POST /v1/embeddings with vectors
// that depend only on the words of a text.
package servicestest

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"unicode"
)

// Dimensions is the length of vectors unless a request asks for another.
const Dimensions = 64

// Vector returns the vector of a text: the sum of a direction for each word, so that texts are
// more similar the more words they share.
func Vector(text string, dimensions int) []float32 {
	v := make([]float32, dimensions)
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		h := fnv.New64a()
		_, _ = h.Write([]byte(word)) // never fails
		r := rand.New(rand.NewPCG(h.Sum64(), 1))
		for i := range v {
			v[i] += float32(r.NormFloat64())
		}
	}
	if len(v) > 0 && v[0] == 0 {
		v[0] = 1 // a text without words
	}
	return v
}

// A Request is a request to the service.
type Request struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Encoding   string   `json:"encoding_format"`
	Dimensions int      `json:"dimensions"`

	Key string `json:"-"` // bearer token
}

// A Datum is the vector of one input in an Answer.
type Datum struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"`
}

// An Answer is the answer of the service.
type Answer struct {
	Object string  `json:"object"`
	Data   []Datum `json:"data"`
	Model  string  `json:"model"`
	Usage  struct {
		PromptTokens int `json:"prompt_tokens"`
		TotalTokens  int `json:"total_tokens"`
	} `json:"usage"`
}

// AnswerTo returns the correct answer to a request. A word counts as a token.
func AnswerTo(r Request) Answer {
	a := Answer{Object: "list", Model: r.Model}
	n := r.Dimensions
	if n == 0 {
		n = Dimensions
	}
	for i, text := range r.Input {
		d := Datum{Object: "embedding", Index: i}
		if v := Vector(text, n); r.Encoding == "base64" {
			d.Embedding = Packed(v)
		} else {
			d.Embedding = v
		}
		a.Data = append(a.Data, d)
		a.Usage.PromptTokens += len(strings.Fields(text))
	}
	a.Usage.TotalTokens = a.Usage.PromptTokens
	return a
}

// Packed returns a vector in base64.
func Packed(v []float32) string {
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// A Fault answers a request in place of the service.
type Fault func(w http.ResponseWriter, r Request)

// A Service is the service as an http.Handler.
type Service struct {
	URL string // base URL, including /v1; "" if it does not listen

	mu    sync.Mutex
	asked []Request
	fault func(n int, r Request) Fault
}

// New returns a Service that does not listen.
func New() *Service { return &Service{} }

// Start starts a Service that stops when the test ends.
func Start(t testing.TB) *Service {
	t.Helper()
	s := New()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL + "/v1"
	return s
}

// Break makes the Service answer requests with the Fault that fault returns, or correctly if it
// returns nil. n counts the requests from this call on, starting at 1.
func (s *Service) Break(fault func(n int, r Request) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.asked = fault, nil
}

// Asked returns the requests since the start or the last Break.
func (s *Service) Asked() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request{}, s.asked...)
}

// Inputs returns the inputs of the requests that Asked returns, in order.
func (s *Service) Inputs() (inputs []string) {
	for _, r := range s.Asked() {
		inputs = append(inputs, r.Input...)
	}
	return inputs
}

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path != "/v1/embeddings" || req.Method != http.MethodPost {
		http.NotFound(w, req)
		return
	}
	r := Request{Key: strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")}
	if err := json.NewDecoder(req.Body).Decode(&r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, r)
	n, fault := len(s.asked), s.fault
	s.mu.Unlock()
	if fault != nil {
		if answer := fault(n, r); answer != nil {
			answer(w, r)
			return
		}
	}
	Write(w, AnswerTo(r))
}

// Write writes an answer.
func Write(w http.ResponseWriter, a Answer) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a)
}

// Status returns a Fault that answers with an error. after is its Retry-After header, "" for none.
func Status(code int, after string) Fault {
	return func(w http.ResponseWriter, _ Request) {
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(`{"error": {"message": "no", "code": "stub_error"}}`))
	}
}
