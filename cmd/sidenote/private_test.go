//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The image has its state folder for its user alone: what the Dockerfile makes for it
// is copied with its mode, as it is below what is copied.
func TestM07StateFolderOfTheImageIsPrivate(t *testing.T) {
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	state := regexp.MustCompile(`SIDENOTE_STATE=(\S+)`).FindStringSubmatch(string(text))[1]
	out := filepath.Join(t.TempDir(), "out")
	for _, run := range regexp.MustCompile(`(?m)^RUN (mkdir .*)$`).FindAllStringSubmatch(string(text), -1) {
		sh := exec.Command("sh", "-euc", "umask 022; "+strings.ReplaceAll(run[1], "/out", out))
		if said, err := sh.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", run[1], err, said)
		}
	}
	for _, c := range regexp.MustCompile(`(?m)^COPY --from=build --chown=65532:65532 /out(/\S+) (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		below, ok := strings.CutPrefix(state, c[2]+"/")
		if !ok {
			continue
		}
		info, err := os.Stat(filepath.Join(out, c[1], below))
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", state, info, err)
		}
		return
	}
	t.Errorf("%s is not below anything that is copied", state)
}
