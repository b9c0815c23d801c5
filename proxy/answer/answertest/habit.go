package answertest

import "slices"

// A Habit describes how a server encodes answers. Fields about deltas apply to streams.
type Habit struct {
	Name string

	WholeCalls bool // each call comes in one delta
	OneDelta   bool // all calls come in one delta, with the finish reason and the usage
	NameApart  bool // the first delta of a call has no arguments, not even empty ones
	Repeats    bool // each delta has the role, and each delta of a call its id and type
	NoIndex    bool // calls have no index
	SameIndex  bool // each call has index 0
	NoIDs      bool // calls have no ids, not even in whole answers
	Stop       bool // the finish reason is stop even with calls

	IDPrefix string
	IDLength int // characters after the prefix

	Pieces func(text string) []string // splits texts and arguments into deltas
}

// Habits returns the habits of real servers, and of some that omit what OpenAI's documentation
// promises.
func Habits() []Habit {
	openai := Habit{Name: "openai", IDPrefix: "call_", IDLength: 24, Pieces: Every(5)}
	with := func(name string, change func(*Habit)) Habit {
		h := openai
		h.Name = name
		change(&h)
		return h
	}
	return []Habit{
		openai,
		with("ollama", func(h *Habit) { h.WholeCalls, h.Repeats, h.IDLength = true, true, 8 }),
		with("ollama-0.5", func(h *Habit) { h.WholeCalls, h.Repeats, h.IDLength, h.NoIndex, h.Stop = true, true, 8, true, true }),
		with("vllm", func(h *Habit) { h.NameApart, h.IDPrefix, h.IDLength = true, "chatcmpl-tool-", 32 }),
		with("repeating", func(h *Habit) { h.Repeats = true }),
		with("mistral", func(h *Habit) { h.WholeCalls, h.OneDelta, h.NoIndex, h.IDPrefix, h.IDLength = true, true, true, "", 9 }),
		with("same-index", func(h *Habit) { h.WholeCalls, h.SameIndex = true, true }),
		with("gemini", func(h *Habit) { h.WholeCalls, h.SameIndex, h.NoIDs = true, true, true }),
		with("no-index", func(h *Habit) { h.NoIndex = true }),
		with("no-ids", func(h *Habit) { h.NoIDs = true }),
		with("nothing", func(h *Habit) { h.WholeCalls, h.NoIDs, h.NoIndex = true, true, true }),
		with("one-character", func(h *Habit) { h.Pieces = Every(1) }),
	}
}

// Every splits a text into pieces of n characters.
func Every(n int) func(text string) []string {
	return func(text string) []string {
		var pieces []string
		for piece := range slices.Chunk([]rune(text), n) {
			pieces = append(pieces, string(piece))
		}
		return pieces
	}
}

// At splits a text in two after n characters if it has more.
func At(n int) func(text string) []string {
	return func(text string) []string {
		characters := []rune(text)
		if n <= 0 || n >= len(characters) {
			return []string{text}
		}
		return []string{string(characters[:n]), string(characters[n:])}
	}
}
