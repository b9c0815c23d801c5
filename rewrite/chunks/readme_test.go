package chunks_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sidenote/rewrite/chunks"
	"sidenote/rewrite/goldentest"
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
	for _, m := range turns {
		fresh += string(page[at:m[4]]) + outcome(b, page[m[2]:m[3]], []byte("{}"))
		at = m[5]
	}
	goldentest.Text(t, "README.md", fresh+string(page[at:]))
	for _, name := range []string{"system", "agent", "workflow", "delegation", "environment", "working_flow", "output", "custom"} {
		if !strings.Contains(string(page), "| `"+name+"` | `") {
			t.Errorf("the table has no row of %s", name)
		}
	}
}
