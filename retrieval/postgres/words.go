package postgres

import (
	"fmt"
	"strings"

	"sidenote/retrieval/engine"
)

// Search by words. Postgres ranks by ts_rank and ts_rank_cd, which do not know how common a word
// is. So the tsvector of a chunk holds Sidenote's terms, the table terms says how common they are,
// and the rank is BM25 with k1 = 1.2 and b = 0.75 (Robertson and Zaragoza, The Probabilistic
// Relevance Framework, 2009).
//
// The frequency of a term is not stored apart from the tsvector. It is computed from ts_rank of
// that term alone, which is the weight of its occurrences, 0.1, times the sum of 1/i² for i up to
// the frequency, divided by its limit, π²/6. As the rest of the sum is about 1/(frequency + 0.6), the
// frequency is about 10 rank / (π²/6 · (1 - 10 rank)), within 6%. With that, the part of BM25 that
// depends on the frequency,
//
//	frequency / (frequency + k), where k = 1.2 · (0.25 + 0.75 · length / mean length),
//
// is 1 / (1 - s + s / (10 rank)) for s = k · π²/6, in which rank is computed once.

// mostPositions bounds the occurrences of a term that are stored; more hardly raise the rank.
const mostPositions = 63

// spread is the expression of s of a row with a length.
const spread = "1.9739208802178716 * (0.25 + 0.75 * r.length / greatest(1, %s))"

// gainColumns make a table of one row, w, from the table term: q1, g1, q2, … with a query for each
// term and what it can add to a rank. NULLs follow the last.
func gainColumns(n int) string {
	var columns []string
	for i := 1; i <= n; i++ {
		columns = append(columns, fmt.Sprintf("a.q[%[1]d] as q%[1]d, a.g[%[1]d] as g%[1]d", i))
	}
	return "w as materialized (select " + strings.Join(columns, ", ") +
		" from (select array_agg(lexeme::tsquery order by place) as q, array_agg(2.2 * gain order by place) as g from term) a)"
}

// score is the rank of a row r with columns words and spread, from a row of the table w.
func score(n int) string {
	var terms []string
	for i := 1; i <= n; i++ {
		terms = append(terms, fmt.Sprintf("coalesce(w.g%[1]d / (1 - r.spread + r.spread / (10 * greatest(1e-9, ts_rank('{0.1, 0.1, 0.1, 0.1}'::real[], r.words, w.q%[1]d)))), 0)", i))
	}
	return strings.Join(terms, "\n    + ")
}

// lexeme returns a term as a part of a tsquery or tsvector.
func lexeme(term string) string { return "'" + lexemeEscapes.Replace(term) + "'" }

var lexemeEscapes = strings.NewReplacer("'", "''", `\`, `\\`, "\x00", "")

// wordParts find the best chunks by words. A chunk without one of the rarest terms is rarely among
// the best, so only those with one are ranked, by all terms. If these terms are so rare that there
// are few such chunks, those with two of the more common terms are ranked too.
func (b *searchSQL) wordParts(args *arguments) []string {
	texts, lexemes, weights := termColumns(b.q.Terms)
	term := fmt.Sprintf(`mean as materialized (select greatest(1, sum(chunks))::float8 as chunks, greatest(1, sum(length))::float8 / greatest(1, sum(chunks)) as length from base),
term as materialized (
  select q.lexeme, f.texts,
    q.weight * ln(1 + greatest(0, mean.chunks - f.texts + 0.5) / (f.texts + 0.5)) as gain,
    sum(f.texts) over w as through, row_number() over w as place
  from unnest(%[1]s::text[], %[2]s::text[], %[3]s::float8[]) q(text, lexeme, weight)
  cross join mean
  cross join lateral (select sum(t.texts)::float8 as texts from %[4]s.terms t where t.base in (%[5]s) and t.term = q.text) f
  where f.texts > 0
  window w as (order by f.texts, q.lexeme))`, args.add(texts), args.add(lexemes), args.add(weights), b.s.schema, b.all())
	var sources []string
	for _, id := range b.ids {
		sources = append(sources, b.wordSources(id)...)
	}
	n := len(b.q.Terms)
	ranked := fmt.Sprintf(`by_words as materialized (
  select base, doc, ordinal, row_number() over (order by score desc, base, doc, ordinal) as place from (
    select r.base, r.doc, r.ordinal, %s as score
    from (select r.*, %s as spread from (
%s) r cross join mean offset 0) r cross join w
    order by score desc, r.base, r.doc, r.ordinal limit %d) best)`, score(n), fmt.Sprintf(spread, "mean.length"), strings.Join(sources, "\nunion all\n"), b.q.Depth)
	return []string{term, gainColumns(n), questionParts(b.q.Depth), ranked}
}

// questionParts make the queries from the table term: bounded for the rows that are ranked, whole
// for all rows with one of the terms.
func questionParts(depth int) string {
	return fmt.Sprintf(`rare as materialized (select * from term where through <= %[1]d),
frequent as materialized (select *, row_number() over (order by place) as nth from term where through > %[1]d),
enough as materialized (select coalesce(sum(texts), 0) >= %[2]d as yes from rare),
pair as materialized (
  select a.lexeme || ' & ' || z.lexeme as lexeme, row_number() over p as nth, sum(a.texts * z.texts / mean.chunks) over p as through
  from frequent a join frequent z on a.nth < z.nth and z.nth <= %[3]d cross join mean where not (select yes from enough)
  window p as (order by a.texts * z.texts, a.nth, z.nth)),
question as materialized (
  select (select string_agg(lexeme, ' | ') from term)::tsquery as whole, (select string_agg(part, ' | ') from (
    select lexeme as part from rare
    union all select lexeme from pair where nth = 1 or through <= %[1]d
    union all select lexeme from frequent where (select count(*) from frequent) = 1 and not (select yes from enough)) p)::tsquery as bounded)`,
		mostRanked, fewRanked*depth, mostPaired)
}

// wordSources are the chunks of a base that are ranked.
func (b *searchSQL) wordSources(id int) []string {
	const columns = "select c.base, c.doc, c.ordinal, c.length, c.words from "
	few := fmt.Sprintf("(select yes from few_%d)", id)
	gate := ""
	if b.restricted() {
		gate = " and not " + few
	}
	sources := []string{fmt.Sprintf("(%s%s.chunks c join %s.documents d on d.key = c.doc where c.base = %d and c.words @@ (select bounded from question) and %s%s%s limit %d)",
		columns, b.s.schema, b.s.schema, id, b.visible(id), b.restriction(), gate, hardRanked)}
	if b.restricted() {
		sources = append(sources, fmt.Sprintf("(%smatching_%d m cross join lateral (select * from %s.chunks c where c.base = %d and c.doc = m.key offset 0) c where c.words @@ (select whole from question) and %s)",
			columns, id, b.s.schema, id, few))
	}
	return sources
}

// termColumns returns what a question searches for as columns.
func termColumns(terms []engine.Term) (texts, lexemes []string, weights []float64) {
	for _, t := range terms {
		texts, lexemes, weights = append(texts, t.Text), append(lexemes, lexeme(t.Text)), append(weights, t.Weight)
	}
	return texts, lexemes, weights
}
