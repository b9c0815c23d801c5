package config

import (
	"cmp"
	"fmt"
	"strings"
)

// shownLength limits how much of a value a line shows, in bytes.
const shownLength = 120

// String formats a change on one line: "context_tokens: 2000 → 1000".
func (c Change) String() string {
	old, now := oneLine(c.Old), oneLine(c.New)
	from := differ(old, now)
	text := fmt.Sprintf("%s: %s → %s", c.Key, shown(old, from), shown(now, from))
	if c.Secret {
		text = fmt.Sprintf("%s: %s, and what is read there has changed", c.Key, shown(now, 0))
	}
	if c.Restart {
		text += " (takes a restart)"
	}
	return text
}

// oneLine puts a value on one line.
func oneLine(text string) string {
	return strings.Join(strings.Fields(cmp.Or(text, "not set")), " ")
}

// context is how much of the common beginning of two long values is shown, in bytes.
const context = 40

// differ returns the offset from which two values are shown: 0 if their difference is then
// visible.
func differ(a, b string) int {
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	if max(len(a), len(b)) <= shownLength || same <= context {
		return 0
	}
	return same - context
}

// shown returns a value from an offset on, truncated if it is long.
func shown(text string, from int) string {
	before, after := "", ""
	if text = text[from:]; from > 0 {
		before = "…"
	}
	if len(text) > shownLength {
		text, after = text[:shownLength], "…"
	}
	return before + strings.ToValidUTF8(text, "") + after
}

// String formats all changes of a tenant on one line.
func (t TenantDiff) String() string {
	text := fmt.Sprintf("tenant %s %s", t.Name, t.Kind)
	if len(t.Changes) > 0 {
		text += ": " + t.how("; ")
	}
	return text
}

func (t TenantDiff) how(separator string) string {
	lines := make([]string, len(t.Changes))
	for i, c := range t.Changes {
		lines[i] = c.String()
	}
	return strings.Join(lines, separator)
}

// namesShown limits how many tenants with the same changes are named.
const namesShown = 10

// String formats the changes for people, grouping tenants with the same changes.
func (c Changes) String() string {
	if c.Empty() {
		return "nothing changes\n"
	}
	var b strings.Builder
	for _, k := range c.Keys {
		fmt.Fprintln(&b, k)
	}
	alike := map[string][]string{}
	var order []string
	for _, t := range c.Tenants {
		how := t.Kind + "\x00" + t.how("\n  ")
		if alike[how] == nil {
			order = append(order, how)
		}
		alike[how] = append(alike[how], string(t.Name))
	}
	for _, group := range order {
		what, how, _ := strings.Cut(group, "\x00")
		names, word := alike[group], "tenant"
		if len(names) > 1 {
			word = fmt.Sprintf("%d tenants", len(names))
		}
		list := strings.Join(names[:min(len(names), namesShown)], ", ")
		if more := len(names) - namesShown; more > 0 {
			list += fmt.Sprintf(" and %d more", more)
		}
		fmt.Fprintf(&b, "%s %s: %s\n", word, what, list)
		if how != "" {
			fmt.Fprintln(&b, "  "+how)
		}
	}
	return b.String()
}
