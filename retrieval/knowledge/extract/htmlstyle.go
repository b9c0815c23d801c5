package extract

import (
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// invisible reports whether the style attribute of an element hides its text.
func invisible(n *html.Node) bool {
	text := attr(n, "style")
	if text == "" {
		return false
	}
	moving, transparent := false, false
	for name, value := range declarations(text) {
		switch name {
		case "display":
			if value == "none" {
				return true
			}
		case "visibility":
			if value == "hidden" || value == "collapse" {
				return true
			}
		case "font-size":
			if isZero(value) && !resized(n) {
				return true
			}
		case "opacity":
			transparent = isZero(value)
		case "transform", "transition", "animation": // a script fades it in
			moving = true
		}
	}
	return transparent && !moving
}

// declarations iterates over the names and values in a style attribute, in lower case.
func declarations(style string) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		for part := range strings.SplitSeq(strings.ToLower(style), ";") {
			name, value, _ := strings.Cut(part, ":")
			value, _, _ = strings.Cut(value, "!")
			if !yield(strings.TrimSpace(name), strings.TrimSpace(value)) {
				return
			}
		}
	}
}

// isZero reports whether a CSS length or number is zero.
func isZero(value string) bool {
	n, err := strconv.ParseFloat(strings.TrimRight(value, "abcdefghijklmnopqrstuvwxyz%"), 64)
	return err == nil && n == 0
}

// resized reports whether an element below n sets a font size of its own: font-size:0 around such
// elements removes the gaps between them.
func resized(n *html.Node) bool {
	for c := range n.Descendants() {
		for name, value := range declarations(attr(c, "style")) {
			if name == "font-size" && !isZero(value) || name == "font" {
				return true
			}
		}
	}
	return false
}
