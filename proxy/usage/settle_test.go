package usage_test

import (
	"testing"

	"sidenote/proxy/usage"
)

// The eight rules of settling, but for those that concern the ledger alone. (U1, U2, U3, U5,
// U11, U14, C1, C2)
func TestSettle(t *testing.T) {
	told := func(in, out int64) usage.Usage { return usage.Usage{Input: in, Output: out, Known: true} }
	counted := func(n int64) usage.Counted { return usage.Counted{Output: n, Known: true} }
	unreadable := usage.Counted{}
	forbidden := counted(999) // nothing depends on it
	for name, c := range map[string]struct {
		s           usage.Settlement
		in, out     int64
		by          usage.Basis
		implausible bool
	}{
		"2: told":                             {usage.Settlement{Outcome: usage.Completed, Told: told(90, 20), Prompt: 100, Longest: 50, Counted: forbidden}, 90, 20, usage.AsTold, false},
		"2: told, twice our count":            {usage.Settlement{Outcome: usage.Completed, Told: told(4512, 100), Prompt: 2000, Longest: 50, Counted: forbidden}, 4512, 100, usage.AsTold, false},
		"2: too much input":                   {usage.Settlement{Outcome: usage.Completed, Told: told(4513, 20), Prompt: 2000, Longest: 50, Counted: counted(30)}, 2000, 30, usage.AsCounted, true},
		"2: much input, of files":             {usage.Settlement{Outcome: usage.Completed, Told: told(4513, 20), Prompt: 2000, Longest: 50, Refers: true, Counted: forbidden}, 4513, 20, usage.AsTold, false},
		"2: too much output":                  {usage.Settlement{Outcome: usage.Completed, Told: told(100, 101), Prompt: 100, Longest: 50, Counted: counted(30)}, 100, 30, usage.AsCounted, true},
		"2: too much, not counted":            {usage.Settlement{Outcome: usage.Completed, Told: told(100, 101), Prompt: 100, Longest: 50}, 100, 50, usage.AsEstimated, true},
		"2: none":                             {usage.Settlement{Outcome: usage.Completed, Told: told(0, 0), Prompt: 100, Longest: 50, Counted: counted(30)}, 100, 30, usage.AsCounted, true},
		"2: no output, as embeddings":         {usage.Settlement{Outcome: usage.Completed, Told: told(100, 0), Prompt: 100, Counted: forbidden}, 100, 0, usage.AsTold, false},
		"3: without usage":                    {usage.Settlement{Outcome: usage.Completed, Found: usage.Absent, Prompt: 100, Longest: 50, Counted: counted(30)}, 100, 30, usage.AsCounted, false},
		"3: a lie that was not even a number": {usage.Settlement{Outcome: usage.Completed, Found: usage.Negative, Prompt: 100, Longest: 50, Counted: counted(30)}, 100, 30, usage.AsCounted, false},
		"3: without usage, unreadable":        {usage.Settlement{Outcome: usage.Completed, Found: usage.Undecodable, Prompt: 100, Longest: 50, Counted: unreadable}, 100, 50, usage.AsEstimated, false},
		"3: more counted than is allowed":     {usage.Settlement{Outcome: usage.Completed, Found: usage.Absent, Prompt: 100, Longest: 50, Counted: counted(60)}, 100, 50, usage.AsCounted, false},
		"3: an error and no text":             {usage.Settlement{Outcome: usage.Completed, Found: usage.Failed, Prompt: 100, Longest: 50, Counted: counted(0)}, 0, 0, usage.AsNothing, false},
		"3: an error behind text":             {usage.Settlement{Outcome: usage.Completed, Found: usage.Failed, Prompt: 100, Longest: 50, Counted: counted(7)}, 100, 7, usage.AsCounted, false},
		"4: refused":                          {usage.Settlement{Outcome: usage.OutcomeOf(429, true), Prompt: 100, Longest: 50, Counted: forbidden}, 0, 0, usage.AsNothing, false},
		"4: failed":                           {usage.Settlement{Outcome: usage.OutcomeOf(500, false), Prompt: 100, Longest: 50, Counted: forbidden}, 0, 0, usage.AsNothing, false},
		"4: not sent":                         {usage.Settlement{Outcome: usage.NotSent, Prompt: 100, Longest: 50, Counted: forbidden}, 0, 0, usage.AsNothing, false},
		"4: no answer":                        {usage.Settlement{Outcome: usage.Unknown, Prompt: 100, Longest: 50, Counted: forbidden}, 100, 50, usage.AsEstimated, false},
		"4: a gateway's timeout":              {usage.Settlement{Outcome: usage.OutcomeOf(504, true), Prompt: 100, Longest: 50, Counted: forbidden}, 100, 50, usage.AsEstimated, false},
		"5: left before the answer":           {usage.Settlement{Outcome: usage.Left, Prompt: 100, Longest: 50, Counted: forbidden}, 100, 0, usage.AsCounted, false},
		"5: left in the answer":               {usage.Settlement{Outcome: usage.OutcomeOf(200, false), Found: usage.Absent, Prompt: 100, Longest: 50, Counted: counted(12)}, 100, 12, usage.AsCounted, false},
		"5: left, told with each event":       {usage.Settlement{Outcome: usage.Cut, Told: told(90, 11), Prompt: 100, Longest: 50, Counted: counted(12)}, 90, 12, usage.AsTold, false},
	} {
		if c.s.Counted == forbidden && c.s.NeedsText() {
			t.Errorf("%s: the text is counted where nothing depends on it", name)
		}
		u, by, implausible := c.s.Settle()
		if u.Input != c.in || u.Output != c.out || by != c.by || implausible != c.implausible {
			t.Errorf("%s: got %+v, %s, %t", name, u, by, implausible)
		}
	}
}
