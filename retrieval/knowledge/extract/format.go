package extract

import (
	"cmp"
	"path"
	"strings"
)

// Format is a file format.
type Format uint8

// The formats.
const (
	Unknown Format = iota
	Text
	MarkdownText
	HTML
	JSON
	JSONLines
	CSV
	SourceCode
	PDF
	DOCX
	RST
	XLSX
	ODS
	PPTX
	ODP
	ODT
	EML
	MBOX
	Notebook
	YAML
	TOML
	XML
	INI
	Properties
	RTF
	EPUB
	Image // read by an OCR program

	endOfFormats
)

// Formats returns all formats in order, from Unknown on.
func Formats() (all []Format) {
	for f := Unknown; f < endOfFormats; f++ {
		all = append(all, f)
	}
	return all
}

// HoldsMany reports whether a file of the format may hold many documents.
func (f Format) HoldsMany() bool { return f == JSON || f == JSONLines || f == MBOX }

// Packed reports whether files of the format are archives, whose text may take far more memory than
// the file.
func (f Format) Packed() bool {
	switch f {
	case PDF, DOCX, XLSX, ODS, PPTX, ODP, ODT, EPUB:
		return true
	}
	return false
}

// Of returns a file's format, by its name.
func Of(name string) Format {
	base := strings.ToLower(path.Base(name))
	ext := path.Ext(base)
	switch ext {
	case ".md", ".markdown", ".mdx":
		return MarkdownText
	case ".rst", ".rest":
		return RST
	case ".txt", ".text", ".adoc":
		if strings.HasSuffix(base, ".rst.txt") { // Sphinx publishes sources with this extension
			return RST
		}
		return Text
	case ".html", ".htm", ".xhtml":
		return HTML
	case ".json":
		return JSON
	case ".jsonl", ".ndjson":
		return JSONLines
	case ".csv", ".tsv":
		return CSV
	case ".pdf":
		return PDF
	case ".docx", ".docm", ".dotx":
		return DOCX
	case ".xlsx", ".xlsm", ".xltx":
		return XLSX
	case ".pptx", ".pptm", ".ppsx", ".potx":
		return PPTX
	case ".odt", ".ott":
		return ODT
	case ".ods", ".ots":
		return ODS
	case ".odp", ".otp":
		return ODP
	case "":
		switch base {
		case "readme", "changelog", "changes", "contributing", "faq", "history", "install", "news", "notes", "todo", "usage":
			return Text
		case "makefile", "dockerfile":
			return SourceCode
		}
	default:
		if languageOf(ext[1:]) != "" {
			return SourceCode
		}
	}
	return ofData(ext)
}

// ofData returns the format of files with an extension that are neither text, code nor office
// documents.
func ofData(ext string) Format {
	switch ext {
	case ".yaml", ".yml":
		return YAML
	case ".toml":
		return TOML
	case ".xml", ".rss", ".atom", ".dita", ".dbk", ".docbook":
		return XML
	case ".ini", ".cfg", ".conf":
		return INI
	case ".properties":
		return Properties
	case ".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".heic":
		return Image
	case ".rtf":
		return RTF
	case ".epub":
		return EPUB
	case ".ipynb":
		return Notebook
	case ".eml":
		return EML
	case ".mbox", ".mbx":
		return MBOX
	}
	return Unknown
}

// languageOf returns the language of files with the extension ext: in most cases ext itself.
func languageOf(ext string) string {
	switch ext {
	case "go", "py", "rb", "rs", "java", "kt", "scala", "groovy", "cs", "swift", "php", "lua", "pl", "r", "jl", "dart",
		"ex", "erl", "hs", "clj", "c", "cpp", "js", "ts", "sh", "ps1", "sql", "tf", "proto", "graphql", "m", "zig", "nim":
		return ext
	case "pyi", "pyw":
		return "py"
	case "h", "cc", "cxx", "hh", "hpp", "hxx":
		return "cpp"
	case "mjs", "cjs", "jsx":
		return "js"
	case "tsx", "mts", "cts":
		return "ts"
	case "kts":
		return "kt"
	case "gradle":
		return "groovy"
	case "bash", "zsh", "ksh":
		return "sh"
	case "pm":
		return "pl"
	case "exs":
		return "ex"
	case "cljs", "cljc", "edn", "el", "lisp", "scm":
		return "clj"
	case "mk":
		return "makefile"
	}
	return ""
}

// ShebangLength is how many bytes of a file IsScript needs.
const ShebangLength = 128

// IsScript reports whether a file that begins with start is a script.
func IsScript(start []byte) bool {
	return shebang(string(start[:min(len(start), ShebangLength)])) != ""
}

// shebang returns the language named by the first line of a script; "" if none.
func shebang(text string) string {
	rest, ok := strings.CutPrefix(text, "#!")
	if !ok {
		return ""
	}
	line, _, _ := strings.Cut(rest, "\n")
	for word := range strings.FieldsSeq(line) {
		interpreter := strings.TrimRight(path.Base(word), "0123456789.")
		switch interpreter {
		case "env", "-S", "busybox":
			continue
		case "sh", "bash", "dash", "zsh", "ksh", "ash":
			return "sh"
		case "python", "pypy":
			return "py"
		case "perl":
			return "pl"
		case "ruby":
			return "rb"
		case "node", "deno", "bun":
			return "js"
		case "php", "lua":
			return interpreter
		case "Rscript":
			return "r"
		}
		if !strings.ContainsAny(word, "=/") || strings.HasPrefix(word, "/") {
			return ""
		}
	}
	return ""
}

// Language returns the language of a source file; "" if unknown.
func Language(name, text string) string {
	base := strings.ToLower(path.Base(name))
	ext := path.Ext(base)
	if ext == "" {
		return cmp.Or(shebang(text), base) // Makefile, Dockerfile
	}
	return languageOf(ext[1:])
}
