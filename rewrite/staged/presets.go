package staged

import (
	"embed"
	"strings"
)

// presets are example chains to read, copy and change: configurations with one policy each, named
// like the file.
//
//go:embed presets/*.yaml
var presets embed.FS

// Presets returns the names of the presets, sorted.
func Presets() []string {
	files, err := presets.ReadDir("presets")
	if err != nil {
		panic("BUG: no presets: " + err.Error())
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.TrimSuffix(f.Name(), ".yaml")
	}
	return names
}

// Preset returns the file of a preset.
func Preset(name string) (text []byte, ok bool) {
	for _, known := range Presets() {
		if name == known {
			text, err := presets.ReadFile("presets/" + name + ".yaml")
			return text, err == nil
		}
	}
	return nil, false
}
