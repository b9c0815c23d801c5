package config

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/rewrite/tokens"
)

// ModelTable returns the rows of models, those of models_file, and the built-in ones. The first
// match wins.
func (c *Config) ModelTable() []tokens.Model { return ModelTable(c.Models, c.ModelsFile.Rows...) }

// readModels reads models_file. Its rows are checked like those of models.
func (c loader) readModels(src Source) {
	f := &c.ModelsFile
	if f.Path == "" {
		return
	}
	path := c.locate("models_file", f.Path)
	data, err := src.Read(path)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && src.NoSecrets:
		return // it may exist only on the machine that serves
	case missing:
		c.problem("models_file", "file %q not found", path)
		return
	case err != nil:
		c.problem("models_file", "%q cannot be read: %v", path, strictyaml.Cause(err))
		return
	}
	var content Content
	places, problems := strictyaml.Marks{}, len(c.problems)
	ok := c.decodeFile(path, data, reflect.ValueOf(&content).Elem(), strictyaml.Decoder{Marks: places, Variables: c.variablesOf(c.Place("models_file").File)})
	report := func(key, format string, args ...any) {
		at, _ := places.Nearest(key)
		if at.File == "" {
			at.Place = strictyaml.Place{File: path}
		}
		c.problems = append(c.problems, strictyaml.Problem{Place: at.Place, Key: key, Reason: fmt.Sprintf(format, args...)})
	}
	if ok && len(c.problems) == problems {
		if content.Date.IsZero() {
			report("date", "is missing; write the day of the list, as in 2026-11-28")
		}
		if len(content.Models) == 0 {
			report("models", "is missing")
		}
	}
	checkModels(content.Models, report)
	*f = File{Path: path, Date: content.Date, Source: content.Source, Rows: content.Models}
}
