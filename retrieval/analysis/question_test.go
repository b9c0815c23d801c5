package analysis_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/retrieval/analysis"
)

// Identifiers are terms, after those of their parts.
func TestIdentifiers(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if diff := cmp.Diff(want, strings.Join(analysis.Terms(text), " ")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	// options
	f("git rebase --onto main", "git rebas onto --onto main")
	f("(--no-verify) `-p` -rf", "verifi --no-verify p -p rf -rf")
	f("--all", "--all")
	f("a --b-c--d", "b c --b-c d")
	f("range 5-7 below -7 and -12.5", "rang 5 7 7 12.5")
	f("word--word well -- said x-y", "word word well said x y")
	f("用--onto搬移", "用 onto --onto 搬移")

	// codes
	f("E0382 PAY-4021", "0382 e0382 pay 4021 pay4021 pay-4021")
	f("CVE-2024-3094, UTF-8.", "cve 2024 3094 cve20243094 cve-2024-3094 utf 8 utf8 utf-8")
	f("2024-01-31 pages 123-145", "2024 01 31 2024-01-31 page 123 145")
	f("p53-dependent long-term x-ray", "53 p53 depend long term x ray")

	// spellings of letters with a number
	f("AB1234/6 AB-1234/6", "ab 1234 ab1234 6 ab 1234 ab1234 ab-1234 6")
	f("ORA-01555 ora01555 ISO 9001 ERR_104", "ora 01555 ora01555 ora-01555 ora 01555 ora01555 iso 9001 iso9001 err 104 err104 err_104")
	f("0x80070020 0X8007ABCD 0x8g 0x", "80070020 0x80070020 8007abcd 0x8007abcd 0x8g 0 0x")
	f("500mg 24V 10th 1990s 12abcd", "mg 500 500mg 24 24v 10th 1990s 12abcd")
	f("(KB 5034441) in 2019, year 2019 to 50000 xiso-din 4711", "kb 5034441 kb5034441 2019 year 2019 50000 xiso din 4711")
	f("a1b2 sha256sum x-1y 7-7-7", "a1b2 sha256sum x 1 1y x-1y 7 7 7 7-7-7")

	// names
	f("Vec::with_capacity", "vec capac with_capacity vec::with_capacity")
	f("std::vec::Vec<T>", "std vec vec std::vec::vec t")
	f("ann@example.org", "ann exampl org example.org ann@example.org")
	f("lru_cache", "lru cach lru_cache")
	f("def __init__(self)", "def init __init__ self")

	// keys and languages
	f("Ctrl+C Ctrl-C Ctrl+Shift+P", "ctrl c ctrl+c ctrl c ctrl+c ctrl shift p ctrl+shift+p")
	f("C++ and C# and 1+1", "c c++ c c# 1 1")
	f("C++17", "c c++ 17")

	// versions
	f("3.12.1 v3.12.1 1.2.0-rc 3.14", "3.12 3.12.1 3.12 3.12.1 v3.12.1 1.2 1.2.0 rc 1.2.0-rc 3.14")
	f("1_000_000 1.0_0.2", "1_000_000 1.0_0 1.0_0.2")
	f("192.168.1.10", "192.168.1 192.168.1.10")

	// paths
	f("/etc/hosts and/or km/h", "host etc/hosts km h")
	f("~/.config/nvim", "config nvim config/nvim")
	f("src/main.rs a/b/c", "src main rs main.rs src/main.rs b c a/b/c")
	f("https://docs.example.org/3/library/", "https doc exampl org docs.example.org 3 librari docs.example.org/3/library")
	f("UTF-8/UTF-16", "utf 8 utf8 utf-8 utf 16 utf16 utf-16")
	f("/var/log/app-2.1/x", "var log app 2.1 app-2.1 x var/log/app-2.1/x")
	f("</div>", "div")

	f(strings.Repeat("ab/", 30)+"ab", strings.TrimSpace(strings.Repeat("ab ", 31)))              // too long
	f("PAY-"+strings.Repeat("4", 70), "pay")                                                     //
	f("x"+strings.Repeat("-1", 40), "x"+strings.Repeat(" 1", 40))                                //
	f("a::"+strings.Repeat("b", 60), "b"+strings.Repeat("b", 59)+" a::"+strings.Repeat("b", 60)) // just short enough
}

// Question names the identifier that each term is a part of.
func TestQuestion(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		var got []string
		for _, term := range analysis.Question(text) {
			switch term.Whole {
			case "":
			case term.Text:
				term.Text += "!"
			default:
				term.Text += "<" + term.Whole
			}
			got = append(got, term.Text)
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	f("use --onto now", "use onto<--onto --onto! now")
	f("Vec::with_capacity fails", "vec<vec::with_capacity capac<with_capacity with_capacity<vec::with_capacity vec::with_capacity! fail")
	f("v3.12.1 E0382 10kg", "3.12<3.12.1 3.12.1<v3.12.1 v3.12.1! 0382<e0382 e0382! kg<10kg 10<10kg 10kg!")
	f("src/main.rs PAY-4021", "src<src/main.rs main<main.rs rs<main.rs main.rs<src/main.rs src/main.rs! pay<pay-4021 4021<pay-4021 pay4021<pay-4021 pay-4021!")
	f("/var/app-2/x", "var<var/app-2/x app<app-2 2<app-2 app2<app-2 app-2<var/app-2/x x<var/app-2/x var/app-2/x!")
	f("a UTF-8 and parseURL", "utf<utf-8 8<utf-8 utf8<utf-8 utf-8! pars<parseurl url<parseurl parseurl!")
	f("parse URL", "pars url")
	f("error 80070020 in 50000", "error 80070020! 50000")
}

// Question returns the same terms as Terms.
func TestQuestionIsTerms(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "Ab", "9", "x1", "IT", "-", "--", "::", ":", "/", "+", "++", "#", "@", ".", "_", "__", " ", "\n", "漢", "é", "3.1.2", "ctrl", "'"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(part, 0, 40).Draw(t, "parts"), "")
		var got []string
		for _, term := range analysis.Question(text) {
			got = append(got, term.Text)
		}
		if diff := cmp.Diff(analysis.Terms(text), got); diff != "" {
			t.Fatalf("%q (-terms +question):\n%s", text, diff)
		}
	})
}

// Time is linear in the length of the text, whatever joins its words.
func TestLongIdentifiers(t *testing.T) {
	for _, part := range []string{"b-", "b/", "b/b-", "b::", "--b", "b1-", "-b/", "__b", "b+", "~/b", "v1.2."} {
		text := strings.Repeat(part, 300_000)
		if got := len(analysis.Terms(text)); got == 0 {
			t.Errorf("%q: no terms", part)
		}
	}
}
