package services

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"sidenote/retrieval"
)

// maxListed is the maximum number of queries in an answer: a longer one ignores the instructions,
// and none of it is used.
const maxListed = 20

var (
	planFence = regexp.MustCompile("(?s)```[a-zA-Z]*[ \t]*\r?\n(.*?)```")
	item      = regexp.MustCompile(`^\s*(?:[-*•]|\d{1,2}[.)])\s+(.*?)\s*$`)
)

// ReadPlan decodes the plan in an answer: a JSON object, bare or in a code fence, or a list with
// one item per line. For anything else, such as prose, the error wraps retrieval.ErrBadPlan.
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

// ofJSON decodes an object, or a list of strings; false if text is neither.
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

// stringsOf returns the strings of a JSON list, or a single string; nil for anything else.
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

// ofList returns the items of a list with bullets or numbers, after an optional introductory line.
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

// written returns the queries that are not blank.
func written(queries []string) (kept []string) {
	for _, q := range queries {
		if strings.TrimSpace(q) != "" {
			kept = append(kept, q)
		}
	}
	return kept
}
