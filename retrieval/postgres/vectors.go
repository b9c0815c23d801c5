package postgres

import (
	"fmt"
	"strings"
)

// vectorParts find the best chunks by vector. Where a filter leaves few chunks, all their vectors
// are compared; otherwise the index of the base is scanned until enough neighbours match. A base
// without an index is small, and all its vectors are compared.
//
// The index holds vectors in half precision, whose rounding swaps neighbours, so a scan reads some
// more of them than are needed.
//
// A chunk is visible if its document is, so a scan asks for the document of each neighbour, one
// after another: a join would let the planner read all of them first.
func (b *searchSQL) vectorParts(vector string) []string {
	dimensions := len(b.q.Vector)
	half := fmt.Sprintf("%s.halfvec(%d)", b.vectors.schema, dimensions)
	order := fmt.Sprintf("c.embedding::%[1]s operator(%[2]s.<=>) %[3]s::%[1]s", half, b.vectors.schema, vector)
	var sources []string
	for _, id := range b.ids {
		few := fmt.Sprintf("(select yes from few_%d)", id)
		where := fmt.Sprintf("c.base = %d and c.dimensions = %d", id, dimensions)
		scan := fmt.Sprintf("%s and (select %s%s from %s.documents d where d.key = c.doc)", where, b.visible(id), b.restriction(), b.s.schema)
		if b.restricted() {
			scan += " and not " + few
		}
		sources = append(sources, fmt.Sprintf("(select c.base, c.doc, c.ordinal, c.embedding from %s.chunks c where %s order by %s limit %d)",
			b.s.schema, scan, order, b.q.Depth+b.q.Depth/4+1))
		if b.restricted() {
			sources = append(sources, fmt.Sprintf("(select c.base, c.doc, c.ordinal, c.embedding from matching_%d m cross join lateral (select * from %s.chunks c where %s and c.doc = m.key offset 0) c where %s)",
				id, b.s.schema, where, few))
		}
	}
	return []string{fmt.Sprintf(`by_vector as materialized (
  select base, doc, ordinal, row_number() over (order by distance, base, doc, ordinal) as place from (
    select n.base, n.doc, n.ordinal, n.embedding::%[1]s.vector operator(%[1]s.<=>) %[2]s as distance from (
%[3]s) n
    order by distance, base, doc, ordinal limit %[4]d) best)`, b.vectors.schema, vector, strings.Join(sources, "\nunion all\n"), b.q.Depth)}
}

// payload reads the chunks that were found. Their texts are read by their keys, at most two for
// each of the Depth candidates of each kind.
func (b *searchSQL) payload(vector string) string {
	cosine := "0::float8"
	if vector != "" {
		cosine = fmt.Sprintf("case when c.dimensions = %d then 1 - (c.embedding::%s.vector operator(%s.<=>) %s) else 0 end",
			len(b.q.Vector), b.vectors.schema, b.vectors.schema, vector)
	}
	neighbour := func(step int) string {
		return fmt.Sprintf("(select n.body from %s.chunks n where least(h.words, h.vector) <= %d and n.base = h.base and n.base in (%s) and n.doc = h.doc and n.ordinal = h.ordinal + %d)",
			b.s.schema, b.q.Neighbours, b.all(), step)
	}
	return fmt.Sprintf(`select h.base, h.words, h.vector, %s, d.chunks, d.length, d.id, c.ordinal, d.name, c.section, c.body, %s, %s,
  d.attributes, c.tokens, c.sketch, c.length, c.packed
from hit h
join %s.chunks c on c.base = h.base and c.base in (%s) and c.doc = h.doc and c.ordinal = h.ordinal
join %s.documents d on d.key = h.doc`, cosine, neighbour(-1), neighbour(+1), b.s.schema, b.all(), b.s.schema)
}
