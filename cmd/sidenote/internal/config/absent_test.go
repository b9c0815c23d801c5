package config_test

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/strictyaml"
)

// without returns the example without one key, and whether its value was a scalar.
func without(t *testing.T, s spot) (text string, scalar bool) {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal([]byte(example(t)), &tree); err != nil {
		t.Fatal(err)
	}
	steps := strings.Split(strings.NewReplacer("[", ".[", "]", "").Replace(strings.TrimPrefix(s.text, "$.")), ".")
	at := tree
	for i, step := range steps {
		switch parent := at.(type) {
		case []any:
			n := 0
			for _, digit := range strings.TrimPrefix(step, "[") {
				n = 10*n + int(digit-'0')
			}
			at = parent[n]
		case map[string]any:
			if at = parent[step]; i == len(steps)-1 {
				delete(parent, step)
			}
		}
	}
	out, err := yaml.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), s.scalar
}

// defaults lists the defaults by key, with the keys of spots.
func defaults() map[string]string {
	all := map[string]string{}
	for _, s := range strictyaml.Settings(config.Default()) {
		all[s.Key] = s.Text
	}
	for _, s := range strictyaml.Settings(config.DefaultPolicy()) {
		all["policies.*."+s.Key] = s.Text
	}
	return all
}

// P2: if any key of the example is dropped, either its default applies or the configuration is
// refused with an error that names a key. An absent key never means zero, empty or unlimited
// unless that is its default.
func TestP2DroppedKey(t *testing.T) {
	documented, compared, refused := defaults(), 0, 0
	for i, s := range paths(t, example(t)) {
		if testing.Short() && i%32 > 0 {
			continue
		}
		text, scalar := without(t, s)
		c, err := config.Load(exampleSource(text))
		if err != nil {
			if refused++; !strings.Contains(err.Error(), "e.yaml:") {
				t.Errorf("without %s: %v names no place", s.text, err)
			}
			continue
		}
		names := strings.Split(strings.TrimPrefix(s.text, "$."), ".")
		got := map[string]string{}
		switch {
		case !scalar:
			continue
		case strings.HasPrefix(s.schema, "policies.*."):
			policy := c.Policies[config.Name(names[1])]
			if policy.Extends != "" {
				continue // it has what that says
			}
			for _, setting := range strictyaml.Settings(policy) {
				got["policies.*."+setting.Key] = setting.Text
			}
		default:
			for _, setting := range strictyaml.Settings(*c) {
				got[setting.Key] = setting.Text
			}
		}
		want, ok := documented[s.schema]
		if !ok || s.schema == "state.path" { // depends on the user's home
			continue
		}
		if compared++; got[s.schema] != want {
			t.Errorf("without %s it is %q, not its default %q", s.text, got[s.schema], want)
		}
	}
	if !testing.Short() && (compared < 40 || refused < 10) {
		t.Errorf("%d defaults were compared, %d keys are needed", compared, refused)
	}
}
