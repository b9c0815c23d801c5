package answer

import "bytes"

// maxBeforeID is how many bytes at the start of an answer are searched for the id of a response.
const maxBeforeID = 64 << 10

// A ResponseID finds the id of a response in the answer, a response object or a stream of its
// events, which is written to it in pieces.
type ResponseID struct {
	Stream bool
	text   []byte
}

// Read reads the next piece. It returns done with the id once it is known, or with "" if there is
// none near the start of the answer.
func (r *ResponseID) Read(piece []byte) (id string, done bool) {
	r.text = append(r.text, piece[:min(len(piece), maxBeforeID-len(r.text))]...)
	at := 0
	if r.Stream {
		key := []byte(`"response":`)
		if at = bytes.Index(r.text, key); at < 0 {
			return "", len(r.text) == maxBeforeID
		}
		at += len(key)
	}
	c := cursor{text: r.text, i: at}
	c.object(func(name []byte) {
		if c.peek(); string(name) == "id" && id == "" && c.i < len(c.text) && c.text[c.i] == '"' {
			id = string(c.str())
			return
		}
		c.skip()
	})
	return id, id != "" || len(r.text) == maxBeforeID
}
