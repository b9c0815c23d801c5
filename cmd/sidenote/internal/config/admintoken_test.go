package config_test

import (
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// The admin token of the flag wins over that of the environment, and that over the file's, which
// is then not even read.
func TestAdminTokenOfFlagEnvironmentAndFile(t *testing.T) {
	files := disk{"c.yaml": "upstream: https://u.test\nadmin: {token: {file: own}}\n", "own": "of-file\n", "flag": "of-flag\n"}
	f := func(flag, variable, want, problem string) {
		t.Helper()
		src := files.source("c.yaml")
		src.Flags.AdminTokenFile = flag
		src.Env = env(map[string]string{"SIDENOTE_ADMIN_TOKEN": variable})
		c, err := config.Load(src)
		switch {
		case problem != "" && (err == nil || err.Error() != problem):
			t.Errorf("got %v, want %s", err, problem)
		case problem == "" && (err != nil || c.Admin.Token.Value.Reveal() != want):
			t.Errorf("got %v, %v, want %s", c, err, want)
		}
	}
	f("", "", "of-file", "")
	f("", "of-env\n", "of-env", "")
	f("flag", "of-env", "of-flag", "")
	f("", "\n", "", "SIDENOTE_ADMIN_TOKEN: admin.token.env: SIDENOTE_ADMIN_TOKEN is not set in the environment")
	f("", "two words", "", "SIDENOTE_ADMIN_TOKEN: admin.token: holds a space, line break or other byte that no header can carry")
	f("nowhere", "of-env", "", `--admin-token-file: admin.token.file: "nowhere" cannot be read: file does not exist`)
	delete(files, "own")
	f("", "of-env", "of-env", "")
	f("", "", "", `c.yaml:2:17: admin.token.file: "own" cannot be read: file does not exist`)
}

// A read token allows a port that other machines can reach, and must differ from the admin token.
func TestReadToken(t *testing.T) {
	files := disk{"c.yaml": "upstream: https://u.test\nadmin: {listen: 0.0.0.0:8081, read_token: {file: read}}\n", "read": "r3ad\n", "same": "r3ad"}
	c, err := config.Load(files.source("c.yaml"))
	if err != nil || c.Admin.ReadToken.Value.Reveal() != "r3ad" || c.Admin.Token.Value.Reveal() != "" {
		t.Errorf("%v, %v", c, err)
	}
	if short := c.ShortTokens(); len(short) != 1 || short[0].String() != "c.yaml:2:31: admin.read_token: has 4 bytes and can be guessed; make one by `openssl rand -hex 16`" {
		t.Errorf("got %v", short)
	}
	files["c.yaml"] = "upstream: https://u.test\nadmin: {token: {file: same}, read_token: {file: read}}\n"
	if _, err := config.Load(files.source("c.yaml")); err == nil || err.Error() != "c.yaml:2:30: admin.read_token: is the same as admin.token, so who has it could write" {
		t.Errorf("got %v", err)
	}
}
