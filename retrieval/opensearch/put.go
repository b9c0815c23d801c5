package opensearch

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"iter"
	"math"
	"slices"

	"sidenote/retrieval/engine"
)

// A record is what .documents holds of a document: the version that is visible and the one that is
// written. Which one is visible follows from their generations, so a Commit changes no record.
type record struct {
	Doc  string   `json:"doc"`
	Born int64    `json:"born"`           // of New
	Gone int64    `json:"gone,omitempty"` // Born if New is deleted
	Put  string   `json:"put"`            // the Put that wrote it, see journal
	Old  *version `json:"old"`            // nil: there is none
	New  *version `json:"new"`
}

// A version of a document.
type version struct {
	Born       int64  `json:"born"`
	Deleted    bool   `json:"deleted,omitempty"`
	Chunks     int    `json:"chunks"`
	Embedded   int    `json:"embedded"`
	Dimensions int    `json:"dimensions"`
	Bytes      int64  `json:"bytes"`
	Length     uint64 `json:"length"`
	Distinct   uint64 `json:"distinct"`
	Source     string `json:"source"`
	Stamp      string `json:"stamp"`
	Sum        string `json:"sum"` // hexadecimal
	// The terms of the chunks: parallel lists.
	Terms []string `json:"terms"`
	Texts []int    `json:"texts"`
	Total []int64  `json:"total"`
}

// visible returns the version that a generation shows, nil for none.
func (r *record) visible(generation int64) *version {
	v := r.New
	if v != nil && v.Born > generation {
		v = r.Old
	}
	if v == nil || v.Deleted || v.Born > generation {
		return nil
	}
	return v
}

// pending returns the version that was put and is not visible yet, nil for none.
func (r *record) pending(current int64) *version {
	if r.New != nil && r.New.Born > current {
		return r.New
	}
	return nil
}

// A stored record with the number that makes a write of it conditional.
type stored struct {
	record
	found   bool
	seq     int64
	primary int64
}

// A journal lists the documents of the last Put. A Put writes records last, with its name, so a document
// whose record has another name was not written whole.
type journal struct {
	Put       string         `json:"put"`
	Documents []journalEntry `json:"documents"`
}

// A journalEntry says what a Put changes of one document, by the ids of chunks.
type journalEntry struct {
	Doc    string `json:"doc"`
	Born   int64  `json:"born"`   // of the version that is put
	Chunks int    `json:"chunks"` // of it
	// Ends is the visible version, whose chunks end: 0 for none, or if they were ended before.
	Ends       int64 `json:"ends"`
	EndsChunks int   `json:"ends_chunks"`
	// Drops is a version that was put before and never was visible.
	Drops       int64 `json:"drops"`
	DropsChunks int   `json:"drops_chunks"`
}

func (l *lease) journalID() string { return l.base + "/journal" }

// Put replaces documents and deletes others.
func (l *lease) Put(ctx context.Context, documents []engine.Document, deleted []string) error {
	if err := l.hold(ctx, nil); err != nil {
		return err
	}
	if err := l.recover(ctx); err != nil {
		return err
	}
	changes, err := l.plan(ctx, documents, deleted)
	if err != nil || len(changes) == 0 {
		return err
	}
	put := rand.Text()
	l.torn = true
	if err := l.writeJournal(ctx, changes, put); err != nil {
		return err
	}
	if err := l.writeChunks(ctx, changes); err != nil {
		return fmt.Errorf("put chunks: %w", err)
	}
	if err := l.keep(ctx); err != nil {
		return err
	}
	if err := l.writeRecords(ctx, changes, put); err != nil {
		return fmt.Errorf("put documents: %w", err)
	}
	l.torn = false
	return nil
}

// maxDocumentID is below the size of the longest term of an index.
const maxDocumentID = 32_000

// A change replaces or deletes one document.
type change struct {
	id       string           // of the document, see idOf
	document *engine.Document // nil: it is deleted
	stored   stored
	next     version
	journalEntry
}

// plan reads the records of documents and says what changes.
func (l *lease) plan(ctx context.Context, documents []engine.Document, deleted []string) ([]change, error) {
	changes := make([]change, 0, len(documents)+len(deleted))
	for i := range documents {
		d := &documents[i]
		v, err := l.versionOf(d)
		if err != nil {
			return nil, err
		}
		changes = append(changes, change{id: idOf(d.ID), document: d, next: v, journalEntry: journalEntry{Doc: d.ID, Born: v.Born, Chunks: v.Chunks}})
	}
	for _, id := range deleted {
		v := version{Born: l.state.Next, Deleted: true}
		changes = append(changes, change{id: idOf(id), next: v, journalEntry: journalEntry{Doc: id, Born: v.Born}})
	}
	ids := make([]string, len(changes))
	for i := range changes {
		ids[i] = changes[i].id
	}
	records, err := l.records(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i := range changes {
		c := &changes[i]
		c.stored = records[i]
		if !c.stored.found {
			continue
		}
		visible, pending := c.stored.visible(l.state.Current), c.stored.pending(l.state.Current)
		if visible != nil && pending == nil {
			c.Ends, c.EndsChunks = visible.Born, visible.Chunks
		}
		if pending != nil {
			c.Drops, c.DropsChunks = pending.Born, pending.Chunks
		}
	}
	return slices.DeleteFunc(changes, func(c change) bool { return c.document == nil && !c.stored.found }), nil
}

// versionOf checks a document and describes it.
func (l *lease) versionOf(d *engine.Document) (version, error) {
	v := version{
		Born: l.state.Next, Chunks: len(d.Chunks), Source: d.Source, Stamp: d.Stamp, Sum: hex.EncodeToString(d.Sum[:]),
	}
	if d.ID == "" || len(d.ID) > maxDocumentID {
		return v, fmt.Errorf("document %.100q: id has %d bytes, not 1 to %d", d.ID, len(d.ID), maxDocumentID)
	}
	if len(d.Words) != len(d.Chunks) {
		return v, fmt.Errorf("document %.100q: has words of %d chunks, and %d chunks", d.ID, len(d.Words), len(d.Chunks))
	}
	for i := range d.Chunks {
		c := &d.Chunks[i]
		v.Bytes += int64(len(c.Text))
		v.Length += uint64(max(0, c.Length))
		v.Distinct += uint64(engine.Distinct(c.Packed))
		if len(c.Vector) == 0 {
			continue
		}
		if err := checkVector(c.Vector); err != nil {
			return v, fmt.Errorf("document %.100q: chunk %d: %w", d.ID, i, err)
		}
		if v.Embedded > 0 && v.Dimensions != len(c.Vector) {
			return v, fmt.Errorf("document %.100q: chunk %d: vector has %d dimensions, the ones before have %d", d.ID, i, len(c.Vector), v.Dimensions)
		}
		v.Dimensions = len(c.Vector)
		v.Embedded++
	}
	for _, t := range d.Terms {
		v.Terms, v.Texts, v.Total = append(v.Terms, t.Text), append(v.Texts, t.Texts), append(v.Total, t.Total)
	}
	return v, nil
}

// checkVector refuses what no cosine can be computed of.
func checkVector(v []float32) error {
	var sum float64
	for _, f := range v {
		sum += float64(f) * float64(f)
	}
	if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return fmt.Errorf("vector has length %v", math.Sqrt(sum))
	}
	return nil
}

// recordsPart is how many records are read at a time: those of large documents have 100 kB of terms.
const recordsPart = 100

// records reads the records of documents by their ids, at the latest state.
func (l *lease) records(ctx context.Context, ids []string) ([]stored, error) {
	out := make([]stored, 0, len(ids))
	for part := range slices.Chunk(ids, recordsPart) {
		body, err := l.server.client.call(ctx, "POST", "/"+l.server.documentsOf(l.base)+"/_mget", mustJSON(object{"ids": part}))
		if err != nil {
			return nil, fmt.Errorf("read documents: %w", err)
		}
		var answer struct {
			Docs []struct {
				ID      string `json:"_id"`
				Found   bool   `json:"found"`
				Seq     int64  `json:"_seq_no"`
				Primary int64  `json:"_primary_term"`
				Source  record `json:"_source"`
			} `json:"docs"`
		}
		if err := json.Unmarshal(body, &answer); err != nil || len(answer.Docs) != len(part) {
			return nil, fmt.Errorf("read documents: %w", errAnswer)
		}
		for i, d := range answer.Docs {
			if d.ID != part[i] {
				return nil, fmt.Errorf("read documents: %w: another document", errAnswer)
			}
			out = append(out, stored{d.Source, d.Found, d.Seq, d.Primary})
		}
	}
	return out, nil
}

func (l *lease) writeJournal(ctx context.Context, changes []change, put string) error {
	j := journal{Put: put}
	for i := range changes {
		j.Documents = append(j.Documents, changes[i].journalEntry)
	}
	return l.setJournal(ctx, j)
}

// setJournal replaces the journal, unless a later lease wrote it.
func (l *lease) setJournal(ctx context.Context, j journal) error {
	path := fmt.Sprintf("/%s/_doc/%s?require_alias=true&version_type=external_gte&version=%d", l.server.stateIndex(), pathOf(l.journalID()), l.token)
	if _, err := l.server.client.call(ctx, "PUT", path, mustJSON(j)); err != nil {
		if exists(err) {
			return fmt.Errorf("base %s: %w", l.base, engine.ErrLeaseLost)
		}
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// writeChunks writes the chunks of the new versions, ends those of visible ones and removes those of
// versions that never were visible.
func (l *lease) writeChunks(ctx context.Context, changes []change) error {
	b := l.bulk(l.server.chunksOf(l.base))
	var ended []string
	for i := range changes {
		c := &changes[i]
		if c.document != nil {
			if err := l.addField(ctx, c.next.Dimensions); err != nil {
				return err
			}
			if err := l.writeDocument(ctx, b, c); err != nil {
				return err
			}
		}
		for n := range c.EndsChunks {
			ended = append(ended, chunkID(c.id, c.Ends, n))
		}
		from := 0
		if c.Drops == c.Born {
			from = c.Chunks // the others were overwritten
		}
		for n := from; n < c.DropsChunks; n++ {
			if err := b.delete(ctx, chunkID(c.id, c.Drops, n)); err != nil {
				return err
			}
		}
	}
	if err := b.flush(ctx); err != nil {
		return err
	}
	return l.setDied(ctx, ended, l.state.Next)
}

func (l *lease) writeDocument(ctx context.Context, b *bulk, c *change) error {
	attrs, err := tokensOf(c.document.Attributes)
	if err != nil {
		return fmt.Errorf("document %.100q: %w", c.document.ID, err)
	}
	for n := range c.document.Chunks {
		if err := b.index(ctx, chunkID(c.id, c.Born, n), l.source(c, n, attrs)); err != nil {
			return err
		}
		if key := c.document.Chunks[n].VectorKey; key != nil {
			l.fresh[string(key)] = true
		}
	}
	return nil
}

// source returns a chunk as it is stored. The fields below c are read by searches, those below n for
// the best chunks.
func (l *lease) source(c *change, n int, attrs []string) object {
	d := c.document
	k := &d.Chunks[n]
	words := make([]string, len(d.Words[n]))
	for i, w := range d.Words[n] {
		words[i] = wordOf(w)
	}
	out := object{
		"base": l.base, "doc": c.id, "ordinal": n, "born": c.Born, "died": never, "attrs": attrs,
		"sample": sampleOf(d.ID, n), "length": k.Length, "words": joined(words),
		"c": object{
			"base": l.base, "doc": d.ID, "ordinal": n, "name": d.Name, "section": k.Section, "text": k.Text,
			"attributes": d.Attributes, "tokens": k.Tokens, "sketch": k.Sketch, "length": k.Length, "packed": k.Packed,
			"key": k.VectorKey, "chunks": c.next.Chunks, "lengths": c.next.Length,
		},
	}
	neighbours := object{}
	if n > 0 {
		neighbours["b"] = d.Chunks[n-1].Text
	}
	if n+1 < len(d.Chunks) {
		neighbours["a"] = d.Chunks[n+1].Text
	}
	out["n"] = neighbours
	if len(k.Vector) > 0 {
		packed := packVector(k.Vector)
		rounded, _ := unpackVector(packed) // what was just packed
		out["v"], out[vectorField(len(k.Vector))] = packed, rounded
	}
	if k.VectorKey != nil {
		out["key"] = keyOf(k.VectorKey)
	}
	return out
}

func keyOf(key []byte) string { return base64.RawURLEncoding.EncodeToString(key) }

// sampleOf orders chunks at random, but always the same way.
func sampleOf(document string, ordinal int) int64 {
	h := fnv.New64a()
	_, _ = h.Write(binary.AppendUvarint([]byte(document), uint64(ordinal)))
	return int64(mix(h.Sum64()) >> 1)
}

// mix spreads the bits of a hash, by the finalizer of MurmurHash3.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// addField creates the field of vectors of some dimensions.
func (l *lease) addField(ctx context.Context, dimensions int) error {
	if dimensions == 0 || l.fields[dimensions] {
		return nil
	}
	body := object{"properties": object{vectorField(dimensions): l.dialect.vectorField(dimensions)}}
	if _, err := l.server.client.call(ctx, "PUT", "/"+l.server.chunksOf(l.base)+"/_mapping", mustJSON(body)); err != nil {
		return fmt.Errorf("field of vectors with %d dimensions: %w", dimensions, err)
	}
	l.fields[dimensions] = true
	return nil
}

// setDied changes the generation at which chunks end. The vector of a chunk is sent again, as it is not part
// of the source that an update starts from.
func (l *lease) setDied(ctx context.Context, ids []string, died int64) error {
	for part := range slices.Chunk(ids, 200) {
		body, err := l.server.client.call(ctx, "POST", "/"+l.server.chunksOf(l.base)+"/_mget?_source_includes=v,died", mustJSON(object{"ids": part}))
		if err != nil {
			return err
		}
		var answer struct {
			Docs []struct {
				ID     string `json:"_id"`
				Found  bool   `json:"found"`
				Source struct {
					Vector string `json:"v"`
					Died   int64  `json:"died"`
				} `json:"_source"`
			} `json:"docs"`
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return fmt.Errorf("%w: %w", errAnswer, err)
		}
		b := l.bulk(l.server.chunksOf(l.base))
		for _, d := range answer.Docs {
			if !d.Found || d.Source.Died == died {
				continue
			}
			changed := object{"died": died}
			v, err := unpackVector(d.Source.Vector)
			if err != nil {
				return fmt.Errorf("%w: chunk %.100q: %w", errAnswer, d.ID, err)
			}
			if v != nil {
				changed[vectorField(len(v))] = v
			}
			if err := b.update(ctx, d.ID, changed); err != nil {
				return err
			}
		}
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// writeRecords writes the records of changes, each on condition that nobody else changed it.
func (l *lease) writeRecords(ctx context.Context, changes []change, put string) error {
	b := l.bulk(l.server.documentsOf(l.base))
	for i := range changes {
		c := &changes[i]
		r := record{Doc: c.Doc, Born: c.Born, Put: put, Old: c.stored.visible(l.state.Current), New: &c.next}
		if c.next.Deleted {
			r.Gone = c.Born
		}
		if err := b.replace(ctx, c.id, r, c.stored); err != nil {
			return err
		}
	}
	return b.flush(ctx)
}

// recover undoes what a Put wrote of documents whose record it did not write: chunks of their new
// version are removed, and those of the visible version do not end. Then the document is as it was
// before a Put, and if it had been put, but never was visible, it has to be put again.
func (l *lease) recover(ctx context.Context) error {
	if !l.torn {
		return nil
	}
	j, err := l.readJournal(ctx)
	if err != nil {
		return err
	}
	ids := make([]string, len(j.Documents))
	for i, e := range j.Documents {
		ids[i] = idOf(e.Doc)
	}
	records, err := l.records(ctx, ids)
	if err != nil {
		return err
	}
	u := undo{lease: l, chunks: l.bulk(l.server.chunksOf(l.base)), records: l.bulk(l.server.documentsOf(l.base))}
	for i, e := range j.Documents {
		if records[i].found && records[i].Put == j.Put {
			continue // its record was written, which is the last of its writes
		}
		if err := u.document(ctx, ids[i], e, records[i]); err != nil {
			return fmt.Errorf("recover: %w", err)
		}
	}
	if err := u.finish(ctx); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	if len(j.Documents) > 0 {
		if err := l.setJournal(ctx, journal{}); err != nil {
			return err
		}
	}
	l.torn = false
	return nil
}

// An undo takes back what a Put wrote.
type undo struct {
	lease   *lease
	chunks  *bulk
	records *bulk
	alive   []string // chunks that do not end
}

func (u *undo) document(ctx context.Context, id string, e journalEntry, r stored) error {
	for n := range e.Chunks {
		if err := u.chunks.delete(ctx, chunkID(id, e.Born, n)); err != nil {
			return err
		}
	}
	for n := range e.DropsChunks {
		if err := u.chunks.delete(ctx, chunkID(id, e.Drops, n)); err != nil {
			return err
		}
	}
	visible := r.visible(u.lease.state.Current)
	if visible != nil {
		for n := range visible.Chunks {
			u.alive = append(u.alive, chunkID(id, visible.Born, n))
		}
	}
	if !r.found || r.pending(u.lease.state.Current) == nil {
		return nil
	}
	return u.lease.withdraw(ctx, u.records, id, r, visible)
}

func (u *undo) finish(ctx context.Context) error {
	if err := u.chunks.flush(ctx); err != nil {
		return err
	}
	if err := u.lease.setDied(ctx, u.alive, never); err != nil {
		return err
	}
	return u.records.flush(ctx)
}

// withdraw takes back a version that was put and is not visible yet.
func (l *lease) withdraw(ctx context.Context, b *bulk, id string, r stored, visible *version) error {
	if visible == nil {
		return b.delete(ctx, id)
	}
	return b.replace(ctx, id, record{Doc: r.Doc, Born: visible.Born, New: visible}, r)
}

func (l *lease) readJournal(ctx context.Context) (journal, error) {
	body, err := l.server.client.call(ctx, "GET", "/"+l.server.stateIndex()+"/_doc/"+pathOf(l.journalID()), nil)
	if missing(err) {
		return journal{}, nil
	}
	if err != nil {
		return journal{}, fmt.Errorf("read journal: %w", err)
	}
	var answer struct {
		Source journal `json:"_source"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return journal{}, fmt.Errorf("read journal: %w: %w", errAnswer, err)
	}
	return answer.Source, nil
}

// Known yields the documents that the next Commit makes visible.
func (l *lease) Known(ctx context.Context) iter.Seq2[engine.Known, error] {
	return func(yield func(engine.Known, error) bool) {
		if err := l.prepare(ctx); err != nil {
			yield(engine.Known{}, err)
			return
		}
		for r, err := range l.scan(ctx, l.server.documentsOf(l.base), object{"match_all": object{}}, "new.terms", "new.texts", "new.total", "old") {
			if err != nil {
				yield(engine.Known{}, err)
				return
			}
			k, ok, err := known(r)
			if ok || err != nil {
				if !yield(k, err) || err != nil {
					return
				}
			}
		}
	}
}

// prepare renews the lease, recovers, and makes the documents searchable.
func (l *lease) prepare(ctx context.Context) error {
	if err := l.hold(ctx, nil); err != nil {
		return err
	}
	if err := l.recover(ctx); err != nil {
		return err
	}
	return l.refresh(ctx, l.server.documentsOf(l.base))
}

func known(r record) (engine.Known, bool, error) {
	v := r.New
	if v == nil || v.Deleted {
		return engine.Known{}, false, nil
	}
	k := engine.Known{ID: r.Doc, Source: v.Source, Stamp: v.Stamp, Chunks: v.Chunks, Embedded: v.Embedded}
	sum, err := hex.DecodeString(v.Sum)
	if err != nil || len(sum) != len(k.Sum) {
		return k, false, fmt.Errorf("%w: document %.100q has the sum %.100q", errAnswer, r.Doc, v.Sum)
	}
	copy(k.Sum[:], sum)
	return k, true, nil
}

// scan yields the records that match a query, without some fields, in pages by id.
func (l *lease) scan(ctx context.Context, index string, query object, without ...string) iter.Seq2[record, error] {
	size := recordsPart
	if len(without) > 0 {
		size = 1000
	}
	return func(yield func(record, error) bool) {
		body := object{
			"size": size, "track_total_hits": false, "query": query, "sort": []object{{"doc": "asc"}},
		}
		if len(without) > 0 {
			body["_source"] = object{"excludes": without}
		}
		for {
			p, err := l.server.page(ctx, index, body)
			if err != nil {
				yield(record{}, fmt.Errorf("list documents: %w", err))
				return
			}
			for _, h := range p.hits {
				var r record
				err := json.Unmarshal([]byte(h.source.Raw), &r)
				if !yield(r, err) || err != nil {
					return
				}
			}
			if len(p.hits) < size {
				return
			}
			body["search_after"] = p.hits[len(p.hits)-1].sortValues()
		}
	}
}

// Vectors returns the stored vectors with some keys.
func (l *lease) Vectors(ctx context.Context, keys [][]byte) (map[string][]float32, error) {
	if err := l.keep(ctx); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(keys, func(k []byte) bool { return l.fresh[string(k)] }) {
		if err := l.refresh(ctx, l.server.chunksOf(l.base)); err != nil {
			return nil, err
		}
	}
	vectors := make(map[string][]float32, len(keys))
	for part := range slices.Chunk(keys, 500) {
		terms := make([]string, len(part))
		for i, k := range part {
			terms[i] = keyOf(k)
		}
		p, err := l.server.page(ctx, l.server.chunksOf(l.base), object{
			"size": len(part), "track_total_hits": false, "query": object{"terms": object{"key": terms}},
			"collapse": object{"field": "key"}, "_source": []string{"key", "v"},
		})
		if err != nil {
			return nil, fmt.Errorf("read vectors: %w", err)
		}
		for _, h := range p.hits {
			key, err := base64.RawURLEncoding.DecodeString(h.source.Get("key").Str)
			if err != nil {
				return nil, fmt.Errorf("read vectors: %w: %w", errAnswer, err)
			}
			v, err := unpackVector(h.source.Get("v").Str)
			if err != nil {
				return nil, fmt.Errorf("read vectors: %w: %w", errAnswer, err)
			}
			if v != nil {
				vectors[string(key)] = v
			}
		}
	}
	return vectors, nil
}
