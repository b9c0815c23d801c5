package explain

import (
	"strings"

	"sidenote/rewrite/chat"
)

// HasQuestions reports whether texts of users are kept.
func (r *Ring) HasQuestions() bool { return r != nil && r.texts }

// Question returns the question of a tenant's request with keys masked, shortened if it is long;
// "" if it is not kept, or if the body was longer than 64 KiB.
func (r *Ring) Question(id, tenant string) string {
	of := entry{}
	of.ID, of.Tenant = id, tenant
	r.mu.Lock()
	body := r.body(&of, received)
	r.mu.Unlock()
	if body == nil || body.Bytes != len(body.Text) {
		return ""
	}
	req, err := chat.APIOf([]byte(body.Text)).Parse([]byte(body.Text))
	if err != nil {
		return ""
	}
	text, _ := req.Question()
	return short(maskedBeginning(text))
}

const (
	// enough is how much of a question is searched for keys, in bytes.
	enough = 4 * maxText
	// unmasked is the longest prefix of a key that is not recognised as one.
	unmasked = 16
)

// maskedBeginning returns the beginning of a text with keys masked, including a key that is cut
// off at the end.
func maskedBeginning(text string) string {
	if len(text) <= enough {
		return (&Body{Text: text}).masked().Text
	}
	text = (&Body{Text: text[:enough]}).masked().Text
	return strings.ToValidUTF8(text[:max(len(text)-unmasked, 0)], "") + " …"
}
