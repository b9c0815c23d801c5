package admin_test

import (
	"strings"
	"testing"
)

// Errors about a body use the terms of JSON, not Go's types.
func TestWrongBodies(t *testing.T) {
	store, base := stores(t, &twoStores{}), startManager(t, &fakeManager{})
	f := func(url, body, want string) {
		t.Helper()
		code, got := manage(t, "POST", url, body)
		if code != 400 || !strings.Contains(got, want) || strings.Contains(got, "Go ") || strings.Contains(got, "json:") {
			t.Errorf("%s: %d, %s; want %q", body, code, got, want)
		}
	}
	search, files, knowledge := store+"/v1/search", store+"/v1/vector_stores/kb1/search", base+"/v1/knowledge"
	f(search, ``, `is not a search: it is empty.`)
	f(search, `{"query":`, `is not a search: it ends too early.`)
	f(search, `[]`, `is not a search: it is a list, not an object.`)
	f(search, `{"query":{}}`, `query is an object, not a string.`)
	f(search, `{"query":"a","knowledge":true}`, `knowledge is a boolean, not a list.`)
	f(search, `{"query":"a","top":1}`, `is not a search: unknown field \"top\".`)
	f(files, `{"query":"a","max_num_results":"x"}`, `max_num_results is a string, not a whole number.`)
	f(files, `{"query":"a","max_num_results":1.5}`, `max_num_results is number 1.5, not a whole number.`)
	f(files, `{"query":"a","ranking_options":5}`, `ranking_options is a number, not an object.`)
	f(files, `{"query":"a","ranking_options":{"score_threshold":"x"}}`, `ranking_options.score_threshold is a string, not a number.`)
	f(files, `{"query":"a","rewrite_query":1}`, `rewrite_query is a number, not a boolean.`)
	f(knowledge, `{"id":5}`, `id is a number, not a string.`)
	f(knowledge+"/kb1/documents", `[]`, `it is a list, not an object.`)
}
