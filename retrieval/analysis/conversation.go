package analysis

import (
	_ "embed"
	"strings"
	"sync"
	"unicode/utf8"
)

//go:embed conversation.txt
var conversationWords string

// conversation returns the terms of conversation.txt.
var conversation = sync.OnceValue(func() map[string]struct{} {
	terms := map[string]struct{}{}
	for line := range strings.Lines(conversationWords) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, t := range Terms(line) {
			terms[t] = struct{}{}
		}
	}
	return terms
})

// Conversational reports whether a term belongs to a word that people say to an assistant on any
// topic, as in "how do I fix this" or "tell me a joke", or is a number below 100. Such a term is
// searched like any other, but does not make a text an answer.
func Conversational(term string) bool {
	if len(term) <= 2 && strings.Trim(term, "0123456789") == "" {
		return true
	}
	_, ok := conversation()[term]
	return ok
}

const (
	// pairTopicality is the weight of a pair of characters compared to a word: in scripts without
	// spaces a word of three characters is two pairs.
	pairTopicality = 0.5
	// conversationTopicality is the weight of a conversational term.
	conversationTopicality = 0.25
)

// Topicality returns how much a term says about the topic of a text: 1 for a word, less for a pair
// of characters and for a conversational term; and whether it is Conversational.
func Topicality(term string) (topic float64, conversational bool) {
	topic = 1
	if r, _ := utf8.DecodeRuneInString(term); classOf(r) == spaceless {
		topic = pairTopicality
	}
	if conversational = Conversational(term); conversational {
		topic *= conversationTopicality
	}
	return topic, conversational
}
