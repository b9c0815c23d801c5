package report_test

import (
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"

	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/rewrite"
)

// inStages returns reporttest.Injected answered by a chain of four stages, with the stages that
// were called.
func inStages(answer string, called ...report.Stage) *report.Report {
	r := reporttest.Injected()
	r.Outcome, r.Stages = report.Staged, &report.Stages{Total: 4, Called: called, Answer: answer, Ended: true}
	return r
}

func stage(name string, outcome report.StageOutcome) report.Stage {
	return report.Stage{Name: name, Outcome: outcome, Calls: 1}
}

func TestStatusInStages(t *testing.T) {
	const added = "; sources=4; tokens=1187; budget=2000; exact; cache=hit; planner=off; "
	f := func(want string, r *report.Report) {
		t.Helper()
		got := string(report.AppendStatus(nil, r))
		if !strings.HasPrefix(got, want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		item, err := httpsfv.UnmarshalItem([]string{got})
		if err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if n := len(item.Params.Names()); n != strings.Count(got, "; ") {
			t.Errorf("a name stands twice: %s", got)
		}
	}
	with := func(r *report.Report, change func(*report.Report)) *report.Report {
		change(r)
		return r
	}
	evidence, draft := stage("evidence", report.StageOK), stage("draft", report.StageOK)

	f("staged; stages=4"+added, with(inStages(""), func(r *report.Report) { r.Stages.Ended = false })) // when a stream begins
	f("staged; stages=4"+added, inStages("final", evidence, draft, stage("critic", report.StageOK), stage("final", report.StageOK)))
	f("staged; stages=3; stopped=critic; answered=draft"+added, inStages("draft", evidence, draft, stage("critic", report.StageStopped)))
	f("staged; stages=3; failed=critic; failure=timeout; answered=draft"+added, inStages("draft", evidence, draft, stage("critic", report.StageTimeout)))
	f("staged; reason=no-match; stages=2; stopped=critic; answered=draft", with(inStages("draft", draft, stage("critic", report.StageStopped)), func(r *report.Report) {
		r.Reason, r.Rewrite.Outcome = rewrite.ReasonNoMatch, rewrite.Untouched
	}))
	f("injected; stages=1; failed=evidence; failure=rate-limit"+added, with(inStages("", stage("evidence", report.StageLimited)), func(r *report.Report) { r.Outcome = rewrite.Injected }))
	f("injected; unstaged=client-tools"+added, with(reporttest.Injected(), func(r *report.Report) { r.StagesSkipped = "client-tools" }))
	f("injected; ladder=no_stages"+added, with(reporttest.Injected(), func(r *report.Report) { r.Budget.Rung = "no_stages" }))
	f("untouched; reason=no-match; stages=1; empty=evidence", with(inStages("", stage("evidence", report.StageEmpty)), func(r *report.Report) {
		r.Outcome, r.Reason = rewrite.Untouched, rewrite.ReasonNoMatch
	}))
	f("answered; reason=no-match; stages=0", with(inStages(""), func(r *report.Report) { r.Outcome, r.Reason = rewrite.Answered, rewrite.ReasonNoMatch }))
	f("failed; reason=upstream-timeout; stages=2; failed=draft; failure=timeout", with(inStages("", evidence, stage("draft", report.StageTimeout)), func(r *report.Report) {
		r.Outcome, r.Reason = report.Failed, report.ReasonUpstreamTimeout
	}))
	f("refused; reason=limit; unstaged=choices", with(reporttest.Injected(), func(r *report.Report) {
		r.Outcome, r.Reason, r.StagesSkipped = rewrite.Refused, report.ReasonLimit, "choices"
	}))

	// Names of stages may begin with characters that tokens may not begin with.
	f(`staged; stages=2; stopped="2nd"; answered="_1"`, inStages("_1", stage("_1", report.StageOK), stage("2nd", report.StageStopped)))
	f(`staged; stages=2; failed="-x"; failure=silent; answered=a-1_b`, inStages("a-1_b", stage("a-1_b", report.StageOK), stage("-x", report.StageSilent)))
}

// Each outcome is a valid token of the status, and all but three are failures.
func TestStageFailures(t *testing.T) {
	fails := map[report.StageOutcome]bool{
		report.StageOK: false, report.StageStopped: false, report.StageEmpty: false,
		report.StageConnect: true, report.StageLimited: true, report.StageRefused: true, report.StageServer: true, report.StageTimeout: true, report.StageBroken: true,
		report.StageInvalid: true, report.StageSilent: true, report.StageBudget: true, report.StageNoMemory: true, report.StageLeft: true, report.StageUnpriced: true, report.StageUnsettled: true,
	}
	for outcome, want := range fails {
		s := inStages("", stage("draft", report.StageOK), stage("final", outcome)).Stages
		if failed := s.Failed(); (failed != nil) != want || want && failed.Name != "final" {
			t.Errorf("%s: %+v", outcome, failed)
		}
		r := &report.Report{Outcome: report.Staged, Stages: s}
		if goesOn := want && outcome != report.StageLeft && outcome != report.StageBudget; (r.StageFailed() == outcome) != goesOn || !goesOn && r.StageFailed() != "" {
			t.Errorf("%s: goes on without %q", outcome, r.StageFailed())
		}
		for _, ended := range []rewrite.Outcome{report.Failed, rewrite.Refused} {
			if why := (&report.Report{Outcome: ended, Stages: s}).StageFailed(); why != "" {
				t.Errorf("%s goes on without %q", ended, why)
			}
		}
		got := string(report.AppendStatus(nil, r))
		if said := strings.Contains(got, "; failed=final; failure="+string(outcome)); said != want {
			t.Errorf("%s: %s", outcome, got)
		}
	}
	if (*report.Stages)(nil).Failed() != nil || (&report.Stages{}).Last() != nil {
		t.Error("a stage that was not called failed")
	}
}

// The sources of a staged answer are those of its request, also at the end of a stream.
func TestStagedSourcesAreTold(t *testing.T) {
	r := inStages("final", stage("final", report.StageOK))
	r.Expose = report.ExposeIDs
	header := string(report.AppendAllSources(nil, r))
	if closing := string(report.AppendClosing(nil, r)); !strings.HasPrefix(header, `"1";kb="handbook";doc="leave.md"`) || !strings.HasSuffix(closing, " sidenote-sources: "+header) || !strings.HasPrefix(closing, "sidenote-status: staged; stages=1; ") {
		t.Errorf("%s\nheader %s", closing, header)
	}
}
