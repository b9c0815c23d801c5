package followup_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/retrieval/followup"
)

func TestDepends(t *testing.T) {
	for _, text := range []string{
		"and how do I drop it without locking?", "why?", "can you show me an example?", "What about Windows?", "For part-timers?",
		"Does the same apply to contractors?", "ok, and in Python?", "Which one should I use?", "How does that work?", "what else?",
		"Tell me more.", "Thanks! How long does it take?", "Is it possible?", "what should I use instead?", "HOW DO I UNDO IT",
		"Can it be done by phone?", "How do I get there?", "How many?", "What are its limits?", "that didn't work",
		"Und wie lange dauert das?", "Warum?", "Kann ich es zurückgeben?", "Gilt das auch für Praktikanten?", "Was ist damit gemeint?",
		"Für Teilzeitkräfte?", "Zeig mir ein Beispiel.", "Wie lösche ich den?", "Wie funktioniert das genau?",
		"Et pour les enfants ?", "Pourquoi ?", "Comment la supprimer ?", "Combien coûte-t-elle ?", "Peux-tu donner un exemple ?",
		"¿Y por qué?", "¿Cómo lo borro?", "¿Cómo puedo borrarlo sin bloquear la tabla?", "¿Puedes dar un ejemplo?", "¿Y si pierdo la tarjeta?",
		"E per i gemelli?", "E quanto tempo demora?", "Hoe werkt dat?", "A jak długo się na to czeka?", "Peki ne kadar sürer?", "Kauanko se kestää?",
		"És ikreknél?", "Còn bao lâu?", "А сколько это стоит?", "Και πόσο διαρκεί αυτό;", "וכמה זמן זה נמשך?", "وماذا إذا فقدته؟", "그건 얼마나 걸리나요?", "それはいくらですか？",
		"Og hvor længe så?", "แล้วราคาเท่าไหร่?", "А скільки коштує?", // without a list
		"为什么？", "那孕妇呢？", "它多少钱？", "可以举个例子吗？", "然后怎么办？", "实习生也可以申请吗？",
	} {
		if !followup.Depends(text) {
			t.Errorf("%q stands alone", text)
		}
	}
	for _, text := range []string{
		"", "  \n", "hi", "thanks, that helped!", "Thank you!", "ok", "it works now", "great, that makes sense", "Danke, das hat geholfen!", "merci beaucoup !",
		"Gracias, perfecto.", "谢谢，明白了", "好的", "Спасибо!", "Teşekkürler!", "ありがとうございます", "감사합니다", "Dziękuję, super.", "תודה!", "شكرا",
		"tell me a joke", "who are you?", "how are you today?", "can you help me with my homework", "what's the weather like?",
		"Erzähl mir einen Witz", "Raconte-moi une blague", "Cuéntame un chiste", "讲个笑话吧",
		"How many weeks of parental leave do I get?", "How do I reset my forgotten password?", "How do I abort a rebase?",
		"Is it possible to carry over holidays to next year?", "If the build fails, how do I restart it from the console?",
		"What is the dress code in this company?", "Who is on call this week in the London office?", "Is there a limit for hotel prices per night?",
		"Who do I ask in IT about broken laptops?", "How do I create an index on a table and drop it again without locking?",
		"Wie beantrage ich Urlaub in Berlin?", "Gibt es eine Kantine in München oder Hamburg?", "Ist es möglich, den Urlaub ins nächste Jahr zu übertragen?",
		"Wie setze ich das vergessene Passwort meines Kontos zurück?", "Können Sie mir die Adresse der Niederlassung Hamburg nennen?",
		"Comment saisir une note de frais de voyage ?", "Est-ce que la lettre de licenciement arrive par courrier ?", "Y a-t-il une cantine à Lyon ou à Paris ?",
		"¿Cuántos días de vacaciones tiene la plantilla de Madrid?", "¿Qué es lo que cubre el seguro dental privado?",
		"Come faccio a chiedere il rimborso delle spese di viaggio all'estero?", "Como posso pedir a licença parental para gémeos em Lisboa?",
		"Hoe vraag ik ouderschapsverlof aan voor mijn tweeling?", "Jak złożyć wniosek o urlop rodzicielski w Warszawie?",
		"Wie setze ich das Passwort für den Drucker im Büro zurück?", "Как оформить командировку в другой город на этой неделе?",
		"Πώς κάνω αίτηση για γονική άδεια στο γραφείο της Αθήνας;", "איך מגישים בקשה לחופשת לידה במשרד תל אביב?", "كيف أقدم طلب إجازة الوالدين في مكتب القاهرة؟",
		"서울 사무실에서 육아휴직 신청서를 제출하는 방법을 알려 주세요", "大阪支社で育児休業の申請書を提出する方法を教えてください",
		"公司班车几点从人民广场发车？", "新员工入职第一天需要带哪些证件？",
		strings.Repeat("why is it so? ", 100),
	} {
		if followup.Depends(text) {
			t.Errorf("%q goes on from what was said", text)
		}
	}
}

// join calls Join with a list, first turn first; read is the number of turns read.
func join(text string, turns ...string) (joined []retrieval.Turn, read int) {
	return followup.Join(text, func(yield func(string) bool) {
		for _, turn := range slices.Backward(turns) {
			if read++; !yield(turn) {
				return
			}
		}
	}), read
}

// Join goes back to the question that names the topic, past thanks and questions without content
// words. Turns before that question do not join.
func TestJoinFollowsTheTopic(t *testing.T) {
	const topic, index = "How does the pension scheme work for contractors?", "How do I create an index on a PostgreSQL table?"
	f := func(text string, turns []string, want ...string) {
		t.Helper()
		joined, _ := join(text, turns...)
		var texts []string
		for _, turn := range joined {
			texts = append(texts, turn.Text)
		}
		if diff := cmp.Diff(want, texts); diff != "" {
			t.Errorf("%q after %q (-want +got):\n%s", text, turns, diff)
		}
	}
	f("can you show me an example?", []string{topic, index, "and how do I drop it without locking?", "why?"}, "drop locking?", "create index PostgreSQL table?")
	f("and how do I drop it without locking?", []string{topic, index, "thanks, that helped"}, "create index PostgreSQL table?")
	f("Who is allowed to bring a dog to the office?", []string{index})
	f("thanks, that helped", []string{index})
	f("and what does it cost?", []string{"How does the Aurora scanner work?", "Who repairs scanners on Fridays?"}, "repairs scanners Fridays?", "Aurora scanner work?")
	f("jury service", []string{"How do I abort a rebase?"}) // as specific as the turn before
	f("jury service", []string{index}, "create index PostgreSQL table?")
	f("why?", []string{"hi"}) // no topic
	f("why?", nil)            // nor here
	f("How many?", []string{"What is --no-edit, as in `git commit --amend --no-edit`, for?"}, "--no-edit, `git commit --amend --no-edit`, ?")
	f("Und was kostet der?", []string{"Wie lang ist die Warteliste für einen Parkplatz?"}, "lang Warteliste Parkplatz?")
	f("多少钱？", []string{"补充医疗保险怎么申请？"}, "补充医疗保险 申请?")
}

// A question without content words is searched like its topic.
func TestJoinInPlaceOfAQuestion(t *testing.T) {
	joined, _ := join("why?", "How do I create an index on a PostgreSQL table?", "and how do I drop it without locking?")
	if len(joined) != 2 || joined[0].Weight != 1 || joined[1].Weight <= 0.5 || joined[1].Weight >= 1 {
		t.Errorf("joined %v", joined)
	}
}

// The work and the joined text are bounded, and weights decrease, whatever was said.
func TestJoinIsBounded(t *testing.T) { rapid.Check(t, bounded) }

func FuzzJoin(f *testing.F) { f.Fuzz(rapid.MakeFuzz(bounded)) }

func bounded(t *rapid.T) {
	piece := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"why", "it", "and", "?", " ", ", ", "thanks", "index", "table", "of", "es", "das", "Und", "la", "borrarlo", "呢", "它", "年假", "が", "'", "-", "ＩＴ", "ﷺ", "\xff", "e\u0301",
	}))
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Repeat(strings.Join(rapid.SliceOf(piece).Draw(t, "pieces"), rapid.SampledFrom([]string{"", " "}).Draw(t, "between")),
			rapid.SampledFrom([]int{1, 1, 1, 100}).Draw(t, "times"))
	})
	question, turns := text.Draw(t, "question"), rapid.SliceOfN(text, 0, 12).Draw(t, "turns")
	joined, read := join(question, turns...)
	if len(joined) > 0 && !followup.Depends(question) || !followup.Depends(question) && read > 0 {
		t.Fatalf("%v joined a question that stands alone, %d turns read", joined, read)
	}
	if read > followup.MaxTurns+1 || len(joined) > followup.MaxTurns {
		t.Fatalf("%d turns read, %d joined", read, len(joined))
	}
	before := 1.0
	for i, turn := range joined {
		if !(turn.Weight > 0 && (turn.Weight < before || i == 0 && turn.Weight <= 1)) {
			t.Fatalf("weights do not fall: %v", joined)
		}
		before = turn.Weight
		if len(turn.Text) > 4*followup.MaxBytes || utf8.ValidString(strings.Join(turns, "")) && !utf8.ValidString(turn.Text) {
			t.Fatalf("joined %q", turn.Text)
		}
	}
	if again, _ := join(question, turns...); !slices.Equal(joined, again) {
		t.Fatalf("first %v, then %v", joined, again)
	}
}

func BenchmarkDepends(b *testing.B) {
	for name, text := range map[string]string{
		"alone":    "How many weeks of parental leave do I get?",
		"followup": "and how do I drop it without locking?",
		"german":   "Wie lange ist die Kündigungsfrist nach der Probezeit?",
		"chinese":  "公司班车几点从人民广场发车？",
		"long":     strings.Repeat("how do I drop it without locking? ", 200),
		"longest":  strings.Repeat("a ", 200), // the longest text that is analysed
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				followup.Depends(text)
			}
		})
	}
}

func BenchmarkJoin(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if joined, _ := join("why?", "How do I create an index on a PostgreSQL table?", "and how do I drop it without locking?"); len(joined) != 2 {
			b.Fatal(joined)
		}
	}
}
