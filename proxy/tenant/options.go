package tenant

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"sidenote/rewrite"
)

const (
	maxKnowledgeIDs  = 64
	maxContextTokens = 10_000_000
)

// OptionOfHeader returns the function that sets the option of a header, nil if the header is not
// an option, and a distinct bit for each option.
func OptionOfHeader(name string) (which uint, set func(*rewrite.Options, string) error) {
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
	ids := strings.Split(value, ",")
	for i, id := range ids {
		if id = strings.TrimSpace(id); !rewrite.ValidName(id) {
			return fmt.Errorf("%q is not the id of a knowledge base", id)
		}
		ids[i] = id
	}
	if len(ids) > maxKnowledgeIDs {
		return fmt.Errorf("%d knowledge bases; at most %d", len(ids), maxKnowledgeIDs)
	}
	rewrite.NameBases(o, "Sidenote-Knowledge", ids)
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
