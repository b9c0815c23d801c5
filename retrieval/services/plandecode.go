package services

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"sidenote/retrieval"
)

// maxListed is how many queries an answer may have: one with more was not written to the
// instructions, and none of it is used.
const maxListed = 20

var (
	planFence = regexp.MustCompile("(?s)```[a-zA-Z]*[ \t]*\r?\n(.*?)```")
	item      = regexp.MustCompile(`^\s*(?:[-*•]|\d{1,2}[.)])\s+(.*?)\s*$`)
)

// ReadPlan returns the plan that an answer holds: a JSON object, one in a fence, or a list with a
// line an item. All else, such as prose, is an error that wraps retrieval.ErrBadPlan.
func ReadPlan(answer string) (retrieval.Plan, error) {
	answer = WithoutThinking(answer)
	if _, after, thought := strings.Cut(answer, "</think>"); thought {
		answer = after
	}
	answer = strings.TrimSpace(strings.TrimPrefix(answer, "\ufeff"))
	if m := planFence.FindStringSubmatch(answer); m != nil {
		answer = strings.TrimSpace(m[1])
	}
	plan, ok := ofJSON(answer)
	if !ok {
		plan.Queries = ofList(answer)
	}
	switch n := len(plan.Queries); {
	case plan.Skip:
		return retrieval.Plan{Skip: true}, nil
	case n == 0:
		return retrieval.Plan{}, fmt.Errorf("%w: it has no queries", retrieval.ErrBadPlan)
	case n > maxListed:
		return retrieval.Plan{}, fmt.Errorf("%w: it has %d queries", retrieval.ErrBadPlan, n)
	}
	return plan, nil
}

// ofJSON reads an object, or a list of strings; false where the text is neither.
func ofJSON(text string) (plan retrieval.Plan, ok bool) {
	if strings.HasPrefix(text, "[") {
		plan.Queries = stringsOf(json.RawMessage(text))
		return plan, plan.Queries != nil
	}
	var object map[string]json.RawMessage
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &object) != nil {
		return plan, false
	}
	plan.Skip = strings.TrimSpace(string(object["needs_retrieval"])) == "false"
	plan.Queries = stringsOf(object["queries"])
	return plan, true
}

// stringsOf returns the texts of a list of JSON, or a single one; nothing where anything else
// stands there.
func stringsOf(raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return written([]string{one})
	}
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return written(list)
}

// ofList reads lines that each begin with a mark or a number, after one that may introduce them.
func ofList(text string) (queries []string) {
	for i, line := range strings.Split(text, "\n") {
		m := item.FindStringSubmatch(line)
		switch {
		case m != nil:
			queries = append(queries, strings.Trim(m[1], "\"“”`'"))
		case strings.TrimSpace(line) == "", i == 0 && strings.HasSuffix(strings.TrimSpace(line), ":"):
		default:
			return nil // prose
		}
	}
	return written(queries)
}

// written leaves out blanks.
func written(queries []string) (kept []string) {
	for _, q := range queries {
		if strings.TrimSpace(q) != "" {
			kept = append(kept, q)
		}
	}
	return kept
}
