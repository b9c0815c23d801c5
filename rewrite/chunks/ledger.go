package chunks

// A Ledger is the account of the chunks of a request.
type Ledger struct {
	Total    int        `json:"total"`
	In       int        `json:"included"`
	Budget   int        `json:"budget"`      // max_tokens in force, or what the window leaves if that is less
	Tokens   int        `json:"token_count"` // of their messages; what surrounds each is included
	Exact    bool       `json:"token_count_exact"`
	Included []string   `json:"included_chunk_ids"`
	Excluded []Excluded `json:"excluded_chunk_ids"`
	Cut      string     `json:"cut_chunk_id,omitempty"`
	Messages []Grown    `json:"messages"`
}

// Grown is a message made of chunks or, if Joined, one of the application's that took chunks in
// at its end.
type Grown struct {
	Role     Role     `json:"role"`
	ChunkIDs []string `json:"chunk_ids"`
	Tokens   int      `json:"token_count"` // by which the request grows
	Joined   bool     `json:"joined,omitempty"`
}

// First returns a copy of the ledger with the first n ids of each list, and of the messages those
// that hold them; nil for nil.
func (l *Ledger) First(n int) *Ledger {
	if l == nil {
		return nil
	}
	c := *l
	c.Included, c.Excluded, c.Messages = firstOf(c.Included, n), firstOf(c.Excluded, n), firstOf(c.Messages, n)
	for i := range c.Messages {
		m := &c.Messages[i]
		m.ChunkIDs = firstOf(m.ChunkIDs, n)
		n -= len(m.ChunkIDs)
	}
	return &c
}

// firstOf copies, because a part of a list would keep all of it in memory.
func firstOf[T any](list []T, n int) []T { return append([]T{}, list[:min(len(list), n)]...) }
