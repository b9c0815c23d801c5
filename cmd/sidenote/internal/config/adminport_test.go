package config_test

import (
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// AdminPort works whatever else is wrong or missing; problems of its own keys are reported.
func TestAdminPortNeedsNothingElse(t *testing.T) {
	const wrong = `
upstream: {base_url: https://u.test, api_key: {env: NOT_SET}}
include: [{path: gone/*.yaml}]
identity: {jwt: {corp: {jwks_file: gone}}}
concurrency: many
policies: {default: {knowledge: [nowhere], limits: {tokens_per_day: }}}
unknown: 1
`
	f := func(admin, token, problem string) {
		t.Helper()
		files := disk{"dir/c.yaml": admin + "\nstate: ./st" + wrong, "dir/own": "t0ken\n"}
		c, err := config.AdminPort(files.source("dir/c.yaml"))
		switch {
		case problem != "":
			if err == nil || err.Error() != problem {
				t.Errorf("%s: got %v, want %s", admin, err, problem)
			}
		case err != nil:
			t.Errorf("%s: %v", admin, err)
		case c.Admin.Listen != "127.0.0.1:9" || c.Admin.Token.Value.Reveal() != token || c.State.Path != "dir/st" || token != "" && c.Admin.TLS.Cert != "dir/c.pem":
			t.Errorf("%s: got %+v, %+v", admin, c.Admin, c.State)
		}
	}
	f("admin: {listen: 127.0.0.1:9}", "", "")
	f("admin: {listen: 127.0.0.1:9, token: {file: own}, tls: {cert: c.pem, key: k.pem}}", "t0ken", "")
	f("admin: {listen: 127.0.0.1:9, token: {env: NOT_SET}}", "", "dir/c.yaml:1:38: admin.token.env: NOT_SET is not set in the environment")
	f("admin: {listen: nowhere}", "", `dir/c.yaml:1:17: admin.listen: "nowhere" is not an address; write host:port, as in 127.0.0.1:8080`)
	f("admin: {", "", "dir/c.yaml:3:1: is not YAML: ',' or '}' must be specified")
}
