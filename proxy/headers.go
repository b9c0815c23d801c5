package proxy

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/report"
	"sidenote/rewrite"
)

const (
	ownPrefix        = "sidenote-" // of the names of Sidenote's headers
	maxKnowledgeIDs  = 64
	maxContextTokens = 10_000_000
)

// Credential returns the API key that a request carries: Authorization's bearer
// token, api-key (Azure) or x-api-key; "" if there is none. It returns an *Error for
// keys that differ, as an upstream that reads another header than we do would see
// another caller. It also returns one for a header that stands twice and for a name
// with '_' for '-', which some servers take for the same header.
func Credential(h *fasthttp.RequestHeader) (string, error) {
	var key []byte
	names := [...]string{"authorization", "api-key", "x-api-key"}
	var seen [len(names)]bool
	for name, value := range h.All() {
		which := slices.IndexFunc(names[:], func(lower string) bool { return foldsTo(name, lower) })
		if which < 0 {
			continue
		}
		if seen[which] || bytes.ContainsRune(name, '_') {
			return "", &Error{Reason: report.ReasonCredentials, Param: string(name), Message: fmt.Sprintf("The header %s stands twice or is spelled with '_'; send your API key once.", name)}
		}
		seen[which] = true
		if which == 0 {
			if value = bearerToken(value); value == nil {
				continue // another scheme carries no API key
			}
		}
		value = bytes.TrimSpace(value)
		if key != nil && !bytes.Equal(key, value) {
			return "", &Error{Reason: report.ReasonCredentials, Param: string(name), Message: fmt.Sprintf("The key in %s differs from another one in this request; send one API key.", name)}
		}
		key = value
	}
	return string(key), nil
}

// bearerToken returns nil if the scheme is not Bearer.
func bearerToken(value []byte) []byte {
	scheme, token, _ := bytes.Cut(value, []byte(" "))
	if !bytes.EqualFold(scheme, []byte("bearer")) {
		return nil
	}
	return token
}

// foldsTo tells whether name equals lower, in any letter case and with '_' for '-'.
func foldsTo(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i, c := range name {
		if c == '_' {
			c = '-'
		}
		if c|0x20 != lower[i] { // '-' has the bit 0x20, so it stays
			return false
		}
	}
	return true
}

// HeaderOptions reads a request's options from its Sidenote-* headers. The error is a
// *rewrite.OptionError that names header and value. It is returned for an unknown
// header, one that stands twice, one with '_' for '-', and a value that is not valid.
func HeaderOptions(h *fasthttp.RequestHeader) (rewrite.Options, error) {
	return headerOptions(h, false)
}

// headerOptions is HeaderOptions; identified passes over Sidenote-Tenant, which has been
// judged then.
func headerOptions(h *fasthttp.RequestHeader, identified bool) (rewrite.Options, error) {
	var (
		o    rewrite.Options
		seen uint
	)
	for name, value := range h.All() {
		if !foldsTo(name[:min(len(name), len(ownPrefix))], ownPrefix) {
			continue
		}
		if identified && foldsTo(name, tenantHeaderName) {
			continue
		}
		header := string(name)
		which, set := optionHeader(header)
		switch {
		case set == nil:
			return o, &rewrite.OptionError{Param: header, Reason: "is no option; use Sidenote-Mode, Sidenote-Knowledge, Sidenote-Context-Tokens or Sidenote-Query"}
		case seen&which != 0:
			return o, &rewrite.OptionError{Param: header, Reason: "stands twice"}
		case len(bytes.TrimSpace(value)) == 0:
			return o, &rewrite.OptionError{Param: header, Reason: "is empty"}
		}
		seen |= which
		if err := set(&o, strings.TrimSpace(string(value))); err != nil {
			return o, &rewrite.OptionError{Param: header, Reason: err.Error()}
		}
	}
	return o, nil
}

// optionHeader returns the setter of the option that a header carries, nil if it is
// none, and a bit of its own for each option.
func optionHeader(name string) (which uint, set func(*rewrite.Options, string) error) {
	switch strings.ToLower(name) {
	case "sidenote-mode":
		return 1, setMode
	case "sidenote-knowledge":
		return 2, setKnowledge
	case "sidenote-context-tokens":
		return 4, setContextTokens
	case "sidenote-query":
		return 8, setQuery
	}
	return 0, nil
}

func setMode(o *rewrite.Options, value string) error {
	m, err := rewrite.ParseMode(value)
	o.Mode = &m
	return err
}

func setKnowledge(o *rewrite.Options, value string) error {
	o.Knowledge = strings.Split(value, ",")
	for i, id := range o.Knowledge {
		if id = strings.TrimSpace(id); !rewrite.ValidName(id) {
			return fmt.Errorf("%q is not the id of a knowledge base", id)
		}
		o.Knowledge[i] = id
	}
	if len(o.Knowledge) > maxKnowledgeIDs {
		return fmt.Errorf("%d knowledge bases; at most %d", len(o.Knowledge), maxKnowledgeIDs)
	}
	return nil
}

func setContextTokens(o *rewrite.Options, value string) error {
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil || n > maxContextTokens {
		return fmt.Errorf("%q is not a number of tokens from 0 to %d", value, maxContextTokens)
	}
	tokens := int(n)
	o.ContextTokens = &tokens
	return nil
}

func setQuery(o *rewrite.Options, value string) error {
	if !utf8.ValidString(value) {
		return fmt.Errorf("%q is not UTF-8; the body field sidenote.query takes any text", value)
	}
	o.Query = value
	return nil
}

// MergeOptions joins the options of a request's headers with those of its body field.
// If both set a limit, the narrower one counts: the lower mode, fewer tokens, the bases
// that both name. Of two queries the body's counts, as it is closer to the question.
func MergeOptions(header, body rewrite.Options) rewrite.Options {
	o := body
	o.Mode = lower(header.Mode, body.Mode)
	o.ContextTokens = lower(header.ContextTokens, body.ContextTokens)
	switch {
	case o.Knowledge == nil:
		o.Knowledge = header.Knowledge
	case header.Knowledge != nil:
		both := make([]string, 0, len(o.Knowledge))
		for _, id := range o.Knowledge {
			if slices.Contains(header.Knowledge, id) {
				both = append(both, id)
			}
		}
		o.Knowledge = both
	}
	if o.Query == "" {
		o.Query = header.Query
	}
	return o
}

// lower returns the lower of two limits; nil is no limit.
func lower[T cmp.Ordered](a, b *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	least := min(*a, *b)
	return &least
}
