package chunks

import (
	"slices"
	"strings"
	"unicode"
)

// A row of the table is one tag of a type.
type row struct {
	tag        string
	role       Role
	attributes []string
	words      []string // of the tag's name
	telling    []string // attributes that not all tags of the type have
}

func newRow(tag string, role Role, attributes ...string) row {
	return row{tag: tag, role: role, attributes: append([]string{"id"}, attributes...), words: strings.Split(tag, "_")}
}

// table holds the tags of each type. The first is the default.
var table = telling(map[Type][]row{
	System: {newRow("system_context", RoleSystem, "priority")},
	Agent: {
		newRow("user_message", RoleUser, "role"),
		newRow("assistant_response", RoleAssistant, "role"),
		newRow("assistant_clarification", RoleAssistant, "role", "action"),
	},
	Workflow: {
		newRow("tool_call", RoleAssistant, "action", "tool", "call_id", "status"),
		newRow("skill_call", RoleAssistant, "action", "skill", "call_id", "status"),
	},
	Delegation: {
		newRow("spawn_subagent", RoleAssistant, "subagent_id", "agent_type"),
		newRow("message_to_subagent", RoleAssistant, "subagent_id"),
		newRow("subagent_result", RoleUser, "subagent_id", "success"),
		newRow("parent_agent_message", RoleUser, "parent_agent_id"),
	},
	Environment: {
		newRow("tool_result", RoleUser, "tool", "call_id", "success", "error"),
		newRow("skill_result", RoleUser, "skill", "call_id", "success"),
	},
	WorkingFlow: {
		newRow("progress_summary", RoleUser, "compacted_at", "original_count"),
		newRow("user_intervention", RoleUser, "subtype"),
		newRow("thinking", RoleAssistant, "subtype"),
		newRow("todo_update", RoleAssistant, "action"),
	},
	Output: {
		newRow("task_completed", RoleAssistant),
		newRow("task_abandoned", RoleAssistant, "reason"),
		newRow("task_terminated", RoleAssistant, "terminated_by"),
	},
	Custom: {newRow("chunk", RoleUser, "type")},
})

// telling sets the attributes that distinguish the tags of a type.
func telling(table map[Type][]row) map[Type][]row {
	for _, rows := range table {
		for i := range rows {
			for _, name := range rows[i].attributes {
				if slices.ContainsFunc(rows, func(other row) bool { return !slices.Contains(other.attributes, name) }) {
					rows[i].telling = append(rows[i].telling, name)
				}
			}
		}
	}
	return table
}

// rowOf selects the tag of a chunk among those of its type. If some have the chunk's role, only
// these count. The best one shares most words with the action, then with the subtype, then has
// most of its distinctive attributes in the metadata; ties go to the first.
func rowOf(c *Chunk) *row {
	rows := table[c.Type]
	if len(rows) == 1 {
		return &rows[0]
	}
	ofRole := false
	for i := range rows {
		ofRole = ofRole || string(rows[i].role) == c.Role
	}
	var best *row
	var most [3]int
	for i := range rows {
		r := &rows[i]
		if ofRole && string(r.role) != c.Role {
			continue
		}
		if speaks := r.spokenFor(c); best == nil || slices.Compare(speaks[:], most[:]) > 0 {
			best, most = r, speaks
		}
	}
	return best
}

// spokenFor returns how well the tag matches the chunk, most important criterion first.
func (r *row) spokenFor(c *Chunk) (n [3]int) {
	n[0], n[1] = r.shares(c.Action), r.shares(c.Subtype)
	if len(c.Metadata) > 0 {
		for _, name := range r.telling {
			if _, ok := c.Metadata[name]; ok {
				n[2]++
			}
		}
	}
	return n
}

// shares counts the words of text that are also in the tag's name, ignoring case and inflection:
// clarify matches assistant_clarification.
func (r *row) shares(text string) (n int) {
	if text == "" {
		return 0
	}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) }) {
		for _, ours := range r.words {
			if strings.EqualFold(stem(word), stem(ours)) {
				n++
			}
		}
	}
	return n
}

// stem returns the first six bytes of a word, which distinguish the words of the table.
func stem(word string) string { return word[:min(len(word), 6)] }

// CanRender returns true; a row renders any chunk.
func (r *row) CanRender(*Chunk) bool { return true }

// Role returns the role of the tag's messages.
func (r *row) Role(*Chunk) Role { return r.role }

// Render returns the element with the attributes that the chunk has.
func (r *row) Render(c *Chunk) Element { return r.render(c, nil) }

// render is like Render but appends the attributes to shown.
func (r *row) render(c *Chunk, shown []Attribute) Element {
	for _, name := range r.attributes {
		if value := c.attribute(name); value != "" {
			shown = append(shown, Attribute{name, value})
		}
	}
	return Element{Tag: r.tag, Attributes: shown, Body: c.Content}
}

// Tags returns all tags of the table.
func Tags() (names []string) {
	for _, t := range Types() {
		for i := range table[t] {
			names = append(names, table[t][i].tag)
		}
	}
	return names
}
