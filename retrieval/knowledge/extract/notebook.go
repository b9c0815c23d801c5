package extract

import (
	"cmp"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
)

// A notebook is a file of Jupyter, nbformat 3 to 5. What a page of it shows is read: its cells in
// order and those outputs that are text, but not pictures, and no input or output that its author
// has hidden.
type notebook struct {
	Metadata struct {
		Title        string                    `json:"title"`
		LanguageInfo struct{ Name string }     `json:"language_info"`
		KernelSpec   struct{ Language string } `json:"kernelspec"`
	} `json:"metadata"`
	Cells      []notebookCell `json:"cells"`
	Worksheets []struct {     // nbformat 3
		Cells []notebookCell `json:"cells"`
	} `json:"worksheets"`
}

type notebookCell struct {
	Type     string `json:"cell_type"`
	Metadata struct {
		Tags    []string `json:"tags"`
		Jupyter struct {
			SourceHidden  bool `json:"source_hidden"`
			OutputsHidden bool `json:"outputs_hidden"`
		} `json:"jupyter"`
	} `json:"metadata"`
	Source  notebookText     `json:"source"`
	Outputs []notebookOutput `json:"outputs"`

	Input    notebookText `json:"input"`    // nbformat 3
	Language string       `json:"language"` // nbformat 3
	Level    int          `json:"level"`    // nbformat 3
}

type notebookOutput struct {
	Type  string                  `json:"output_type"`
	Text  notebookText            `json:"text"`
	Data  map[string]notebookText `json:"data"` // by media type
	Name  string                  `json:"ename"`
	Value string                  `json:"evalue"`

	HTML notebookText `json:"html"` // nbformat 3
	PNG  notebookText `json:"png"`  // nbformat 3
}

// A notebookText is a string or a list of strings; other values are "".
type notebookText string

func (t *notebookText) UnmarshalJSON(raw []byte) error {
	var one string
	var lines []string
	switch {
	case json.Unmarshal(raw, &one) == nil:
		*t = notebookText(one)
	case json.Unmarshal(raw, &lines) == nil:
		*t = notebookText(strings.Join(lines, ""))
	}
	return nil
}

// String returns the text as others are.
func (t notebookText) String() string { return strings.ReplaceAll(string(t), "\x00", "") }

var errNoNotebook = Brokenf("it is no notebook: it has no cells")

func readNotebook(text string) (Document, error) {
	var n notebook
	dec := json.NewDecoder(strings.NewReader(text))
	if err := dec.Decode(&n); err != nil {
		if _, mistyped := errors.AsType[*json.UnmarshalTypeError](err); mistyped {
			return Document{}, errNoNotebook
		}
		return Document{}, notJSON(err)
	}
	cells := n.Cells
	for _, sheet := range n.Worksheets {
		cells = append(cells, sheet.Cells...)
	}
	if cells == nil {
		return Document{}, errNoNotebook
	}
	language := cmp.Or(n.Metadata.LanguageInfo.Name, n.Metadata.KernelSpec.Language)
	var b strings.Builder
	for _, c := range cells {
		if text := strings.Trim(c.text(language), "\n"); text != "" {
			b.WriteString(text + "\n\n")
		}
		if b.Len() > MaxText {
			return Document{}, ErrTooMuchText
		}
	}
	return Document{Name: oneLine(strings.ReplaceAll(n.Metadata.Title, "\x00", "")), Text: strings.TrimSuffix(b.String(), "\n"), Form: Markdown}, nil
}

// text returns a cell as Markdown.
func (c notebookCell) text(language string) string {
	if c.tagged("cell") {
		return ""
	}
	source := strings.TrimRight(lineFeeds(cmp.Or(c.Source, c.Input).String()), "\n")
	switch c.Type {
	case "markdown":
		return shownMarkdown(source, false)
	case "heading":
		return strings.Repeat("#", min(max(c.Level, 1), maxLevel)) + " " + oneLine(source)
	case "code":
	default:
		return ""
	}
	var parts []string
	if source != "" && !c.Metadata.Jupyter.SourceHidden && !c.tagged("input") {
		if language = cmp.Or(c.Language, language); !isLanguage(language) {
			language = ""
		}
		parts = append(parts, markdownListing(language, source))
	}
	if !c.Metadata.Jupyter.OutputsHidden && !c.tagged("output") {
		for _, o := range c.Outputs {
			if text := strings.Trim(o.shown(), "\n"); strings.TrimSpace(text) != "" {
				parts = append(parts, text)
			}
		}
	}
	return strings.Join(parts, "\n\n")
}

// tagged reports whether the tags of a cell remove a part of it from pages, as nbconvert and Jupyter
// Book have it.
func (c notebookCell) tagged(part string) bool {
	return slices.Contains(c.Metadata.Tags, "remove-"+part) || slices.Contains(c.Metadata.Tags, "remove_"+part)
}

// shown returns the text of an output as Markdown: of several forms, the one that a page shows.
func (o notebookOutput) shown() string {
	switch o.Type {
	case "error", "pyerr":
		return outputListing(o.Name + ": " + o.Value)
	case "stream":
		return outputListing(o.Text.String())
	}
	if text, ok := o.Data["text/markdown"]; ok {
		return shownMarkdown(lineFeeds(text.String()), false)
	}
	if page := cmp.Or(o.Data["text/html"], o.HTML); page != "" {
		if text, err := wholePage(lineFeeds(page.String())); err == nil && strings.TrimSpace(text) != "" {
			return text
		}
	}
	for kind := range o.Data {
		if !strings.HasPrefix(kind, "text/") {
			return "" // a picture or a control, which text/plain only names
		}
	}
	if o.PNG != "" {
		return ""
	}
	return outputListing(cmp.Or(o.Data["text/plain"], o.Text).String())
}

// terminalCodes are the escape sequences of ECMA-48 for colours and the like.
var terminalCodes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// outputListing returns the output of a program as a listing. Of a line that was overwritten, as by
// a progress bar, the last state is shown.
func outputListing(text string) string {
	text = terminalCodes.ReplaceAllString(strings.ReplaceAll(text, "\r\n", "\n"), "")
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		b.WriteString(line[strings.LastIndexByte(line, '\r')+1:] + "\n")
	}
	if text = strings.Trim(b.String(), "\n"); text == "" {
		return ""
	}
	return markdownListing("", text)
}
