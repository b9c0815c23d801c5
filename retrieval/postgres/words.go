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
// the frequency, divided by π²/6, the limit of the sum. As the rest of the sum is about
// 1/(frequency + 1/2), the frequency is 1/(π²/6 · (1 - rank/0.1)) - 1/2, within 6%.

// mostPositions bounds the occurrences of a term that are stored; more hardly raise the rank.
const mostPositions = 63

// score is the rank of a row r with columns words and length, from the table term.
const score = `(select coalesce(sum(t.gain * f.frequency * 2.2 / (f.frequency + 1.2 * (0.25 + 0.75 * r.length / mean.length))), 0)
  from term t
  cross join lateral (select ts_rank(r.words, t.query)::float8 as rank offset 0) k
  cross join lateral (select 1 / (1.6449340668482264 * greatest(1e-4, 1 - 10 * k.rank)) - 0.5 as frequency offset 0) f
  where k.rank > 0)`

// lexeme returns a term as a part of a tsquery or tsvector.
func lexeme(term string) string {
	return "'" + strings.NewReplacer("'", "''", `\`, `\\`, "\x00", "").Replace(term) + "'"
}

// wordParts find the best chunks by words. A chunk without one of the rarest terms is rarely among
// the best, so only those with one are ranked, by all terms. If these terms are so rare that there
// are few such chunks, those with two of the more common terms are ranked too.
func (b *searchSQL) wordParts(args *arguments) []string {
	texts, lexemes, weights := termColumns(b.q.Terms)
	term := fmt.Sprintf(`mean as materialized (select greatest(1, sum(chunks))::float8 as chunks, greatest(1, sum(length))::float8 / greatest(1, sum(chunks)) as length from base),
term as materialized (
  select q.lexeme, q.lexeme::tsquery as query, f.texts,
    q.weight * ln(1 + greatest(0, mean.chunks - f.texts + 0.5) / (f.texts + 0.5)) as gain,
    sum(f.texts) over w as through, row_number() over w as place
  from unnest(%[1]s::text[], %[2]s::text[], %[3]s::float8[]) q(text, lexeme, weight)
  cross join mean
  cross join lateral (select sum(t.texts)::float8 as texts from %[4]s.terms t where t.base in (%[5]s) and t.term = q.text) f
  where f.texts > 0
  window w as (order by f.texts, q.lexeme))`, args.add(texts), args.add(lexemes), args.add(weights), b.s.schema, b.all())
	question := fmt.Sprintf(`rare as materialized (select * from term where through <= %[1]d),
common as materialized (select *, row_number() over (order by place) as nth from term where through > %[1]d),
enough as materialized (select coalesce(sum(texts), 0) >= %[2]d as yes from rare),
question as materialized (
  select (select string_agg(lexeme, ' | ') from term)::tsquery as whole, (select string_agg(part, ' | ') from (
    select lexeme as part from rare
    union all select a.lexeme || ' & ' || z.lexeme from common a join common z on a.nth < z.nth and z.nth <= %[3]d where not (select yes from enough)
    union all select lexeme from common where (select count(*) from common) = 1 and not (select yes from enough)) p)::tsquery as bounded)`,
		mostRanked, fewRanked*b.q.Depth, mostPaired)
	var sources []string
	for _, id := range b.ids {
		sources = append(sources, b.wordSources(id)...)
	}
	ranked := fmt.Sprintf(`by_words as materialized (
  select base, doc, ordinal, row_number() over (order by score desc, base, doc, ordinal) as place from (
    select r.base, r.doc, r.ordinal, %s as score from (
%s) r cross join mean
    order by score desc, r.base, r.doc, r.ordinal limit %d) best)`, score, strings.Join(sources, "\nunion all\n"), b.q.Depth)
	return []string{term, question, ranked}
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
		sources = append(sources, fmt.Sprintf("(%smatching_%d m join %s.chunks c on c.doc = m.key where c.base = %d and c.words @@ (select whole from question) and %s)",
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
