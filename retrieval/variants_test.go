package retrieval_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sidenote/retrieval"
)

// policyText returns a version of a text that differs only in numbers.
func policyText(year, weeks, euros int) string {
	return fmt.Sprintf("Valid from %d-03-01. Every parent may take %d weeks of leave on full pay, whatever their gender and whether the child is born, adopted or fostered. "+
		"The request goes to the people team before the leave begins, with the usual form. New parents also get a payment of %d euros. The laptop and the phone may be kept.", year, weeks, euros)
}

// sheet returns the data sheet of a device, from a template.
func sheet(device string, watts int) string {
	return fmt.Sprintf("Data sheet %s. Rated power %d W. The pump is delivered with a cable, a filter, a bag and a printed guide. Clean the filter every month, and keep the housing dry. "+
		"The warranty ends when the seal is broken. Spare parts are sold by the service desk.", device, watts)
}

func TestVariantsAndVersions(t *testing.T) {
	leave := has(1,
		chunk("hr/leave-2019.md", 0, 9, policyText(2019, 8, 400)), chunk("hr/leave-2021.md", 0, 8, policyText(2021, 10, 500)),
		chunk("hr/leave-2024.md", 0, 7, policyText(2024, 14, 800)), chunk("hr/leave-2026.md", 0, 6, policyText(2026, 18, 1200)),
		chunk("hr/travel.md", 0, 5, "trips are booked with the travel desk"))
	pumps := has(1, chunk("p-400.md", 0, 9, sheet("P-400", 40)), chunk("p-500.md", 0, 8, sheet("P-500", 50)),
		chunk("p-200.md", 0, 7, sheet("P-200", 20)), chunk("p-300.md", 0, 6, sheet("P-300", 30)))
	dated := func(attributes ...string) retrieval.Retriever { // documents with front matter
		l := newLate(1)
		l.attributes = map[string]string{}
		for i, of := range attributes {
			s := chunk(fmt.Sprintf("%c.md", 'a'+i), 0, 9-float64(i), policyText(2000+i, i+2, 100*i))
			s.Knowledge = "a"
			l.answer.Sources = append(l.answer.Sources, s)
			l.attributes[s.Doc] = of
		}
		return finder{l}
	}
	for _, c := range []struct {
		name     string
		base     retrieval.Retriever
		question string
		versions retrieval.Versions
		variants int
		want     string // sources, with their dates
		out      string // others, with their reasons
	}{
		{"newest", leave, "how many weeks of leave do I get now", "", 3,
			"hr/leave-2026.md 2026|hr/travel.md", "hr/leave-2024.md version|hr/leave-2021.md version|hr/leave-2019.md version"},
		{"a year", leave, "weeks of leave in 2019", "", 3,
			"hr/leave-2019.md 2019|hr/leave-2026.md 2026|hr/travel.md", "hr/leave-2024.md version|hr/leave-2021.md version"},
		{"two years", leave, "change between 2019 and 2024", "", 3,
			"hr/leave-2024.md 2024|hr/leave-2019.md 2019|hr/leave-2026.md 2026|hr/travel.md", "hr/leave-2021.md version"},
		{"change", leave, "Wie hat sich der Urlaub geändert?", "", 3,
			"hr/leave-2026.md 2026|hr/leave-2024.md 2024|hr/leave-2021.md 2021|hr/travel.md", "hr/leave-2019.md variant"},
		{"all", leave, "weeks of leave", retrieval.VersionsAll, 2,
			"hr/leave-2026.md 2026|hr/leave-2024.md 2024|hr/travel.md", "hr/leave-2021.md variant|hr/leave-2019.md variant"},
		{"off", leave, "weeks of leave", retrieval.VersionsOff, 2,
			"hr/leave-2019.md|hr/leave-2021.md|hr/travel.md", "hr/leave-2024.md variant|hr/leave-2026.md variant"},
		{"named", pumps, "rated power of P-200 and P-300", "", 2, "p-200.md|p-300.md", "p-400.md variant|p-500.md variant"},
		{"more named than variants", pumps, "rated power of P200, P300 and P500", "", 1, "p-500.md|p-200.md|p-300.md", "p-400.md variant"},
		{"none named", pumps, "rated power of the pump", "", 3, "p-400.md|p-500.md|p-200.md", "p-300.md variant"},
		{"supersedes", dated(`{}`, `{"supersedes":"a.md"}`, `{"supersedes":["b.md"]}`), "leave", "", 3, "c.md", "b.md version|a.md version"},
		{"a cycle", dated(`{"supersedes":"b.md"}`, `{"supersedes":"a.md"}`), "leave", "", 3, "a.md|b.md", ""},
		{"dates of one title", dated(`{"date":"2019-01-01"}`, `{"date":"2026-01-31"}`, `{"date":"2026-02-31"}`), "leave", "", 3, "b.md 2026-01-31|c.md", "a.md version"},
	} {
		q := asking("a")
		q.Text, q.Settings.Versions, q.Settings.MaxVariants = c.question, c.versions, c.variants
		res, err := over(c.base, nil, "a").Retrieve(t.Context(), q)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var in, out []string
		for _, s := range res.Sources {
			in = append(in, strings.TrimSpace(s.Doc+" "+s.Date))
		}
		for _, x := range res.Excluded.List() {
			out = append(out, x.Doc+" "+string(x.Reason))
		}
		if got := strings.Join(in, "|"); got != c.want || strings.Join(out, "|") != c.out {
			t.Errorf("%s: %s\nwant %s\nout %s\nwant %s", c.name, got, c.want, strings.Join(out, "|"), c.out)
		}
	}
}

// Data sheets of one template are variants although half of their terms are figures that differ. Those
// that the question names come in any number; what most of them have names none of them.
func TestDataSheets(t *testing.T) {
	var sheets []retrieval.Source
	for i := 1; i <= 5; i++ {
		volts := 230
		if i == 5 {
			volts = 400
		}
		sheets = append(sheets, chunk(fmt.Sprintf("kx%d.md", 10*i), 0, 9-float64(i), fmt.Sprintf("Compressor KX%d. Rated power: %d.%d kW. Air delivery: %d l/min. Pressure: %d bar. Tank: %d l. "+
			"Weight: %d kg. Noise level: %d dB. Dimensions: %d x %d x %d mm. Voltage: %d V. Article number: 47%d-0%d.", 10*i, i, i+3, 37*i, 11+i, 24*i, 19+3*i, 60+i, 300+7*i, 400+9*i, 500+11*i, volts, i, 7*i)))
	}
	for question, want := range map[string]string{
		"what is the noise level of the compressor": "kx10.md|kx20.md|kx30.md",
		"weight of KX50":                              "kx50.md|kx10.md|kx20.md",
		"compare KX20, KX30, KX40 and KX50":           "kx20.md|kx30.md|kx40.md|kx50.md",
		"noise of the compressors that need 230 V":    "kx10.md|kx20.md|kx30.md",
		"noise of the compressor that needs 400 V":    "kx50.md|kx10.md|kx20.md",
		"weight of all: KX10, KX20, KX30, KX40, KX50": "kx10.md|kx20.md|kx30.md|kx40.md|kx50.md",
	} {
		q := asking("a")
		q.Text, q.Settings.MaxVariants = question, 3
		res, err := over(has(1, sheets...), nil, "a").Retrieve(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range res.Sources {
			got = append(got, s.Doc)
		}
		if strings.Join(got, "|") != want || len(got)+res.Excluded.Count(retrieval.ExcludedVariant) != len(sheets) {
			t.Errorf("%s: %v, want %s", question, got, want)
		}
	}
}

// A near copy that says the same is a duplicate; one that differs in what matters is not.
func TestDistinguished(t *testing.T) {
	const text = "the desk lends a laptop to each new colleague of the team for the first weeks, after the form was signed by the manager and sent by mail to the service desk"
	for other, want := range map[string]int{
		strings.Replace(text, "lends", "gives", 1):                 1,
		strings.ToUpper(text[:1]) + text[1:]:                       1,
		text + ".":                                                 1,
		strings.Replace(text, "each new", "no new", 1):             2,
		strings.Replace(text, "first weeks", "first six weeks", 1): 2,
		strings.Replace(text, "of the team", "of team Falcon", 1):  2,
		strings.Replace(text, "laptop", "tablet", 1):               2, // asked for
		strings.Replace(text, "by mail", "by X-17", 1):             2,
	} {
		q := asking("a")
		q.Text = "who lends a laptop"
		if strings.Contains(other, "gives") {
			q.Text = "laptop"
		}
		res, err := engines{"a": has(0, chunk("x.md", 0, 9, text), chunk("y.md", 0, 8, other))}.pipeline().Retrieve(t.Context(), q)
		if err != nil || len(res.Sources) != want {
			t.Errorf("%q: %d sources, want %d (%v)", other, len(res.Sources), want, err)
		}
	}
}

// Many versions, as many as there are candidates, give the newest of them.
func TestManyVersions(t *testing.T) {
	var sources []retrieval.Source
	for i := range 1000 {
		sources = append(sources, chunk(fmt.Sprintf("minutes-v%d.md", (i*7)%1000), 0, 2000-float64(i), policyText(1900+i%100, i, i)))
	}
	q := asking("a")
	q.Settings.NumCandidates = len(sources)
	res, err := engines{"a": has(0, sources...)}.pipeline().Retrieve(t.Context(), q)
	if err != nil || len(res.Sources) != 1 || res.Sources[0].Doc != "minutes-v999.md" || res.Excluded.Count(retrieval.ExcludedVersion) != 999 {
		t.Errorf("%v: %d sources, %d versions out, %+v", err, len(res.Sources), res.Excluded.Count(retrieval.ExcludedVersion), slices.Collect(res.Excluded.All())[:1])
	}
}
