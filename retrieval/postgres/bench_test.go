//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/engine/enginetest"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/postgres"
)

// The benchmarks' base: 100,000 chunks of about 1 kB, ten a document, whose words are as frequent
// as those of a language.
const (
	benchChunks     = 100_000
	benchChunksOf   = 10
	benchWords      = 150
	benchDimensions = 384
	benchBatch      = 50 // documents of a Put
)

// A corpus makes documents of random words.
type corpus struct {
	r       *rand.Rand
	words   *rand.Zipf
	centres [][]float32
}

func newCorpus() *corpus {
	r := rand.New(rand.NewPCG(1, 2))
	c := &corpus{r: r, words: rand.NewZipf(r, 1.1, 20, 200_000)}
	for range 300 {
		c.centres = append(c.centres, unit(r, benchDimensions))
	}
	return c
}

func (c *corpus) word() string { return "w" + strconv.FormatUint(c.words.Uint64(), 36) }

func (c *corpus) vector() []float32 {
	v := slices.Clone(c.centres[c.r.IntN(len(c.centres))])
	for i, x := range unit(c.r, benchDimensions) {
		v[i] = (v[i] + x) / 1.4142
	}
	return v
}

// documents returns the next documents with n chunks in all.
func (c *corpus) documents(first, n int) []engine.Document {
	var list []engine.Document
	for i := range n / benchChunksOf {
		var d engine.Document
		d.ID, d.Name, d.Source, d.Stamp = fmt.Sprint("doc", first+i), "Name", "file", "1"
		d.Attributes = fmt.Sprintf(`{"audience":"a%d","number":%d}`, (first+i)%100, (first+i)%1000)
		counts := map[string]*engine.TermCount{}
		for range benchChunksOf {
			words := make([]string, benchWords)
			for j := range words {
				words[j] = c.word()
			}
			c.count(counts, words)
			d.Words = append(d.Words, words)
			text := strings.Join(words, " ") + strings.Repeat(" and so on", 40)
			d.Chunks = append(d.Chunks, engine.Chunk{Text: text, Length: len(words), Packed: engine.Pack(words), Sketch: make([]byte, 64), Tokens: `{"o200k":250}`})
		}
		embed(&d, func(int) []float32 { return c.vector() })
		for _, t := range counts {
			d.Terms = append(d.Terms, *t)
		}
		slices.SortFunc(d.Terms, func(a, b engine.TermCount) int { return strings.Compare(a.Text, b.Text) })
		list = append(list, d)
	}
	return list
}

func (c *corpus) count(counts map[string]*engine.TermCount, words []string) {
	seen := map[string]bool{}
	for _, w := range words {
		if counts[w] == nil {
			counts[w] = &engine.TermCount{Text: w}
		}
		counts[w].Total++
		if !seen[w] {
			counts[w].Texts++
		}
		seen[w] = true
	}
}

// fill writes the benchmarks' base and returns the time of its Puts.
func (c *corpus) fill(b testing.TB, s *postgres.Server, timed func(put func())) {
	l := acquire(b, s, "a")
	per := benchBatch * benchChunksOf
	for first := 0; first < benchChunks; first += per {
		documents := c.documents(first/benchChunksOf, per)
		timed(func() {
			if err := l.Put(b.Context(), documents, nil); err != nil {
				b.Fatal(err)
			}
		})
	}
	timed(func() {
		if err := l.Commit(b.Context(), "aa", "model/384"); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkBase writes the base once and searches it. chunks/s counts the Puts, without the Commit,
// which builds the indexes; client-ms/op is the processor time of this process.
func BenchmarkBase(b *testing.B) {
	s, address := newBase(b, "a")
	c := newCorpus()
	var puts, commit time.Duration
	c.fill(b, s, func(put func()) {
		puts += commit
		begin := time.Now()
		put()
		commit = time.Since(begin)
	})
	b.Logf("%.0f chunks/s, then %v for the commit", benchChunks/puts.Seconds(), commit.Round(time.Millisecond))
	for _, f := range []*filter.Filter{nil, {Type: filter.Eq, Key: "audience", Value: "a7"}, {Type: filter.Lt, Key: "number", Value: 500.}} {
		b.Run("search"+f.String(), func(b *testing.B) {
			measure(b, func() {
				if _, err := s.Search(b.Context(), c.question(f)); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
	conn, err := pgx.Connect(b.Context(), address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close(context.Background()) })
	b.Run("plain", func(b *testing.B) { measure(b, func() { plain(b, conn, c.question(nil)) }) })
}

// question returns a search for seven words, none of the sixty most common ones, and a vector.
func (c *corpus) question(f *filter.Filter) *engine.Search {
	q := &engine.Search{Bases: []string{"a"}, Vector: c.vector(), Depth: 100, Neighbours: 20, Filter: f}
	for len(q.Terms) < 7 {
		n := c.words.Uint64()
		word := "w" + strconv.FormatUint(n, 36)
		if n >= 60 && !slices.ContainsFunc(q.Terms, func(t engine.Term) bool { return t.Text == word }) {
			q.Terms = append(q.Terms, engine.Term{Text: word, Weight: 1})
		}
	}
	return q
}

// measure runs an operation and reports the processor time of this process.
func measure(b *testing.B, run func()) {
	before := processorTime(b)
	for b.Loop() {
		run()
	}
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(b.N), "client-ms/op")
}

func processorTime(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// plain asks for the same by two queries of Postgres's own: ts_rank_cd, and the nearest neighbours.
func plain(b *testing.B, conn *pgx.Conn, q *engine.Search) {
	var words []string
	for _, t := range q.Terms {
		words = append(words, t.Text)
	}
	scan := func(sql string, arg any) {
		rows, err := conn.Query(b.Context(), sql, arg)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
			Text  string
			Score float64
		}]); err != nil {
			b.Fatal(err)
		}
	}
	scan(`select body, ts_rank_cd(words, q)::float8 from sidenote.chunks, (select $1::tsquery as q) q
		where base = 1 and words @@ q order by 2 desc limit 100`, strings.Join(words, " | "))
	scan(`select body, (embedding::halfvec(384) <=> $1::real[]::halfvec(384))::float8 from sidenote.chunks
		where base = 1 and dimensions = 384 order by embedding::halfvec(384) <=> $1::real[]::halfvec(384) limit 100`, q.Vector)
}

// BenchmarkStates reads the states of eight bases and of a table of 100,000 rows, as each Sidenote
// does every second. server-µs/op is the processor time of the server's process, where the system
// tells it.
func BenchmarkStates(b *testing.B) {
	s, address := newBase(b)
	var bases []string
	for i := range 8 {
		bases = append(bases, fmt.Sprint("base", i))
		if err := s.Init(b.Context(), bases[i]); err != nil {
			b.Fatal(err)
		}
	}
	enginetest.Exec(b, address, `create table docs (id int primary key, body text, changed timestamptz);
		insert into docs select i, 'Text number ' || i || repeat(' and so on', 50), now() from generate_series(1, 100000) i;
		create index on docs (changed); analyze docs`)
	own := func(o *postgres.Options) { o.Most = 1 }
	table := func(o *postgres.Options) {
		o.Most = 1
		o.Mappings = map[string]engine.Mapping{"docs": {Table: "docs", ID: "id", Text: "body", Language: "english", Generation: "changed"}}
	}
	run := func(name string, change func(*postgres.Options), bases ...string) {
		b.Run(name, func(b *testing.B) {
			enginetest.Exec(b, address, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sidenote'")
			s := open(b, address, change)
			read := func() {
				if _, err := s.States(b.Context(), bases); err != nil {
					b.Fatal(err)
				}
			}
			read()
			pid := enginetest.Value(b, address, "select max(pid) from pg_stat_activity where datname = current_database() and application_name = 'sidenote'")
			before := ranFor(pid)
			for b.Loop() {
				read()
			}
			b.ReportMetric(float64((ranFor(pid)-before).Microseconds())/float64(b.N), "server-µs/op")
		})
	}
	run("own", own, bases...)
	run("table", table, "docs")
}

// ranFor returns the processor time of a process of this machine, 0 where it is not known.
func ranFor(pid string) time.Duration {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "schedstat"))
	if err != nil {
		return 0
	}
	ns, _, _ := strings.Cut(string(text), " ")
	n, _ := strconv.ParseInt(ns, 10, 64)
	return time.Duration(n)
}
