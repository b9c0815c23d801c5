package explain

import (
	"strings"

	"sidenote/rewrite"
)

// HasQuestions tells whether texts of users are kept.
func (r *Ring) HasQuestions() bool { return r != nil && r.texts }

// Question returns what a tenant's request asked, without what looks like a key, and cut where it is
// long; "" if it is not kept, or was beyond 64 KiB with its conversation.
func (r *Ring) Question(id, tenant string) string {
	of := entry{}
	of.ID, of.Tenant = id, tenant
	r.mu.Lock()
	body := r.body(&of, received)
	r.mu.Unlock()
	if body == nil || body.Bytes != len(body.Text) {
		return ""
	}
	req, err := rewrite.Parse([]byte(body.Text))
	if err != nil {
		return ""
	}
	text, _ := req.Question()
	return short(maskedBeginning(text))
}

const (
	// enough is how much of a question is looked through for keys, in bytes.
	enough = 4 * maxText
	// unmasked is how long the beginning of a key may be that does not look like one.
	unmasked = 16
)

// maskedBeginning returns the beginning of a text without what looks like a key, also not the
// beginning of one.
func maskedBeginning(text string) string {
	if len(text) <= enough {
		return (&Body{Text: text}).masked().Text
	}
	text = (&Body{Text: text[:enough]}).masked().Text
	return strings.ToValidUTF8(text[:max(len(text)-unmasked, 0)], "") + " …"
}
