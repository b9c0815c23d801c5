package main

import (
	"fmt"
	"strings"

	"sidenote/rewrite/staged"
)

type stagesCmd struct {
	List stagesListCmd `cmd:"" default:"1" help:"List the presets."`
	Show stagesShowCmd `cmd:"" help:"Print the file of a preset, a configuration that can be included."`
}

// Help shows how presets are used.
func (stagesCmd) Help() string {
	return "A policy with mode: staged has a preset by its name, as in stages: careful. To change one, write it to a file, " +
		"include that in the configuration, and extend its policy.\n\nsidenote stages show careful > careful.yaml"
}

type stagesListCmd struct{}

// Run lists the presets, each with the first comment of its file.
func (stagesListCmd) Run(a *app) error {
	for _, name := range staged.Presets() {
		text, _ := staged.Preset(name)
		about, _, _ := strings.Cut(string(text), "\n#\n")
		fmt.Fprintln(a.stdout, strings.ReplaceAll(strings.TrimPrefix(about, "# "), "\n# ", "\n  "))
	}
	return nil
}

type stagesShowCmd struct {
	Name string `arg:"" help:"The preset, as sidenote stages lists it."`
}

// Run prints the file of a preset.
func (c stagesShowCmd) Run(a *app) error {
	text, ok := staged.Preset(c.Name)
	if !ok {
		return usageError{fmt.Errorf("no preset is named %q; there are %s", c.Name, strings.Join(staged.Presets(), ", "))}
	}
	_, err := a.stdout.Write(text)
	return err
}
