package main

import (
	"hash/maphash"
	"sync/atomic"

	"sidenote/rewrite"
	"sidenote/rewrite/tokens"
)

// models is the model table with the encodings that count. It remembers the names
// asked for last, in a table of a fixed size: names come from clients.
type models struct {
	table     []tokens.Model
	encodings *tokens.Set
	recent    [64]atomic.Pointer[resolved]
}

type resolved struct {
	name  string
	model rewrite.Model
}

// nameSeed spreads names over the table; it is made once and never changes.
var nameSeed = maphash.MakeSeed()

// Model resolves a model's name.
func (m *models) Model(name string) rewrite.Model {
	slot := &m.recent[maphash.String(nameSeed, name)%uint64(len(m.recent))]
	if r := slot.Load(); r != nil && r.name == name {
		return r.model
	}
	row, _ := tokens.Lookup(m.table, name)
	counter, err := m.encodings.Encoding(row.Encoding)
	if err != nil {
		panic("BUG: model table: " + err.Error())
	}
	model := rewrite.Model{
		Row: row.Match, Encoding: row.Encoding, Window: row.Window, MaxOutput: row.MaxOutput, DefaultOutput: row.DefaultOutput,
		Estimated: row.Estimated, NoSystem: row.NoSystem, Counter: counter, Images: row.Images,
	}
	if len(name) <= maxRemembered {
		slot.Store(&resolved{name, model})
	}
	return model
}

// maxRemembered is the longest name of a model that is remembered, in bytes.
const maxRemembered = 128
