package services

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
	"unicode/utf8"

	"sidenote/retrieval"
)

const (
	// maxAttempts is how often a request for passages is sent that fails; the pauses between are
	// what the service asks for, or grow from firstPause to maxPause.
	maxAttempts = 5
	firstPause  = time.Second
	maxPause    = 30 * time.Second

	// maxTimeouts is how often for a request that is not answered in time, which takes long.
	maxTimeouts = 2

	// An input that is refused may be too long for the service: it is halved so often, unless it
	// is short.
	maxHalvings = 2
	shortInput  = 512 // bytes

	// maxUseless is how many inputs in a row a service may refuse before the fault is not theirs.
	maxUseless = 2
)

// Passages are what became of some passages.
type Passages struct {
	Vectors [][]float32 // by passage; nil of those that the service does not take
	Refused int         // how many those are
	Later   []bool      // by passage; of those that it may take another time
	Why     error       // of the last of them
	Tokens  int         // that were used
}

// Passages returns the vectors of passages that fit into one request, see Fit. What fails is sent
// again within bounds. Where passages are refused, it finds out which; if all of them are, that
// is an error. What an error leaves has used its tokens all the same.
func (c *Embedder) Passages(ctx context.Context, passages []string) (Passages, error) {
	b := batch{Embedder: c, Passages: Passages{Vectors: make([][]float32, len(passages)), Later: make([]bool, len(passages))}}
	if err := b.fill(ctx, c.inputs(Passage, passages), b.Vectors, b.Later); err != nil {
		return b.Passages, fmt.Errorf("embed passages: %w", err)
	}
	if b.Refused == len(passages) && b.Refused > 0 {
		return b.Passages, fmt.Errorf("embed passages: %w", b.Why)
	}
	return b.Passages, nil
}

// Fit returns how many of some passages fit into one request, and how many tokens those have,
// about.
func (c *Embedder) Fit(passages []string) (n, tokens int) {
	for _, text := range c.inputs(Passage, passages[:min(len(passages), c.options.Batch)]) {
		one := c.count([]string{text})
		if n > 0 && tokens+one > batchTokens {
			break
		}
		n, tokens = n+1, tokens+one
	}
	return n, tokens
}

// PassageTokens is how many tokens a passage has as it is sent, about.
func (c *Embedder) PassageTokens(passage string) int {
	return c.count(c.inputs(Passage, []string{passage}))
}

// A batch is one call of Passages.
type batch struct {
	*Embedder
	Passages
	useless int // inputs that were refused since the last that was not
}

// fill finds the vectors of inputs. Where they are refused together, it tries the halves.
func (b *batch) fill(ctx context.Context, inputs []string, to [][]float32, later []bool) error {
	vectors, err := b.insist(ctx, inputs)
	switch {
	case err == nil:
		b.useless = 0
		copy(to, vectors)
		return nil
	case !ofInputs(err):
		return err
	case len(inputs) > 1:
		half := len(inputs) / 2
		if err := b.fill(ctx, inputs[:half], to[:half], later[:half]); err != nil {
			return err
		}
		return b.fill(ctx, inputs[half:], to[half:], later[half:])
	}
	for text, n := inputs[0], 0; tooLong(err) && len(text) > shortInput && n < maxHalvings; n++ {
		text = upTo(text, len(text)/2)
		if vectors, err = b.insist(ctx, []string{text}); err == nil {
			b.useless = 0
			copy(to, vectors)
			return nil
		}
	}
	if !ofInputs(err) {
		return err
	}
	b.Refused, b.Why = b.Refused+1, err
	later[0] = errors.As(err, new(*noVectorsError))
	if b.useless++; b.useless >= maxUseless && b.useless == b.Refused {
		return err // not one was taken
	}
	return nil
}

// insist sends a request until it is answered, or refused, or has failed too often.
func (b *batch) insist(ctx context.Context, inputs []string) ([][]float32, error) {
	for attempt := 1; ; attempt++ {
		one, cancel := context.WithTimeout(ctx, passageTimeout)
		vectors, tokens, err := b.ask(one, b.remote.Ask, inputs)
		cancel()
		b.Tokens += tokens
		b.note(Passage, tokens, err)
		switch {
		case err == nil:
			for _, v := range vectors {
				b.Expect(len(v)) // unlike questions, which no vector is compared with that comes later
			}
			return vectors, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case attempt == maxAttempts || !passing(err), attempt == maxTimeouts && resultOf(err) == EmbedTimeout:
			return nil, err
		}
		if err := b.pause(ctx, pauseAfter(err, attempt)); err != nil {
			return nil, err
		}
	}
}

// passing tells whether a request may work the next time that ended with err.
func passing(err error) bool {
	switch resultOf(err) {
	case EmbedTimeout, EmbedLimited, EmbedFailed:
		return true
	}
	return false
}

// pauseAfter is how long to wait before another attempt. Replicas must not come back in step.
func pauseAfter(err error, attempt int) time.Duration {
	var status *StatusError
	if errors.As(err, &status) && status.RetryAfter > 0 {
		return status.RetryAfter
	}
	wait := min(firstPause<<(attempt-1), maxPause)
	return wait/2 + rand.N(wait/2)
}

// ofInputs tells whether an error may be about one of the inputs, and not about all of them.
func ofInputs(err error) bool {
	var other *DimensionError
	return tooLong(err) || errors.Is(err, retrieval.ErrBadVectors) && !errors.As(err, &other)
}

// tooLong tells whether an error may say that an input is too long.
func tooLong(err error) bool {
	var status *StatusError
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// inputs are texts as they are sent: with the prefix, and no longer than the model reads.
func (c *Embedder) inputs(use Use, texts []string) []string {
	limit := cmp.Or(c.options.InputTokens, c.traits.InputTokens)
	inputs := make([]string, len(texts))
	for i, text := range texts {
		inputs[i] = c.cut(c.prefixes[use]+text, limit)
	}
	return inputs
}

// cut returns as much of a text as has limit tokens. A count that is not the model's own is
// taken for a tenth too low.
func (c *Embedder) cut(text string, limit int) string {
	if len(text) <= limit {
		return text // no token is shorter than a byte
	}
	fits := func(end int) bool {
		n, _ := c.options.Counter.Count(text[:end])
		return n <= limit-limit/10
	}
	if fits(len(text)) {
		return text
	}
	low, high := 0, len(text)
	for high-low > 1 {
		middle := len(upTo(text[:high], (low+high)/2))
		if middle <= low {
			break
		}
		if fits(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return text[:low]
}

// upTo returns the beginning of a text of n bytes at most that is UTF-8 like all of it.
func upTo(text string, n int) string {
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
