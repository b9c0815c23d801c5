package chat

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
)

// A TurnDigest identifies a conversation up to a message.
type TurnDigest [sha256.Size]byte

// maxTurns is how many messages before the question Turns returns.
const maxTurns = 16

// Turns identifies the user's last messages by the user's texts up to them, the latest first: the
// question, and at most 16 messages before it.
func Turns(r *Request) []TurnDigest {
	_, last := r.Question()
	messages := slices.Collect(r.EarlierMessages(last + 1))
	digests := make([]TurnDigest, len(messages))
	var this TurnDigest
	for n, i := range slices.Backward(messages) {
		h := sha256.New()
		h.Write(this[:])
		for text := range r.texts(&r.kept[i]) {
			digestText(h, Unquote(text.Of(r.Body)))
		}
		h.Sum(this[:0])
		digests[n] = this
	}
	return digests[:min(len(digests), maxTurns+1)]
}

// A UserMessage identifies a message of the user.
type UserMessage struct {
	Text  TurnDigest
	Reply TurnDigest // of the last text between this message and the user's next one; zero if there is none
}

// UserMessages identifies the user's first message and, the latest first, at most 17 last ones.
// Without a message of the user there are none.
func UserMessages(r *Request) (first UserMessage, latest []UserMessage) {
	next := len(r.kept)
	for i := range r.EarlierMessages(len(r.kept)) {
		if len(latest) <= maxTurns {
			first = UserMessage{Text: r.digestMessage(i)}
			if next-1 > i && next < len(r.kept) {
				first.Reply = r.digestMessage(next - 1)
			}
			latest = append(latest, first)
		}
		next = i
	}
	if len(latest) > maxTurns {
		first = UserMessage{Text: r.digestMessage(next)}
	}
	return first, latest
}

// digestMessage hashes the text of a message or, if it has none, its content.
func (r *Request) digestMessage(i int) TurnDigest {
	m := &r.kept[i]
	if text := r.text(m); text != "" {
		return sha256.Sum256([]byte(text))
	}
	return sha256.Sum256(m.content.Of(r.Body))
}

// EndUser returns how the application names its user: safety_identifier, user, or user_id in
// metadata; "" if it does not.
func (r *Request) EndUser() string {
	found := map[string]string{}
	body := NewReader(r.Body)
	body.Object(func(member string) {
		switch {
		case (member == "user" || member == "safety_identifier") && body.Kind() == KindString:
			found[member] = body.Text()
		case member == "metadata" && body.Kind() == KindObject:
			body.Object(func(name string) {
				if name == "user_id" && body.Kind() == KindString {
					found[name] = body.Text()
					return
				}
				body.Value()
			})
		default:
			body.Value()
		}
	})
	return cmp.Or(found["safety_identifier"], found["user"], found["user_id"])
}

// A ConversationDigest identifies a Messages request among those of a conversation. Marks of the
// prompt cache, which clients move from turn to turn, and the form of a text, as a string or a block,
// make no difference, nor does the system prompt.
type ConversationDigest struct {
	First    TurnDigest // of its first message, the same for all turns
	Previous TurnDigest // This of the turn before; zero if this is the first one
	This     TurnDigest // of all its messages
}

// DigestConversation returns the digest of a Messages request.
func DigestConversation(r *Request) (d ConversationDigest) {
	all := r.items()
	last := len(all) - 1 // the last answer in the request
	for last >= 0 && RoleOf(r, last+len(r.Messages)-len(all)) != "assistant" {
		last--
	}
	for last > 0 && RoleOf(r, last-1+len(r.Messages)-len(all)) == "assistant" {
		last--
	}
	h := sha256.New()
	for i, m := range all {
		if i == last {
			h.Sum(d.Previous[:0])
		}
		r := NewReader(m.Of(r.Body))
		digestValue(h, &r, true)
		if i == 0 {
			h.Sum(d.First[:0])
		}
	}
	h.Sum(d.This[:0])
	if last <= 0 {
		d.Previous = TurnDigest{}
	}
	return d
}

// digestValue hashes the next value without marks and white space. The content of a message is hashed
// as blocks.
func digestValue(h hash.Hash, r *Reader, message bool) {
	switch r.Kind() {
	case KindObject:
		h.Write([]byte{'{'})
		r.Object(func(name string) {
			switch {
			case IsCacheMark(name):
				r.Value()
			case message && name == "content" && r.Kind() == KindString:
				digestText(h, name)
				digestText(h, r.Text())
			case message && name == "content" && r.Kind() == KindArray:
				digestText(h, name)
				r.Array(func(int) { digestBlock(h, r) })
			default:
				digestText(h, name)
				digestValue(h, r, false)
			}
		})
		h.Write([]byte{'}'})
	case KindArray:
		h.Write([]byte{'['})
		r.Array(func(int) { digestValue(h, r, false) })
		h.Write([]byte{']'})
	case KindString:
		digestText(h, r.Text())
	default:
		digestText(h, string(r.Value()))
	}
}

// digestBlock hashes a content block; one of text like its text alone.
func digestBlock(h hash.Hash, r *Reader) {
	raw := r.Value()
	kind, text := "", ""
	block := NewReader(raw)
	block.Object(func(name string) {
		switch name {
		case "type":
			kind = block.Text()
		case "text":
			text = block.Text()
		default:
			block.Value()
		}
	})
	if kind == "text" {
		digestText(h, text)
		return
	}
	again := NewReader(raw)
	digestValue(h, &again, false)
}

// digestText hashes a text with its length, so that different sequences have different hashes.
func digestText(h hash.Hash, s string) {
	h.Write(binary.AppendUvarint(nil, uint64(len(s))))
	h.Write([]byte(s))
}

// HasMember reports whether the body has a member of that name.
func (r *Request) HasMember(name string) (has bool) {
	body := NewReader(r.Body)
	body.Object(func(member string) {
		has = has || member == name
		body.Value()
	})
	return has
}

// FirstMember returns the offset at which a member can be inserted before all others.
func (r *Request) FirstMember() int { return r.first }
