package gaps

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// subjects are what employees ask, a subject a block, in several words.
const subjects = `
How many days of parental leave do I get?
Who pays during parental leave?
Can parental leave be split between both parents?

What is the password policy?
How often must I change my password?
I forgot my password, what now?

Do we get a bike allowance?
Can the company lease an e-bike for me?
How does bike leasing reduce my salary?

How do I file an expense report?
What is the limit for travel expenses per day?
When are expenses reimbursed?

Is there a dress code in the office?
What should I wear for customers under the dress code?

How do I book a meeting room?
Are meeting rooms bookable for outside guests?

Wie viele Urlaubstage habe ich im Probejahr?
Verfallen Urlaubstage am Jahresende?

Was kostet das Deutschlandticket als Jobticket?
Wer bekommt ein Jobticket?

年假可以累積到下一年嗎？
年假有幾天？

Where is the defibrillator in the building?
Who is trained to use the defibrillator?

How long is the notice period in probation?
Does the notice period change after five years?

How do I get VPN access from abroad?
Which VPN client is supported on Linux?

Can I bring my dog to work?
Are dogs allowed in the cantine?

What is the code for error E-4711 of the coffee machine?
Why does the coffee machine show E-4711?
`

// Questions of one subject come together, in any order of asking: at least 80 % of a group's
// questions belong together, and most subjects are one group.
func TestQuestionsOfOneSubjectAreOneGroup(t *testing.T) {
	var texts []string
	var of []int
	size := map[int]int{}
	for n, block := range strings.Split(strings.TrimSpace(subjects), "\n\n") {
		for line := range strings.Lines(block) {
			texts, of = append(texts, strings.TrimSpace(line)), append(of, n)
			size[n]++
		}
	}
	random := rand.New(rand.NewPCG(47, 1))
	for range 5 {
		order := random.Perm(len(texts))
		known, vectors, counts := frequencies{of: map[string]int{}}, []termVector{}, []int{}
		for _, i := range order {
			known.add(termsOf(texts[i], nil))
		}
		for _, i := range order {
			vectors, counts = append(vectors, known.vector(termsOf(texts[i], nil))), append(counts, 1)
		}
		whole, pure := map[int]bool{}, 0
		for _, members := range group(t.Context(), vectors, counts) {
			in := map[int]int{}
			for _, m := range members {
				in[of[order[m]]]++
			}
			most := 0
			for subject, n := range in {
				most = max(most, n)
				whole[subject] = whole[subject] || len(in) == 1 && n == size[subject]
			}
			pure += most
			if len(in) > 1 {
				var mixed []string
				for _, m := range members {
					mixed = append(mixed, texts[order[m]])
				}
				t.Logf("mixed: %q", mixed)
			}
		}
		if share := float64(pure) / float64(len(texts)); share < 0.8 {
			t.Errorf("%.2f of the questions are with those of their subject", share)
		}
		alone := 0
		for _, is := range whole {
			if is {
				alone++
			}
		}
		if n := len(size); alone < n/2 {
			t.Errorf("%d of %d subjects are a group of their own", alone, n)
		}
	}
}

// BenchmarkGroup shows the time by question, for random words of which some are frequent.
func BenchmarkGroup(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			random := rand.New(rand.NewPCG(47, 2))
			known, vectors, counts := frequencies{of: map[string]int{}}, []termVector{}, []int{}
			var all []map[string]float64
			for range n {
				var text strings.Builder
				for range 4 + random.IntN(6) {
					fmt.Fprintf(&text, "word%d ", int(float64(5000)*random.Float64()*random.Float64()))
				}
				all = append(all, termsOf(text.String(), nil))
				known.add(all[len(all)-1])
			}
			for _, terms := range all {
				vectors, counts = append(vectors, known.vector(terms)), append(counts, 1)
			}
			b.ResetTimer()
			for range b.N {
				start := time.Now()
				if groups := group(b.Context(), vectors, counts); len(groups) == 0 {
					b.Fatal("no groups")
				}
				b.ReportMetric(float64(time.Since(start).Microseconds())/float64(n), "µs/question")
			}
		})
	}
}
