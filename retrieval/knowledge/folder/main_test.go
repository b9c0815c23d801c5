package folder_test

import (
	"strings"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/knowledgetest"
)

func deps() knowledge.Deps {
	return knowledge.Deps{Counter: knowledgetest.FourBytes{}, Version: "test", Neutralise: func(_, s string) string { return strings.ReplaceAll(s, "<", "(") }}
}
