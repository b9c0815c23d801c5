package chunks

// A Ledger records what happened to the chunks of a request.
type Ledger struct {
	Total    int             `json:"total"`
	In       int             `json:"included"`
	Budget   int             `json:"budget"`      // max_tokens in force, or what the window leaves if less
	Tokens   int             `json:"token_count"` // of their messages, overhead included
	Exact    bool            `json:"token_count_exact"`
	Included []string        `json:"included_chunk_ids"`
	Excluded []Excluded      `json:"excluded_chunk_ids"`
	Cut      string          `json:"cut_chunk_id,omitempty"`
	Messages []LedgerMessage `json:"messages"`
}

// LedgerMessage is a message built from chunks or, if Joined, an application's message with chunks
// appended.
type LedgerMessage struct {
	Role     Role     `json:"role"`
	ChunkIDs []string `json:"chunk_ids"`
	Tokens   int      `json:"token_count"` // by which the request grows
	Joined   bool     `json:"joined,omitempty"`
}

// First returns a copy of the ledger limited to the first n ids of each list and the messages
// that contain them; nil for nil.
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

// firstOf returns a copy, because a subslice would keep the whole list in memory.
func firstOf[T any](list []T, n int) []T { return append([]T{}, list[:min(len(list), n)]...) }
