package folder_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge/folder"
)

// Skipped files are counted by what can be done about them, those that should have been read
// first.
func TestSkippedLines(t *testing.T) {
	var r folder.Report
	add := func(n int, kind folder.SkipKind, name, reason string) {
		for i := range n {
			r.Skipped = append(r.Skipped, folder.Skip{Path: fmt.Sprintf(name, i), Kind: kind, Reason: reason})
		}
	}
	add(213, folder.SkipUnsupported, "img/%d.PNG", "PNG is not supported")
	add(2, folder.SkipUnsupported, "%d.xls", "XLS is not supported")
	add(1, folder.SkipUnsupported, "Makefile%d", "without extension is not supported")
	add(2, folder.SkipBroken, "%d.pdf", "there is no text in it: its pages are scanned")
	add(1, folder.SkipPart, "part%d.pdf", "no text on pages 3–5: scanned; page 7 cannot be read")
	add(1, folder.SkipBroken, "locked%d.pdf", "it is protected by a password")
	add(1, folder.SkipBroken, "torn%d.pdf", "it is no PDF, or broken")
	add(1, folder.SkipBroken, "a%d.docx", "it is nested too deeply")
	add(1, folder.SkipBroken, "b%d.docx", "it is no DOCX, or broken")
	add(1, folder.SkipPart, "b%d.jsonl", "line 3 is not JSON")
	add(2, folder.SkipGuessed, "g%d.txt", "read as Windows 1250, which is a guess")
	add(4, folder.SkipTooLarge, "%d.txt", "more than 10 MB")
	add(1, folder.SkipNotText, "t%d.txt", "not text")
	add(1, folder.SkipDuplicate, "d%d", "another file has a document of this id")
	add(1, folder.SkipUnreadable, "u%d.md", "permission denied")
	add(1, folder.SkipMemory, "m%d.jsonl", "too little memory")
	add(2, folder.SkipSecret, ".env%d", "likely a secret, by its name")
	add(1, folder.SkipGenerated, "g%d.js", "minified")
	add(1, folder.SkipHidden, ".h%d", "hidden, by its name")
	add(1, folder.SkipVendored, "node_modules%d", "installed packages")
	add(1, folder.SkipLink, "l%d", "leaves the folder")
	add(1, folder.SkipAttributes, "f%d.jsonl", "x")
	want := []string{
		"4 over 10 MB; split",
		"2 DOCX broken: each for a reason of its own",
		"2 PDF scanned: no text layer; run OCR first, e.g. ocrmypdf, or set ocr",
		"1 JSONL read in part: line 3 is not JSON",
		"1 PDF broken: it is no PDF, or broken",
		"1 PDF protected by a password; save without one",
		"1 PDF read in part: no text on pages 3–5: scanned; page 7 cannot be read; run OCR first, e.g. ocrmypdf, or set ocr",
		"1 for want of memory: too little memory; raise the memory limit, or split",
		"1 not text in a known encoding; save as UTF-8",
		"1 unreadable: permission denied",
		"1 with the id of another document; give each an id of its own",
		"213 PNG: no text; to read text in them, set ocr",
		"2 XLS: not read; save as XLSX or CSV",
		"1 without extension: not a format that is read",
		"2 in a guessed encoding: read as Windows 1250, which is a guess; save as UTF-8",
		"2 likely secret by name",
		"1 hidden by name",
		"1 installed packages",
		"1 link out of the folder or to nowhere",
		"1 made by a program; to include a file, add !NAME to .sidenoteignore",
		"1 with attributes left out",
	}
	if diff := cmp.Diff(want, r.SkippedLines()); diff != "" {
		t.Error(diff)
	}
	groups := r.SkippedGroups()
	if g := groups[2]; g != (folder.SkippedGroup{Kind: folder.SkipBroken, Files: 2, What: "PDF scanned", Why: "no text layer", Remedy: "run OCR first, e.g. ocrmypdf, or set ocr", First: "0.pdf"}) {
		t.Errorf("%+v", g)
	}
	total := 0
	for _, g := range groups {
		total += g.Files
	}
	if total != len(r.Skipped) {
		t.Errorf("%d files of %d", total, len(r.Skipped))
	}
	if lines := (folder.Report{}).SkippedLines(); lines != nil {
		t.Errorf("of nothing: %q", lines)
	}
}

// Of many formats, the rest share a line, which names each.
func TestSkippedLinesOfManyFormats(t *testing.T) {
	var r folder.Report
	for i := range 9 {
		for range 10 - i {
			r.Skipped = append(r.Skipped, folder.Skip{Path: fmt.Sprintf("a.x%d", i), Kind: folder.SkipUnsupported})
		}
	}
	lines := r.SkippedLines()
	if len(lines) != 7 || lines[5] != "5 X5: not a format that is read" || lines[6] != "9 of other formats that are not read: 4 X6, 3 X7, 2 X8" {
		t.Errorf("%q", lines)
	}
	r.Skipped = append(r.Skipped, folder.Skip{Path: ".env", Kind: folder.SkipSecret})
	if lines = r.SkippedLines(); len(lines) != 8 || lines[6] != "9 of other formats that are not read: 4 X6, 3 X7, 2 X8" || lines[7] != "1 likely secret by name" {
		t.Errorf("%q", lines)
	}
}

// A kind that is not listed as on purpose counts as a failure.
func TestOnPurpose(t *testing.T) {
	for kind, want := range map[folder.SkipKind]bool{
		folder.SkipUnsupported: true, folder.SkipSecret: true, folder.SkipHidden: true, folder.SkipVendored: true, folder.SkipGenerated: true,
		folder.SkipLink: true, folder.SkipAttributes: true, folder.SkipGuessed: true, folder.SkipPart: false,
		folder.SkipBroken: false, folder.SkipTooLarge: false, folder.SkipNotText: false, folder.SkipDuplicate: false, folder.SkipUnreadable: false, "new": false,
	} {
		if kind.OnPurpose() != want {
			t.Errorf("%s: %v", kind, !want)
		}
	}
}
