package services

import (
	"slices"
	"strings"
	"unicode"
)

// EmbedTraits are properties of an embedding model: the prefixes of its inputs, and its limit of
// input tokens.
type EmbedTraits struct {
	Query, Passage string
	InputTokens    int
}

// Query prefixes of several models.
const (
	representEnglish = "Represent this sentence for searching relevant passages: "
	representChinese = "为这个句子生成表示以用于检索相关文章："
	instructQuery    = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "
)

// unknownTokens is the limit for models not in the table: most accept at least 512, and few chunks
// are longer.
const unknownTokens = 512

// A row holds the traits of models whose names contain all words.
type row struct {
	words string
	EmbedTraits
}

// models returns the data of the model cards; the first matching row counts. Sources: the cards on
// huggingface.co of intfloat, BAAI, nomic-ai, mixedbread-ai, Snowflake, google, Qwen,
// sentence-transformers, thenlper and jinaai; OpenAI's and Mistral's guides to embeddings.
func models() []row {
	return []row{
		{"e5 mistral", EmbedTraits{Query: instructQuery, InputTokens: 4096}},
		{"e5 instruct", EmbedTraits{Query: instructQuery, InputTokens: 512}},
		{"e5", EmbedTraits{Query: "query: ", Passage: "passage: ", InputTokens: 512}},
		{"bge m3", EmbedTraits{InputTokens: 8192}},
		{"bge zh", EmbedTraits{Query: representChinese, InputTokens: 512}},
		{"bge", EmbedTraits{Query: representEnglish, InputTokens: 512}},
		{"nomic", EmbedTraits{Query: "search_query: ", Passage: "search_document: ", InputTokens: 2048}},
		{"mxbai", EmbedTraits{Query: representEnglish, InputTokens: 512}},
		{"arctic embed2", EmbedTraits{Query: "query: ", InputTokens: 8192}},
		{"arctic v2", EmbedTraits{Query: "query: ", InputTokens: 8192}},
		{"arctic", EmbedTraits{Query: representEnglish, InputTokens: 512}},
		{"embeddinggemma", EmbedTraits{Query: "task: search result | query: ", Passage: "title: none | text: ", InputTokens: 2048}},
		{"qwen3", EmbedTraits{Query: instructQuery, InputTokens: 8192}},
		{"minilm", EmbedTraits{InputTokens: 256}},
		{"mpnet", EmbedTraits{InputTokens: 384}},
		{"gte", EmbedTraits{InputTokens: 512}},
		{"jina", EmbedTraits{InputTokens: 8192}},
		{"mistral embed", EmbedTraits{InputTokens: 8192}},
		{"text embedding", EmbedTraits{InputTokens: 8191}}, // OpenAI; LM Studio names all models so
	}
}

// EmbedTraitsOf returns the traits of a model by its name, with or without a vendor prefix.
func EmbedTraitsOf(model string) EmbedTraits {
	words := strings.FieldsFunc(strings.ToLower(model), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, m := range models() {
		if !slices.ContainsFunc(strings.Fields(m.words), func(w string) bool { return !slices.Contains(words, w) }) {
			return m.EmbedTraits
		}
	}
	return EmbedTraits{InputTokens: unknownTokens}
}
