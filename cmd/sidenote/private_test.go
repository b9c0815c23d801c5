//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Only the image's user can access its state folder: what the Dockerfile creates is copied with its
// mode, since COPY keeps the modes below what it copies.
func TestStateFolderOfTheImageIsPrivate(t *testing.T) {
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

// The image stamps the version and commit: the variables that the Dockerfile sets by the linker
// exist, and the version is made from them.
func TestImageStampsVersionAndCommit(t *testing.T) {
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stamps := regexp.MustCompile(`-X (\S+)\.(\w+)=\$(version|commit)`).FindAllStringSubmatch(string(text), -1)
	if len(stamps) != 2 {
		t.Fatalf("the linker is given %v", stamps)
	}
	for _, s := range stamps {
		source, err := os.ReadFile(filepath.Join("../..", strings.TrimPrefix(s[1], "sidenote/"), "version.go"))
		if err != nil {
			t.Fatal(err)
		}
		declared := regexp.MustCompile(`(?m)^var .*\b` + s[2] + `\b.* string$`)
		used := regexp.MustCompile(s[3] + `\b.* = .*` + s[2])
		if !declared.Match(source) || !used.Match(source) {
			t.Errorf("%s.%s is not a variable that Version returns", s[1], s[2])
		}
	}
	ignored, err := os.ReadFile("../../.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(strings.Fields(string(ignored)), ".git") {
		t.Error("the build of the image does not see the repository, so it cannot name the commit")
	}
}
