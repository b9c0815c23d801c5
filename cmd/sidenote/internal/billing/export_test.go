package billing

// A Piece is a part of a prompt, of which a prefix may be cached.
type Piece struct {
	Place string // such as messages.0.content.1; "" for the head of a message
	Text  string
}

// Pieces returns a request as the model reads it, without marks.
func Pieces(api API, body []byte) ([]Piece, error) {
	p, err := parse(api, body, uncounted{})
	if err != nil {
		return nil, err
	}
	pieces := make([]Piece, len(p.segments))
	for i := range pieces {
		s := &p.segments[i]
		pieces[i] = Piece{s.place, string(rune(s.kind)) + s.text}
	}
	return pieces, nil
}

// An uncounted counts nothing.
type uncounted struct{}

func (uncounted) Count(string) (n int, exact bool) { return 0, true }
