package replay_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/replay"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy/explain"
	"sidenote/proxy/record"
	"sidenote/proxy/record/recordtest"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// The size of BenchmarkReplay.
const (
	benchChunks    = 100_000
	benchSections  = 5 // of a document, each of which is a chunk
	benchQuestions = 10_000
)

// drawnWords draws words with the distribution of scientific abstracts, as in the benchmarks of bm25.
func drawnWords(seed uint64) func() string {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(seed, 2)), 1.6, 150, 1_000_000)
	return func() string { return "w" + strconv.FormatUint(zipf.Uint64(), 36) }
}

// writeCorpus writes documents of sections of about 140 words below a folder. It returns questions,
// each with ten words of a section.
func writeCorpus(b *testing.B, dir string) (questions []string) {
	b.Helper()
	word, r := drawnWords(1), rand.New(rand.NewPCG(1, 2))
	for n := range benchChunks / benchSections {
		var text strings.Builder
		fmt.Fprintf(&text, "# Document %d about %s\n\n", n, word())
		for s := range benchSections {
			fmt.Fprintf(&text, "## Part %d of %s\n\n", s, word())
			var words []string
			for range 110 + r.IntN(60) {
				words = append(words, word())
			}
			text.WriteString(strings.Join(words, " ") + "\n\n")
			if (n*benchSections+s)%(benchChunks/benchQuestions) == 0 {
				r.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
				questions = append(questions, strings.Join(words[:10], " "))
			}
		}
		sub := filepath.Join(dir, fmt.Sprintf("%03d", n/500))
		if err := os.MkdirAll(sub, 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("d%06d.md", n)), []byte(text.String()), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return questions
}

// BenchmarkReplay replays 10,000 questions of ten words over 100,000 chunks, on as many processors as
// -cpu says.
func BenchmarkReplay(b *testing.B) {
	dir := b.TempDir()
	questions := writeCorpus(b, filepath.Join(dir, "kb"))
	yaml := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(yaml, []byte("upstream: http://127.0.0.1:9/v1\nstate: {path: state}\nknowledge: {kb: kb}\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	cfg, err := config.Load(config.Source{Path: yaml, Env: func(string) (string, bool) { return "", false }, Offline: true})
	if err != nil {
		b.Fatal(err)
	}
	e, err := server.New(b.Context(), cfg, server.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	if err := e.Bases.Index(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	e.Bases.AwaitFloor(b.Context(), []string{"kb"})
	_, _, request := server.Uncached(e)
	policy, _ := cfg.Tenant("default")
	policy.Rewrite.Search.Deadline = time.Minute
	var records recordtest.List
	for i, question := range questions {
		records = append(records, &record.Record{ID: fmt.Sprint(i), Tenant: "default", Policy: "default", Model: "gpt-4o", Question: question})
	}
	run := replay.Run{
		Replayer: &replay.Replayer{
			Runner:  explain.DryRunner{Rewriter: &rewrite.Rewriter{Retriever: request, Models: e.Rewriter.Models}},
			Resolve: func(string, string) (*tenant.Policy, error) { return &policy, nil },
		},
		Store: records, Keep: 10, Progress: func(int, int) {},
	}
	for b.Loop() {
		report, err := run.Do(b.Context())
		if err != nil || report.Replayed != benchQuestions {
			b.Fatalf("%+v, %v", report, err)
		}
		b.ReportMetric(report.TookMS/1e3, "s/10k-questions")
		b.ReportMetric(report.Retrieval.Now.P50, "ms-p50")
		b.ReportMetric(float64(report.Silence.Now), "without-sources")
	}
}
