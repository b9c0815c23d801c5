package inspector_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/answer"
	"sidenote/proxy/experiment"
	"sidenote/proxy/explain"
	"sidenote/proxy/inspector"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// experiments returns one in which B cites more and takes longer, and one without requests that was
// changed.
func experiments() inspector.Data {
	of := experiment.Settings{Name: "longer", Share: .5, Unit: experiment.Conversation, Until: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC), Requests: 400, PolicyA: "base", HashA: "c3ca2702", PolicyB: "careful", HashB: "0a0b0c0d"}
	fresh := of
	fresh.Name, fresh.PolicyB = "fresh", hostile
	s := experiment.New("", nil)
	s.Configure([]experiment.Settings{of, fresh})
	fresh.HashB = "00000000"
	s.Configure([]experiment.Settings{of, fresh})
	for n := range 400 {
		r := &report.Report{Status: 200, Outcome: rewrite.Injected, Total: time.Duration(1000+n) * time.Millisecond}
		r.Experiment = report.Experiment{Name: "longer", Arm: "a", Unit: uint64(n / 4), Counted: true}
		r.Rewrite.Ledger.Sources, r.Rewrite.RetrieveTook = []rewrite.SourceEntry{{ID: 1}}, time.Duration(10+n%7)*time.Millisecond
		r.Citations = &answer.CitationReport{}
		often := 3
		if n/4%2 == 1 {
			r.Experiment.Arm, often = "b", 9
		}
		if n*7%10 < often {
			r.Citations.Cited = []answer.Cited{{ID: 1, Times: 1 + n%2}}
		}
		s.Record(r)
	}
	requests := explain.New(10, explain.BodiesOff)
	r := requestOf("tried")
	r.Experiment = report.Experiment{Name: "longer", Arm: "b"}
	requests.Record(r)
	return inspector.Data{Experiments: s, Requests: requests}
}

func fetched(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// The page of an experiment shows both arms, intervals and verdicts, and says that it was changed.
func TestExperimentPages(t *testing.T) {
	base := serve(t, experiments(), nil)
	f := func(path string, says ...string) {
		t.Helper()
		status, body := fetched(t, base+path)
		for _, text := range says {
			if status != 200 || !strings.Contains(body, text) {
				t.Errorf("%s: %d, without %q: %s", path, status, text, body)
			}
		}
	}
	f("/experiments", `<a href="/experiments/longer">longer</a>`, "base and careful", "Answers that cite a source: higher with B")
	f("/experiments/longer", "Answers that cite a source", `<span class="base">goal</span>`, "60.0 points", "higher with B (found after", "<svg class=\"bar scored\"", "no difference found", "not measured in both arms", "400 requests, 0 to go", "until 2099-01-01")
	f("/experiments/fresh", `<span class="tone bad">changed</span>`, "Give the experiment a new name")
	f("/requests/tried", `<a href="/experiments/longer">longer</a>, arm b (not counted)`)
}
