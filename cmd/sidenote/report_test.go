package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log that is cut is summarized as far as it goes, and the exit code says so.
func TestReportOfAPart(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	const line = `{"time":"2026-11-23T12:00:00Z","level":"INFO","msg":"request","id":"01M7Y9S0G540QS2PPDJ5EB0000","route":"chat","outcome":"injected"}` + "\n"
	for range 3 {
		_, _ = z.Write([]byte(line))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f := func(name string, text []byte, want int, says string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		code := Run(t.Context(), []string{"report", file}, strings.NewReader(""), &out, &errs, noEnv)
		if code != want || !strings.HasPrefix(out.String(), "3 requests") || !strings.Contains(errs.String(), says) || (errs.Len() > 0) != (says != "") {
			t.Errorf("%s: exit code %d, want %d\n%s%s", name, code, want, out.String(), errs.String())
		}
	}
	f("whole.gz", zipped.Bytes(), exitDone, "")
	f("cut.gz", zipped.Bytes()[:zipped.Len()-1], exitPart, "cut.gz was read in part: unexpected EOF")
}
