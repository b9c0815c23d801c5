package retrieval

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// setOf returns candidates of one base with the given documents: an id and, after a space, what its
// front matter says.
func setOf(documents ...string) (set []*dossier) {
	for _, of := range documents {
		doc, attributes, _ := strings.Cut(of, " {")
		if attributes != "" {
			attributes = "{" + attributes
		}
		e := editionOf(Label{Doc: []byte(doc), Name: []byte("policy"), Attributes: []byte(attributes)})
		set = append(set, &dossier{edition: e, place: placeInTime{moment: e.time, state: e.state, modified: e.modified}})
	}
	setCurrent(set)
	return set
}

// The names of the documents of one list differ only in what says their time; each is newer than
// those before it.
func TestEditions(t *testing.T) {
	for _, list := range []string{
		"policy-2019.md|policy-2021.md|policy-2026.md",
		"policy-2019.md|policy-2021.md|policy.md",
		"policy-old.md|policy.md|policy_final.md|policy_final2.md",
		"Policy (alt).docx|Policy.docx|Policy neu.docx",
		"archive/policy.md|policy.md",
		"hr/old/policy-2024.md|hr/policy-2019.md|hr/policy.md",
		"policy draft.md|policy-v1.md|policy.md",
		"policy.md|policy-v2.md|policy-v3.md",
		"policy-v1.md|policy-v2.md|policy.md",
		"policy-v1.2.9.md|policy-v1.2.10.md|policy-v1.10.md",
		"policy-2026Q1.md|policy-Q2-2026.md|policy 2026 H2.md",
		"policy-backup.md|copy of policy.md",
		"entwurf-policy.md|policy.md",
		"请假制度-2019.md|请假制度2024年3月.md|请假制度2024年11月.md",
		"请假制度旧版.md|请假制度.md|请假制度最新版.md",
		"policy-2024.md|policy.md {\"sidenote_date\":\"2025-01-01\"}|policy-2026.md",
		"v1/policy.md|v2/policy.md|v10/policy.md",
		"policy (1).md {\"sidenote_modified\":\"2024-05-01T10:00:00Z\"}|policy.md {\"sidenote_modified\":\"2024-05-01T10:00:01Z\"}",
		"policy.md {\"sidenote_modified\":\"2018-05-01T10:00:00Z\"}|policy-2019.md|policy-2024.md",
	} {
		names := strings.Split(list, "|")
		set := setOf(names...)
		for i, c := range set {
			if c.edition.stem != set[0].edition.stem || c.edition.stem == "" {
				t.Errorf("%s: stem %q, not %q", names[i], c.edition.stem, set[0].edition.stem)
			}
			if path := []byte(c.edition.doc); c.edition.says && !MaybeEdition(Label{Doc: path, Attributes: []byte(c.edition.attributes)}) {
				t.Errorf("%s: passed over", names[i])
			}
			for j, d := range set[:i] {
				if c.place.compare(&d.place) <= 0 || d.place.compare(&c.place) >= 0 {
					t.Errorf("%s is not newer than %s", names[i], names[j])
				}
			}
		}
	}
	for _, list := range []string{"policy.md|policy (1).md", "policy.md|policy copy.md|Copy of policy.md|Kopie von policy.md|policy - Kopie (2).md"} {
		names := strings.Split(list, "|")
		set := setOf(names...)
		for i, c := range set {
			if c.edition.stem != "policy" || c.place.compare(&set[0].place) != 0 {
				t.Errorf("%s: stem %q, place %+v", names[i], c.edition.stem, c.place)
			}
		}
	}
}

// The times of files are read where nothing else tells which of them is newer.
func TestFileTimes(t *testing.T) {
	at := func(year int) time.Time { return time.Date(year, 3, 1, 10, 0, 0, 0, time.FixedZone("", 3600)) }
	files := map[string]time.Time{
		"hr/policy.md": at(2024), "hr/Policy (1).md": at(2025), "hr/policy-old.md": at(2026), // a copy
		"leave.md": at(2018), "leave-2019.md": at(2026), "leave-2017.md": at(2026), // not the present one
		"pay.md": at(2026), "pay-2019.md": at(2026), // the present one, whatever its file says
		"single (1).md": at(2024), "other.md": at(2024), "other.txt": at(2024),
		"embedded.md": {}, "embedded copy.md": {}, "it/policy.md": at(2024),
	}
	got := FileTimes(slices.Sorted(maps.Keys(files)), func(file string) time.Time { return files[file] })
	want := map[string]string{"hr/policy.md": "2024-03-01T09:00:00Z", "hr/Policy (1).md": "2025-03-01T09:00:00Z", "leave.md": "2018-03-01T09:00:00Z"}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Words that are names themselves say nothing.
func TestNoEditions(t *testing.T) {
	for _, doc := range []string{"old.md", "archive.md", "new-hires.md", "oldenburg.md", "final report.md", "copyright.md", "hr/alternatives.md", "renewal.md", "drafting.md", "covid19.md", "P-200.md"} {
		if e := editionOf(Label{Doc: []byte(doc), Name: []byte("about")}); e.says || e.named {
			t.Errorf("%s: %+v", doc, e)
		}
	}
	if stems := []string{editionOf(Label{Doc: []byte("new-hires.md")}).stem, editionOf(Label{Doc: []byte("hires.md")}).stem}; slices.Equal(stems[:1], stems[1:]) {
		t.Error(stems)
	}
}
