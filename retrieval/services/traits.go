package services

import (
	"slices"
	"strings"
	"unicode"
)

// EmbedTraits are what a model was trained with: what stands before its inputs, and how many of their
// tokens it reads.
type EmbedTraits struct {
	Query, Passage string
	InputTokens    int
}

// What stands before the questions of several models.
const (
	representEnglish = "Represent this sentence for searching relevant passages: "
	representChinese = "为这个句子生成表示以用于检索相关文章："
	instructQuery    = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "
)

// unknownTokens is the limit for models that are not in the table: most read 512 at least, and
// few chunks are longer.
const unknownTokens = 512

// A row has the traits of the models whose names have all of its words.
type row struct {
	words string
	EmbedTraits
}

// models are what the cards of models say; the first row that fits counts. Sources: the cards on
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
		{"text embedding", EmbedTraits{InputTokens: 8191}}, // OpenAI's; LM Studio calls all models so
	}
}

// EmbedTraitsOf returns the traits of a model by its name, with or without its vendor before it.
func EmbedTraitsOf(model string) EmbedTraits {
	words := strings.FieldsFunc(strings.ToLower(model), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, m := range models() {
		if !slices.ContainsFunc(strings.Fields(m.words), func(w string) bool { return !slices.Contains(words, w) }) {
			return m.EmbedTraits
		}
	}
	return EmbedTraits{InputTokens: unknownTokens}
}
