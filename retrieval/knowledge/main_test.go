package knowledge_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/knowledgetest"
)

func TestMain(m *testing.M) {
	knowledgetest.ShortChecks(8)
	goleak.VerifyTestMain(m)
}

func deps() knowledge.Deps {
	return knowledge.Deps{Counter: knowledgetest.FourBytes{}, Version: "test", Neutralise: func(_, s string) string { return strings.ReplaceAll(s, "<", "(") }}
}
