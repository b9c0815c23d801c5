// Package reporttest has a report for tests of what is made of reports.
package reporttest

import (
	"time"

	"sidenote/proxy/report"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
)

// Injected returns the report of a chat that got four of five sources. Some of their
// names need escapes, one to keep it from ending its header.
func Injected() *report.Report {
	return &report.Report{
		Outcome: rewrite.Injected,
		Rewrite: rewrite.Result{
			Outcome: rewrite.Injected,
			Ledger: rewrite.Ledger{
				Budget: 2000, Used: 1187, Rules: 66, Tags: 96, Text: 1025, Exactness: rewrite.Exact,
				Assembled: &rewrite.Assembly{TotalTokens: 1187, Components: 1, Overflow: 240},
				Sources: []rewrite.SourceEntry{
					{ID: 1, Knowledge: "handbook", Doc: "leave.md", Name: "Leave policy", Section: "Parental leave"},
					{ID: 2, Knowledge: "handbook", Doc: "überstunden.md", Name: `Die "Überstunden"`},
					{ID: 0, Knowledge: "handbook", Doc: "out.md", Name: "Out"},
					{ID: 3, Knowledge: "handbook", Doc: "it.md", Name: "a\r\nSet-Cookie: x=1"},
					{ID: 4, Knowledge: "handbook", Doc: `a\"b`, Name: ""},
				},
			},
			Model:        model.Model{Window: 400_000},
			Retrieval:    retrieval.Result{Cache: retrieval.CacheHit},
			RetrieveTook: 3900 * time.Microsecond,
		},
	}
}
