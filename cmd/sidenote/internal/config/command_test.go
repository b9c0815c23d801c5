package config_test

import (
	"slices"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// A command is a list, or the words of a text; a program with a path is relative to its file.
func TestOCRCommand(t *testing.T) {
	for written, want := range map[string][]string{
		"off":                     nil,
		"ocr":                     {"ocr"},
		"bin/ocr -l  eng":         {"etc/bin/ocr", "-l", "eng"},
		"[/bin/o c r, -l, 'a b']": {"/bin/o c r", "-l", "a b"},
		"~/ocr":                   {"/h/ocr"},
	} {
		files := disk{"etc/c.yaml": "upstream: https://u.test\nknowledge: {a: {path: ./a, ocr: " + written + "}}\n"}
		src := files.source("etc/c.yaml")
		src.Env = env(map[string]string{"HOME": "/h"})
		c, err := config.Load(src)
		if err != nil {
			t.Errorf("%s: %v", written, err)
			continue
		}
		if got := c.Folder("a").OCR; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", written, got, want)
		}
	}
}
