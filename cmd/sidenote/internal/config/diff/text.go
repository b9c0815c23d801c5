package diff

import (
	"cmp"
	"fmt"
	"strings"
)

// shownLength is how much of a value a line shows, in bytes.
const shownLength = 120

// String is a change in a line: "context_tokens: 2000 → 1000".
func (c Change) String() string {
	text := fmt.Sprintf("%s: %s → %s", c.Key, shown(c.Old), shown(c.New))
	if c.Secret {
		text = fmt.Sprintf("%s: %s, and what is read there has changed", c.Key, shown(c.New))
	}
	return text
}

// shown is a value on one line, cut where it is long.
func shown(text string) string {
	text = strings.Join(strings.Fields(cmp.Or(text, "not set")), " ")
	if len(text) > shownLength {
		text = strings.ToValidUTF8(text[:shownLength], "") + "…"
	}
	return text
}

// String is all of it about a tenant in a line.
func (t Tenant) String() string {
	text := fmt.Sprintf("tenant %s %s", t.Name, t.What)
	if len(t.Changes) > 0 {
		text += ": " + t.how("; ")
	}
	return text
}

func (t Tenant) how(separator string) string {
	lines := make([]string, len(t.Changes))
	for i, c := range t.Changes {
		lines[i] = c.String()
	}
	return strings.Join(lines, separator)
}

// namesShown is how many tenants that change alike are named.
const namesShown = 10

// String is for people: tenants that change alike stand together.
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
		how := t.What + "\x00" + t.how("\n  ")
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
