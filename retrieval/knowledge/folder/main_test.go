package folder_test

import (
	"strings"

	"sidenote/retrieval/knowledge"
)

// fourBytes counts a token for every four bytes: about right for English.
type fourBytes struct{}

func (fourBytes) Count(text string) (n int, exact bool) { return (len(text) + 3) / 4, false }

func deps() knowledge.Deps {
	return knowledge.Deps{Counter: fourBytes{}, Version: "test", Neutralise: func(_, s string) string { return strings.ReplaceAll(s, "<", "(") }}
}
