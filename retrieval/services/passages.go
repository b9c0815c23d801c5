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
	// maxAttempts limits the attempts of a request for passages. The pauses between them are the
	// service's Retry-After, or grow from firstPause to maxPause.
	maxAttempts = 5
	firstPause  = time.Second
	maxPause    = 30 * time.Second

	// maxTimeouts limits the attempts that time out, since they take long.
	maxTimeouts = 2

	// maxHalvings limits how often a refused input, which may be too long for the service, is
	// halved; shorter inputs are not.
	maxHalvings = 2
	shortInput  = 512 // bytes

	// maxUseless is the number of refused inputs in a row after which the service is at fault.
	maxUseless = 2
)

// Passages is the outcome of embedding passages.
type Passages struct {
	Vectors   [][]float32 // by passage; nil if the service refuses it
	Refused   int         // number of refused passages
	Retryable []bool      // by passage; refused, but may work another time
	Why       error       // error of the last refused passage
	Tokens    int         // used
}

// Passages embeds passages that fit into one request, see Fit. Failed requests are retried within
// limits. If the service refuses a request, Passages finds out which passages it refuses; if it
// refuses all, that is an error. The Tokens of a failed call are valid, too.
func (c *Embedder) Passages(ctx context.Context, passages []string) (Passages, error) {
	b := batch{Embedder: c, Passages: Passages{Vectors: make([][]float32, len(passages)), Retryable: make([]bool, len(passages))}}
	if err := b.fill(ctx, c.inputs(Passage, passages), b.Vectors, b.Retryable); err != nil {
		return b.Passages, fmt.Errorf("embed passages: %w", err)
	}
	if b.Refused == len(passages) && b.Refused > 0 {
		return b.Passages, fmt.Errorf("embed passages: %w", b.Why)
	}
	return b.Passages, nil
}

// Fit returns how many of the first passages fit into one request, and their approximate token
// count.
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

// PassageTokens returns the approximate token count of a passage as it is sent.
func (c *Embedder) PassageTokens(passage string) int {
	return c.count(c.inputs(Passage, []string{passage}))
}

// A batch is one call of Passages.
type batch struct {
	*Embedder
	Passages
	useless int // refused inputs since the last accepted one
}

// fill embeds inputs. If they are refused together, it tries both halves.
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
		return err // none was accepted
	}
	return nil
}

// insist retries a request until it is answered, refused, or has failed too often.
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
				b.Expect(len(v)) // not done for questions, which passages need not match yet
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

// passing reports whether a request that failed with err may work the next time.
func passing(err error) bool {
	switch resultOf(err) {
	case EmbedTimeout, EmbedLimited, EmbedFailed:
		return true
	}
	return false
}

// pauseAfter returns the pause before the next attempt, with jitter so that replicas get out of
// step.
func pauseAfter(err error, attempt int) time.Duration {
	var status *StatusError
	if errors.As(err, &status) && status.RetryAfter > 0 {
		return status.RetryAfter
	}
	wait := min(firstPause<<(attempt-1), maxPause)
	return wait/2 + rand.N(wait/2)
}

// ofInputs reports whether an error may concern one of the inputs rather than the service.
func ofInputs(err error) bool {
	var other *DimensionError
	return tooLong(err) || errors.Is(err, retrieval.ErrBadVectors) && !errors.As(err, &other)
}

// tooLong reports whether an error may say that an input is too long.
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

// inputs returns texts as they are sent: with the prefix, and cut to the token limit.
func (c *Embedder) inputs(use Use, texts []string) []string {
	limit := cmp.Or(c.options.InputTokens, c.traits.InputTokens)
	inputs := make([]string, len(texts))
	for i, text := range texts {
		inputs[i] = c.cut(c.prefixes[use]+text, limit)
	}
	return inputs
}

// cut returns the beginning of text with at most limit tokens, less a tenth in case the Counter is
// not the model's own.
func (c *Embedder) cut(text string, limit int) string {
	if len(text) <= limit {
		return text // a token has at least one byte
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

// upTo returns at most n bytes of text, cut at a rune boundary.
func upTo(text string, n int) string {
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
