package analysis_test

import (
	"slices"
	"testing"

	"sidenote/retrieval/analysis"
)

// What people say to an assistant on any topic consists of conversational words only; topic words
// are not conversational.
func TestConversational(t *testing.T) {
	for _, text := range []string{
		"thanks, that helped!", "Could you explain that again, in more detail?", "it still doesn't work", "how do I fix this?",
		"tell me a joke", "what's the weather like today?", "write me a poem", "17 + 23 = ?", "make it shorter",
		"vielen Dank, es geht wieder", "wie wird das Wetter morgen?", "erzähl mir einen Witz",
		"merci beaucoup", "raconte-moi une blague", "muchas gracias", "cuéntame un chiste",
		"谢谢你", "謝謝", "讲个笑话", "为什么", "ありがとうございます", "教えてください",
	} {
		for _, term := range analysis.Terms(text) {
			if !analysis.Conversational(term) {
				t.Errorf("%q: %s is not conversational", text, term)
			}
		}
	}
	for _, text := range []string{
		"parental leave", "git rebase", "PAY-4021", "E0382", "404", "1998", "printer", "Urlaub", "congés", "vacaciones", "育儿假", "東京", "残業",
	} {
		if slices.ContainsFunc(analysis.Terms(text), analysis.Conversational) {
			t.Errorf("%q: %q has a term of conversation", text, analysis.Terms(text))
		}
	}
}

// A word counts once, however many terms it has; conversational words count less.
func TestTopicality(t *testing.T) {
	for term, want := range map[string]float64{"leav": 1, "手機": .5, "help": .25, "什麼": .125} {
		if got, conversational := analysis.Topicality(term); got != want || conversational != analysis.Conversational(term) {
			t.Errorf("%s: %v, %v; want %v", term, got, conversational, want)
		}
	}
}

func BenchmarkTopicality(b *testing.B) {
	terms := analysis.Terms("How many weeks of parental leave do I get if I help with 手機?")
	for b.Loop() {
		for _, t := range terms {
			_, _ = analysis.Topicality(t)
		}
	}
}
