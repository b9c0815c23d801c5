package answer_test

import (
	"testing"

	"sidenote/proxy/answer"
)

// The eight rules of settling, except those about the ledger alone. (U1, U2, U3, U5, U11, U14, C1,
// C2)
func TestSettle(t *testing.T) {
	told := func(in, out int64) answer.Usage { return answer.Usage{Input: in, Output: out, Known: true} }
	counted := func(n int64) answer.CountedUsage { return answer.CountedUsage{Output: n, Known: true} }
	unreadable := answer.CountedUsage{}
	forbidden := counted(999) // must not be used
	for name, c := range map[string]struct {
		s           answer.Settlement
		in, out     int64
		by          answer.SettlementBasis
		implausible bool
	}{
		"2: told":                             {answer.Settlement{Outcome: answer.OutcomeCompleted, Reported: told(90, 20), Prompt: 100, Longest: 50, Counted: forbidden}, 90, 20, answer.SettledAsReported, false},
		"2: told, twice our count":            {answer.Settlement{Outcome: answer.OutcomeCompleted, Reported: told(4512, 100), Prompt: 2000, Longest: 50, Counted: forbidden}, 4512, 100, answer.SettledAsReported, false},
		"2: too much input":                   {answer.Settlement{Outcome: answer.OutcomeCompleted, Reported: told(4513, 20), Prompt: 2000, Longest: 50, Counted: counted(30)}, 2000, 30, answer.SettledAsCounted, true},
		"2: much input, of files":             {answer.Settlement{Outcome: answer.OutcomeCompleted, Reported: told(4513, 20), Prompt: 2000, Longest: 50, HasExternalContent: true, Counted: forbidden}, 4513, 20, answer.SettledAsReported, false},
		"2: too much output":                  {answer.Settlement{Outcome: answer.OutcomeCompleted, Reported: told(100, 101), Prompt: 100, Longest: 50, Counted: counted(30)}, 100, 30, answer.SettledAsCounted, true},
		"2: too much, not counted":            {answer.Settlement{Outcome: answer.OutcomeCompleted, Reported: told(100, 101), Prompt: 100, Longest: 50}, 100, 50, answer.SettledAsEstimated, true},
		"2: none":                             {answer.Settlement{Outcome: answer.OutcomeCompleted, Reported: told(0, 0), Prompt: 100, Longest: 50, Counted: counted(30)}, 100, 30, answer.SettledAsCounted, true},
		"2: no output, as embeddings":         {answer.Settlement{Outcome: answer.OutcomeCompleted, Reported: told(100, 0), Prompt: 100, Counted: forbidden}, 100, 0, answer.SettledAsReported, false},
		"3: without usage":                    {answer.Settlement{Outcome: answer.OutcomeCompleted, Found: answer.UsageAbsent, Prompt: 100, Longest: 50, Counted: counted(30)}, 100, 30, answer.SettledAsCounted, false},
		"3: a lie that was not even a number": {answer.Settlement{Outcome: answer.OutcomeCompleted, Found: answer.UsageNegative, Prompt: 100, Longest: 50, Counted: counted(30)}, 100, 30, answer.SettledAsCounted, false},
		"3: without usage, unreadable":        {answer.Settlement{Outcome: answer.OutcomeCompleted, Found: answer.UsageUndecodable, Prompt: 100, Longest: 50, Counted: unreadable}, 100, 50, answer.SettledAsEstimated, false},
		"3: more counted than is allowed":     {answer.Settlement{Outcome: answer.OutcomeCompleted, Found: answer.UsageAbsent, Prompt: 100, Longest: 50, Counted: counted(60)}, 100, 50, answer.SettledAsCounted, false},
		"3: an error and no text":             {answer.Settlement{Outcome: answer.OutcomeCompleted, Found: answer.UsageUpstreamFailed, Prompt: 100, Longest: 50, Counted: counted(0)}, 0, 0, answer.SettledAsNothing, false},
		"3: an error behind text":             {answer.Settlement{Outcome: answer.OutcomeCompleted, Found: answer.UsageUpstreamFailed, Prompt: 100, Longest: 50, Counted: counted(7)}, 100, 7, answer.SettledAsCounted, false},
		"4: refused":                          {answer.Settlement{Outcome: answer.OutcomeOf(429, true), Prompt: 100, Longest: 50, Counted: forbidden}, 0, 0, answer.SettledAsNothing, false},
		"4: failed":                           {answer.Settlement{Outcome: answer.OutcomeOf(500, false), Prompt: 100, Longest: 50, Counted: forbidden}, 0, 0, answer.SettledAsNothing, false},
		"4: not sent":                         {answer.Settlement{Outcome: answer.OutcomeNotSent, Prompt: 100, Longest: 50, Counted: forbidden}, 0, 0, answer.SettledAsNothing, false},
		"4: no answer":                        {answer.Settlement{Outcome: answer.OutcomeUnknown, Prompt: 100, Longest: 50, Counted: forbidden}, 100, 50, answer.SettledAsEstimated, false},
		"4: a gateway's timeout":              {answer.Settlement{Outcome: answer.OutcomeOf(504, true), Prompt: 100, Longest: 50, Counted: forbidden}, 100, 50, answer.SettledAsEstimated, false},
		"5: left before the answer":           {answer.Settlement{Outcome: answer.OutcomeLeft, Prompt: 100, Longest: 50, Counted: forbidden}, 100, 0, answer.SettledAsCounted, false},
		"5: left in the answer":               {answer.Settlement{Outcome: answer.OutcomeOf(200, false), Found: answer.UsageAbsent, Prompt: 100, Longest: 50, Counted: counted(12)}, 100, 12, answer.SettledAsCounted, false},
		"5: left, told with each event":       {answer.Settlement{Outcome: answer.OutcomeCut, Reported: told(90, 11), Prompt: 100, Longest: 50, Counted: counted(12)}, 90, 12, answer.SettledAsReported, false},
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
