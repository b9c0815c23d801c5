package services

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"

	"sidenote/retrieval"
)

func unusable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", retrieval.ErrBadVectors, fmt.Errorf(format, args...))
}

// A noVectorsError is an answer of status 200 without vectors. It says nothing about the inputs: a
// quota may be exhausted, or a model still loading.
type noVectorsError struct{ what string }

func (e *noVectorsError) Error() string { return e.what }

// decode decodes an answer of n vectors and puts them into the order of their inputs. tokens is
// the usage reported by the service, 0 if there is none. No error quotes key.
func decode(text []byte, n int, key string) (vectors [][]float32, tokens int, err error) {
	var answer struct {
		Data []struct {
			Index     *int            `json:"index"`
			Embedding json.RawMessage `json:"embedding"`
		} `json:"data"`
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
			TotalTokens  int `json:"total_tokens"`
		} `json:"usage"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, 0, unusable("it is no list of vectors")
	}
	tokens = max(answer.Usage.PromptTokens, answer.Usage.TotalTokens)
	switch {
	case answer.Data == nil && len(answer.Error) > 0 && string(answer.Error) != "null":
		return nil, tokens, unusable("%w", &noVectorsError{fmt.Sprintf("it is an error%s, with status 200", codeOf(answer.Error, key))})
	case answer.Data == nil:
		return nil, tokens, unusable("%w", &noVectorsError{"it has no data"})
	case len(answer.Data) != n:
		return nil, tokens, unusable("%d vectors for %d inputs", len(answer.Data), n)
	}
	vectors = make([][]float32, n)
	for place, d := range answer.Data {
		switch {
		case d.Index == nil:
			return nil, tokens, unusable("data[%d] has no index", place)
		case *d.Index < 0 || *d.Index >= n:
			return nil, tokens, unusable("index %d of %d inputs", *d.Index, n)
		case vectors[*d.Index] != nil:
			return nil, tokens, unusable("index %d comes twice", *d.Index)
		}
		if vectors[*d.Index], err = decodeVector(d.Embedding); err != nil {
			return nil, tokens, unusable("vector %d: %w", *d.Index, err)
		}
	}
	return vectors, tokens, nil
}

var codes = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// codeOf returns the code of an error for messages. Its message is left out: it is untrusted and
// may quote the key.
func codeOf(text json.RawMessage, key string) string {
	var e struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal(text, &e); err != nil || !codes.MatchString(e.Code) || quotes(e.Code, key) {
		return ""
	}
	return " (" + e.Code + ")"
}

// decodeVector decodes a vector: base64 of little-endian float32s, or a list of numbers.
func decodeVector(text json.RawMessage) (v []float32, err error) {
	var packed string
	switch {
	case len(text) > 0 && text[0] == '"' && json.Unmarshal(text, &packed) == nil:
		raw, err := base64.StdEncoding.DecodeString(packed)
		if err != nil || len(raw)%4 != 0 {
			return nil, errors.New("it is no base64 of float32s")
		}
		v = make([]float32, len(raw)/4)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	case len(text) > 0 && text[0] == '[' && !bytes.Contains(text, []byte("null")): // null would decode as 0
		if err := json.Unmarshal(text, &v); err != nil {
			return nil, errors.New("it is no list of float32s")
		}
	default:
		return nil, errors.New("it is neither a list of numbers nor base64")
	}
	return v, checkVector(v)
}

// checkVector returns an error for a vector that has no direction.
func checkVector(v []float32) error {
	square := 0.0
	for i, x := range v {
		f := float64(x)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("number %d of %d is %v", i, len(v), f)
		}
		square += f * f
	}
	if square == 0 {
		return fmt.Errorf("all of its %d numbers are 0", len(v))
	}
	return nil
}
