package chunks_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sidenote/rewrite/chunks"
)

// The loop in the README is correct: each list of chunks yields the messages below it.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	turns := regexp.MustCompile("(?s)```json\n(\\[\n.*?)```.*?```text\n(.*?)```").FindAllSubmatchIndex(page, -1)
	if len(turns) != 1 {
		t.Fatalf("%d turns on the page", len(turns))
	}
	b := &chunks.Builder{Counter: encoding(t, "o200k_base")}
	fresh, at := "", 0
	for i, m := range turns {
		want, got := string(page[m[4]:m[5]]), outcome(b, page[m[2]:m[3]], []byte("{}"))
		if got != want && !*update {
			t.Errorf("turn %d: got\n%s", i+1, got)
		}
		fresh += string(page[at:m[4]]) + got
		at = m[5]
	}
	if *update {
		if err := os.WriteFile("README.md", []byte(fresh+string(page[at:])), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"system", "agent", "workflow", "delegation", "environment", "working_flow", "output", "custom"} {
		if !strings.Contains(string(page), "| `"+name+"` | `") {
			t.Errorf("the table has no row of %s", name)
		}
	}
}
