package folder

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"sidenote/retrieval/knowledge/extract/pdf"
)

// A SkippedGroup is the skipped files of one kind.
type SkippedGroup struct {
	Kind   SkipKind
	Files  int
	What   string // "PNG", "PDF scanned", "files over 10 MB"
	Why    string // "no text"; "" if What suffices
	Remedy string // what to do to have them read; "" if nothing helps, or nothing is wrong
	First  string // path of the first file
}

// String returns a line for people: "3 PDF scanned: no text layer; run OCR first, e.g. ocrmypdf, or set ocr".
func (g SkippedGroup) String() string {
	line := fmt.Sprintf("%d %s", g.Files, g.What)
	if g.Why != "" {
		line += ": " + g.Why
	}
	if g.Remedy != "" {
		line += "; " + g.Remedy
	}
	return line
}

// SkippedGroups groups the skipped files by what can be done about them: first those that should
// have been read, then unsupported formats, then files skipped on purpose; within each, the most
// frequent first.
func (r Report) SkippedGroups() []SkippedGroup {
	groups := map[string]*SkippedGroup{}
	for _, s := range r.Skipped {
		g := groupOf(s)
		same := groups[g.What]
		if same == nil {
			same = &g
			groups[g.What] = same
		}
		if same.Files++; same.Why != g.Why && g.Kind != SkipTwin { // one twin is an example of all
			same.Why = severalReasons
		}
	}
	var list []SkippedGroup
	for _, g := range groups {
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b SkippedGroup) int {
		return cmp.Or(cmp.Compare(concern(a.Kind), concern(b.Kind)), cmp.Compare(b.Files, a.Files), cmp.Compare(a.What, b.What))
	})
	return list
}

// severalReasons replaces the reason of a group whose files have different reasons.
const severalReasons = "each for a reason of its own"

// OnPurpose reports whether files of this kind are skipped on purpose or because their format is
// not supported. A new kind counts as a failure until it is listed.
func (k SkipKind) OnPurpose() bool { return concern(k) > 0 }

// concern orders kinds: 0 is a file that should have been read.
func concern(k SkipKind) int {
	switch k {
	case SkipUnsupported:
		return 1
	case SkipSecret, SkipHidden, SkipVendored, SkipGenerated, SkipLink, SkipAttributes, SkipTwin, SkipGuessed:
		return 2
	}
	return 0
}

// groupOf returns the group of one skipped file, with a count of zero.
func groupOf(s Skip) SkippedGroup {
	g := SkippedGroup{Kind: s.Kind, First: s.Path}
	switch s.Kind {
	case SkipUnsupported:
		g.What = typeOf(s.Path)
		if g.Why, g.Remedy = cureOf(strings.ToLower(path.Ext(s.Path))); s.Reason == noTextSeen {
			g.Remedy = ""
		}
	case SkipTooLarge:
		g.What, g.Remedy = "over 10 MB", "split"
	case SkipNotText:
		g.What, g.Remedy = "not text in a known encoding", "save as UTF-8"
	case SkipBroken:
		g.What, g.Why = typeOf(s.Path)+" broken", s.Reason
		switch {
		case pdf.IsScanned(s.Reason):
			g.What, g.Why, g.Remedy = "PDF scanned", "no text layer", ocrRemedy
		case pdf.IsProtected(s.Reason):
			g.What, g.Why, g.Remedy = "PDF protected by a password", "", "save without one"
		}
	case SkipPart:
		g.What, g.Why = typeOf(s.Path)+" read in part", s.Reason
		if pdf.IsScanned(s.Reason) {
			g.Remedy = ocrRemedy
		}
	case SkipGuessed:
		g.What, g.Why, g.Remedy = "in a guessed encoding", s.Reason, "save as UTF-8"
	case SkipDuplicate:
		g.What, g.Remedy = "with the id of another document", "give each an id of its own"
	case SkipUnreadable:
		g.What, g.Why = "unreadable", s.Reason
	case SkipMemory:
		g.What, g.Why, g.Remedy = "for want of memory", s.Reason, "raise the memory limit, or split"
	case SkipSecret:
		g.What = "likely secret by name"
	case SkipHidden:
		g.What = "hidden by name"
	case SkipVendored:
		g.What = "installed packages"
	case SkipGenerated:
		g.What, g.Remedy = "made by a program", "to include a file, add !NAME to .sidenoteignore"
	case SkipTwin:
		g.What, g.Why = "the same in another format", s.Path+" is the "+s.Reason
	case SkipLink:
		g.What = "link out of the folder or to nowhere"
	case SkipAttributes:
		g.What = "with attributes left out"
	default:
		g.What, g.Why = string(s.Kind), s.Reason
	}
	return g
}

const (
	ocrRemedy = "run OCR first, e.g. ocrmypdf, or set ocr"
	imageCure = "to read text in them, set ocr"
)

// A remedy is advice for formats that are not supported.
type remedy struct {
	extensions string // separated by spaces
	why, cure  string
}

// cureOf returns why files with an extension, in lower case, are not read, and what to do.
func cureOf(extension string) (why, cure string) {
	for _, r := range []remedy{
		{".png .jpg .jpeg .gif .webp .bmp .tif .tiff .heic", "no text", imageCure},
		{".ico .avif .svg .psd .ai .eps .drawio .fig", "no text", ""},
		{".mp3 .wav .ogg .flac .m4a .mp4 .mov .avi .mkv .webm", "no text", "a transcript is read"},
		{".zip .tar .gz .tgz .bz2 .xz .zst .7z .rar .jar .war .deb .rpm", "an archive", "unpack"},
		{".doc .pages .mobi .azw .azw3 .tex .wpd", "not read", "save as DOCX, PDF or HTML"},
		{".xls .xlsb .numbers .parquet", "not read", "save as XLSX or CSV"},
		{".ppt .key", "not read", "save as PPTX or PDF"},
		{".msg .pst .chm .one", "not read", "save as HTML or text"},
		{".exe .dll .so .dylib .o .a .class .pyc .wasm .bin .dat .db .sqlite .ttf .otf .woff .woff2 .eot .mo", "no text", ""},
	} {
		if extension != "" && slices.Contains(strings.Fields(r.extensions), extension) {
			return r.why, r.cure
		}
	}
	return "not a format that is read", ""
}

const (
	// maxGroups is how many unsupported formats have a line of their own in SkippedLines.
	maxGroups = 6
	// maxNamed is how many more are named.
	maxNamed = 60
)

// SkippedLines returns the groups as lines for people. Unsupported formats beyond maxGroups share a
// line.
func (r Report) SkippedLines() (lines []string) {
	formats, rest := 0, map[string]int{}
	for _, g := range r.SkippedGroups() {
		if g.Kind == SkipUnsupported {
			if formats++; formats > maxGroups {
				rest[g.What] += g.Files
				continue
			}
		}
		if len(rest) > 0 && g.Kind != SkipUnsupported {
			lines, rest = append(lines, others(rest)), nil
		}
		lines = append(lines, g.String())
	}
	if len(rest) > 0 {
		lines = append(lines, others(rest))
	}
	return lines
}

// others returns the line for the formats without a line of their own, by their numbers of files.
func others(rest map[string]int) string {
	files := 0
	var named []string
	for _, t := range byCount(rest) {
		if files += rest[t]; len(named) < maxNamed {
			named = append(named, fmt.Sprintf("%d %s", rest[t], t))
		}
	}
	if more := len(rest) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("and %d more formats", more))
	}
	return fmt.Sprintf("%d of other formats that are not read: %s", files, strings.Join(named, ", "))
}
