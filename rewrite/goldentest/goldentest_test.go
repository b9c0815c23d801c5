package goldentest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A recorder keeps the errors of a test.
type recorder struct {
	testing.TB
	errors string
}

func (*recorder) Helper()                      {}
func (r *recorder) Errorf(f string, of ...any) { r.errors += fmt.Sprintf(f, of...) }

// Text fails for another text, and with -update writes it.
func TestText(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.golden")
	before := *update
	defer func() { *update = before }()
	*update = true
	Text(t, file, "a\nb\n")
	*update = false
	Text(t, file, "a\nb\n")
	r := &recorder{TB: t}
	if Text(r, file, "a\nc\n"); !strings.Contains(r.errors, "x.golden (-want +got)") {
		t.Errorf("another text gives %q", r.errors)
	}
}

// Results replace those before in place, new ones are appended, and what nothing sets any more goes.
func TestEach(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "a.txtar")
	if err := os.WriteFile(file, []byte("Why.\n-- in1 --\n1\n-- want1 --\nold\n-- in2 --\n2\n-- want3 --\nold\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := *update
	defer func() { *update = before }()
	for _, *update = range []bool{true, false} {
		Each(t, folder, func(t *testing.T, a *Archive) {
			if a.Name != "a" || string(a.Get("in2")) != "2\n" || a.Get("in3") != nil {
				t.Errorf("%+v", a)
			}
			a.Set("want1", "new\n")
			a.Set("want2", string(a.Get("in2")))
		})
	}
	const want = "Why.\n-- in1 --\n1\n-- want1 --\nnew\n-- in2 --\n2\n-- want2 --\n2\n"
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}
