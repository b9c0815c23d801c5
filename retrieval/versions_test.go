package retrieval

import "testing"

func TestMomentIn(t *testing.T) {
	for name, want := range map[string][3]string{ // date, version, stem
		"leave-2019":                {"2019", "", "leave"},
		"2026-03 report":            {"2026-03", "", "report"},
		"report_2026_03_31":         {"2026-03-31", "", "report"},
		"report 20260331":           {"2026-03-31", "", "report"},
		"Report 31.3.2026":          {"2026-03-31", "", "report"},
		"report-2026Q1":             {"2026-03", "", "report"},
		"Q4 2026 report":            {"2026-12", "", "report"},
		"report March 2026":         {"2026-03", "", "report"},
		"Bericht März 2026":         {"2026-03", "", "bericht"},
		"规定2026年3月":                 {"2026-03", "", "规定"},
		"contract v2":               {"", "2", "contract"},
		"contract_V2.10":            {"", "2.10", "contract"},
		"contract rev 3 2025":       {"2025", "3", "contract"},
		"v2/api":                    {"", "2", "api"},
		"P-200":                     {"", "", "p 200"},
		"report-2026-13":            {"", "", "report 2026 13"},
		"report-2026-02-31":         {"2026-02", "", "report 31"},
		"marketing 2026":            {"2026", "", "marketing"},
		"iso 9001":                  {"", "", "iso 9001"},
		"99999999999999999999999 a": {"", "", "99999999999999999999999 a"},
		"covid19":                   {"", "", "covid 19"},
	} {
		m, stem := momentIn(name)
		if got := [3]string{m.date(), m.version, stem}; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if m.known() && !maybeDated([]byte(name)) {
			t.Errorf("%s: passed over", name)
		}
	}
}

func TestCompareVersions(t *testing.T) {
	for _, c := range [][2]string{{"", "1"}, {"1", "2"}, {"2", "10"}, {"2.9", "2.10"}, {"2", "2.1"}} {
		if compareVersions(c[0], c[1]) >= 0 || compareVersions(c[1], c[0]) <= 0 || compareVersions(c[1], c[1]) != 0 {
			t.Errorf("%s is not before %s", c[0], c[1])
		}
	}
}

func TestAsksAboutChange(t *testing.T) {
	for _, question := range []string{
		"What changed since 2019?", "the history of the leave policy", "compare old and new", "what was the old rule",
		"Was hat sich geändert?", "Wie war es früher?", "Qu'est-ce qui a changé ?", "l'ancienne règle", "¿Qué ha cambiado?", "la versión anterior",
		"Cosa è cambiato?", "O que mudou?", "regras antigas", "Wat is er gewijzigd?", "de vorige versie", "产假有什么变化？", "以前的规定", "育休はどう変わりましたか", "変更履歴", "이전 규정", "Что изменилось?",
	} {
		if !asksAboutChange(plainText(question), pieces(plainText(question))) {
			t.Errorf("not about change: %s", question)
		}
	}
	for _, question := range []string{"How many weeks of leave do I get?", "Wie viele Wochen Urlaub gibt es?", "current policy", "Quelle est la durée du congé ?", "产假有几周？", "育休は何週間ですか", "Marketing exchange", "is there anything else"} {
		if asksAboutChange(plainText(question), pieces(plainText(question))) {
			t.Errorf("about change: %s", question)
		}
	}
}
