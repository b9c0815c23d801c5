package knowledge_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// compoundNotes are notes by language and name; compoundQuestions share no whole word of the topic
// with the note that answers, but a part.
var compoundNotes = map[string]map[string]string{
	"German": {
		"heizung": "# Heizungswartung\n\nDie Gasheizung wird jeden Herbst gewartet. Störungsmeldungen nimmt der Hausmeisterdienst an.",
		"muell":   "# Abfalltrennung\n\nPapiertonnen werden am Montag geleert, Restmülltonnen am Freitag. Der Sperrmülltermin hängt im Treppenhaus.",
		"kantine": "# Kantinenbetrieb\n\nDas Mittagessen kostet 4,80 Euro. Die Speisekarte wird am Freitag ausgehängt; die Essensausgabe schließt um 14 Uhr.",
		"fahrrad": "# Dienstfahrräder\n\nDie Fahrradversicherung zahlt bei Diebstahl. Der Leasingvertrag läuft 36 Monate.",
		"gehalt":  "# Gehaltsabrechnung\n\nDie Lohnzahlung erfolgt zum Monatsende. Der Steuerbescheid ist der Buchhaltungsabteilung vorzulegen.",
		"labor":   "# Laborordnung\n\nDie Schutzbrillenpflicht gilt in allen Räumen. Der Gefahrstoffschrank ist verschlossen zu halten.",
		"archiv":  "# Aktenaufbewahrung\n\nRechnungsbelege sind zehn Jahre aufzuheben. Die Aktenvernichtung übernimmt ein Dienstleister.",
		"schicht": "# Schichtplanung\n\nDie Nachtschichtzulage beträgt 25 Prozent. Der Dienstplanwechsel ist zwei Wochen vorher anzumelden.",
	},
	"Dutch": {
		"verlof":  "# Verlofregeling\n\nHet ouderschapsverlof duurt zes weken. Vakantiedagen worden in het personeelsportaal aangevraagd.",
		"fiets":   "# Fietsenstalling\n\nDe fietsverzekering is niet voor ieder verplicht. Het slot wordt door de huismeester gegeven.",
		"reis":    "# Reiskostenvergoeding\n\nTreinkaartjes worden vergoed. De kilometervergoeding is 23 cent en wordt in maart betaald.",
		"ziek":    "# Ziekmelding\n\nEen doktersverklaring is niet nodig. De loondoorbetaling duurt een jaar.",
		"kantoor": "# Kantoorruimte\n\nDe vergaderzaal wordt bij de receptie geboekt. Bezoekerspassen zijn een dag geldig.",
	},
	"Swedish": {
		"semester": "# Semesterregler\n\nDu har rätt till 25 semesterdagar och kan spara fem av dem. Föräldraledigheten är betald i sex månader.",
		"resa":     "# Resepolicy\n\nTågbiljetter köps av resebyrån. Hotellkostnaden är högst 1200 kronor och det ska finnas kvitto.",
		"sjuk":     "# Sjukanmälan\n\nLäkarintyget lämnas efter sju dagar. Sjuklönen är 80 procent av lönen.",
		"lokal":    "# Lokaler\n\nKonferensrummet bokas i kalendern. Parkeringsplatserna är till för besökare och det kostar inte något.",
		"avtal":    "# Anställning\n\nUppsägningstiden är tre månader. Provanställningen kan avbrytas och det är inte bindande.",
	},
	"Danish": {
		"ferie":    "# Ferieregler\n\nDer er 25 feriedage og det er ikke muligt at gemme dem. Barselsorloven er på 24 uger.",
		"rejse":    "# Rejseafregning\n\nTogbilletten betales af firmaet. Kørselsgodtgørelsen er på 3,70 kroner og udbetales ikke til gæster.",
		"sygdom":   "# Sygemelding\n\nLægeerklæringen skal afleveres efter tre dage. Det er ikke et krav for timelønnede.",
		"kontor":   "# Kontoret\n\nMødelokalet bookes i kalenderen. Nøglekortet er personligt og skal ikke gives til andre.",
		"opsigels": "# Ansættelse\n\nOpsigelsesvarslet er tre måneder, og prøvetiden er på tre.",
	},
	"Finnish": {
		"loma":   "# Lomaohje\n\nVuosiloman pituus on 30 päivää, jos työsuhde on kestänyt vuoden. Lomaraha maksetaan kesäkuussa, mutta ei harjoittelijoille.",
		"matka":  "# Matkustaminen\n\nJunaliput varataan matkatoimistosta. Kilometrikorvaus on 53 senttiä, kun auto on oma.",
		"sairas": "# Sairastuminen\n\nLääkärintodistus tarvitaan, kun poissaolo kestää yli kolme päivää. Sairauspäiväraha voi alkaa myöhemmin.",
		"tila":   "# Tilat\n\nKokoushuoneet varataan kalenterista. Kulkukortti on henkilökohtainen, mutta vierailijakortit ovat vapaat.",
		"tyo":    "# Työsuhde\n\nIrtisanomisaika on kaksi kuukautta, jos koeaika on päättynyt. Myös palkankorotus sovitaan silloin.",
	},
	"Hungarian": {
		"szab":  "# Szabadság\n\nAz éves szabadságkeret 25 nap, és nem vihető át. A szülési szabadság egy évig tart.",
		"ut":    "# Utazás\n\nA vonatjegyek árát a cég fizeti. Az útiköltség-térítés és a szállásköltség nem adóköteles.",
		"beteg": "# Betegség\n\nAz orvosigazolás a harmadik naptól kell. A betegszabadságot egy héten belül kell jelenteni, hogy kifizessék.",
		"iroda": "# Iroda\n\nA tárgyalóterem a naptárban foglalható. A belépőkártyát nem lehet átadni, és este le kell adni.",
		"munka": "# Munkaviszony\n\nA felmondásiidő egy hónap. A munkaszerződés próbaideje három hónap, és nem hosszabbítható.",
	},
}

var compoundQuestions = map[string]map[string]string{
	"German": {
		"Wann wird die Heizung gewartet?":               "heizung",
		"Wem melde ich eine Störung?":                   "heizung",
		"Wann wird die Tonne für Papier geleert?":       "muell",
		"Wann ist der Termin für Sperrmüll?":            "muell",
		"Was kostet das Essen?":                         "kantine",
		"Bis wann ist die Ausgabe offen?":               "kantine",
		"Zahlt die Versicherung das Fahrrad?":           "fahrrad",
		"Wie lange läuft das Leasing?":                  "fahrrad",
		"Wann kommt die Zahlung vom Lohn?":              "gehalt",
		"Wer bekommt den Bescheid über die Steuer?":     "gehalt",
		"Gilt eine Pflicht für Brillen?":                "labor",
		"Gefahrstoffe":                                  "labor",
		"Wie lange hebe ich Belege auf?":                "archiv",
		"Aktenvernichter":                               "archiv",
		"Wie hoch ist die Zulage für die Nachtschicht?": "schicht",
		"Schichtplan":                                   "schicht",
		"Radversicherung":                               "fahrrad",
		"Müllabfuhr":                                    "muell",
		"Mittagskarte":                                  "kantine",
		"Hausmeister":                                   "heizung",
	},
	"Dutch": {
		"Hoe lang duurt verlof voor ouders?":          "verlof",
		"Waar vraag ik vakantie aan?":                 "verlof",
		"Is een verzekering voor de fiets verplicht?": "fiets",
		"vergoeding per kilometer":                    "reis",
		"Verklaring van de dokter":                    "ziek",
		"ziekteverlof melding":                        "ziek",
		"Hoe boek ik een zaal?":                       "kantoor",
		"pas voor bezoekers":                          "kantoor",
	},
	"Swedish": {
		"Hur många dagar semester har jag?": "semester",
		"ledighet för föräldrar":            "semester",
		"Vem köper biljetter till tåg?":     "resa",
		"kostnad för hotell":                "resa",
		"När lämnas intyg av läkare?":       "sjuk",
		"Boka rum för konferens":            "lokal",
		"parkering för besökare":            "lokal",
		"Hur lång är uppsägning?":           "avtal",
	},
	"Danish": {
		"Hvor mange dage ferie har jeg?":    "ferie",
		"barsel":                            "ferie",
		"Hvem betaler billetter til toget?": "rejse",
		"godtgørelse for kørsel":            "rejse",
		"erklæring fra læge":                "sygdom",
		"Hvordan booker jeg et lokale?":     "kontor",
		"varsel for opsigelse":              "opsigels",
	},
	"Finnish": {
		"Kuinka pitkä on loma?":                 "loma",
		"Milloin raha lomasta maksetaan?":       "loma",
		"Mistä varaan lipun junaan?":            "matka",
		"korvaus kilometreistä":                 "matka",
		"todistus lääkäriltä":                   "sairas",
		"Miten varaan huoneen kokousta varten?": "tila",
		"kortti vierailijalle":                  "tila",
		"irtisanominen":                         "tyo",
	},
	"Hungarian": {
		"Hány nap a keret?":             "szab",
		"Ki fizeti a jegyet a vonatra?": "ut",
		"költség a szállásra":           "ut",
		"Mikor kell igazolás?":          "beteg",
		"Hol foglalok termet?":          "iroda",
		"kártya a belépéshez":           "iroda",
		"szerződés":                     "munka",
	},
}

// Words, compounds and compounds with other parts meet in languages that write them as one word.
func TestCompounds(t *testing.T) {
	for language, least := range map[string]int{"German": 18, "Dutch": 6, "Swedish": 8, "Danish": 6, "Finnish": 6, "Hungarian": 7} {
		t.Run(language, func(t *testing.T) {
			b, right := holding(t, "notes", compoundNotes[language]), 0
			for question, want := range compoundQuestions[language] {
				if got := " " + answers(t, b, question); strings.HasPrefix(got, " "+want) {
					right++
				} else {
					t.Logf("%q finds%s, want %s", question, got, want)
				}
			}
			t.Logf("%d of %d", right, len(compoundQuestions[language]))
			if right < least {
				t.Errorf("%d of %d questions find their note first, want %d", right, len(compoundQuestions[language]), least)
			}
		})
	}
}

// In a base of another language nothing is searched besides the words of a question.
func TestNoCompoundsInEnglish(t *testing.T) {
	texts := knowledgetest.Handbook()
	texts["germany.md"] = "# Vertrag\n\nThe Urlaubsanspruch of staff in Germany is thirty days."
	g := basesByID{"handbook": holding(t, "handbook", texts)}.group()
	for question, want := range map[string]string{"Urlaub": "urlaub", "Resturlaub": "resturlaub"} {
		if got := explained(t, g, retrieval.Query{Text: question, Bases: refs("handbook")}); got != want {
			t.Errorf("%q: %q, want %q", question, got, want)
		}
	}
}

// Explanations show what is searched for a word, and the word itself first.
func TestCompoundsAreExplained(t *testing.T) {
	g := basesByID{"notes": holding(t, "notes", map[string]string{
		"a.md": "Der Jahresurlaubsanspruch ist hoch und die Resturlaubstage verfallen.",
		"b.md": "Das ist der Urlaub und nicht die Kur. Die Frist wird bei der Kündigung genannt.",
		"c.md": "Das Preisschild ist rot und wird erneuert. Der Spendenaufruf wird nach der Reise verlesen.",
	})}.group()
	for question, want := range map[string]string{
		"Urlaub":          "urlaub→urlaub, jahresurlaubsanspruch, resturlaubstag",
		"Urlaubstage":     "urlaubstage→jahresurlaubsanspruch, resturlaubstag, urlaub",
		"Kündigungsfrist": "kündigungsfrist→frist, kuendigung",
		"Reisen":          "reisen→reise",
		"Ende":            "end",
		"Frits":           "frits→frist",
	} {
		if got := explained(t, g, retrieval.Query{Text: question, Bases: refs("notes")}); got != want {
			t.Errorf("%q: %q, want %q", question, got, want)
		}
	}
}

// Words are looked up in the texts that a filter allows only.
func TestCompoundsRevealNothing(t *testing.T) {
	c, _, err := knowledge.FromDocuments(t.Context(), []chunk.Document{
		{ID: "secret", Text: "Die Heizungswartung und der Kartenverkauf sind nicht am Montag.", Attributes: map[string]any{"audience": "board"}},
		{ID: "open", Text: "Die Speisekarte wird am Freitag ausgehängt und der Plan nicht.", Attributes: map[string]any{"audience": "staff"}},
	}, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
	if err != nil {
		t.Fatal(err)
	}
	b := knowledge.New("notes")
	b.Swap(c)
	staff, err := filter.Parse([]byte(`{"type": "eq", "key": "audience", "value": "staff"}`))
	if err != nil {
		t.Fatal(err)
	}
	g := basesByID{"notes": b}.group()
	q := retrieval.Query{Text: "Heizung Karte", Bases: refs("notes"), Filter: staff}
	if got, want := explained(t, g, q), "heizung karte→speisekart"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The longest words, and texts of nothing but compounds of the same word, cost little.
func TestHostileCompounds(t *testing.T) {
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "und der urlaubs%c%c%carbeitsamt ", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26)
	}
	b := holding(t, "notes", map[string]string{"a.md": text.String()})
	words := strings.Repeat("urlaub", 10) + " " + strings.Repeat("x", 10<<10) + " urlaub urlaubsamt arbeitsurlaub " + strings.Repeat("arbeitsurlaubsamt", 3)
	for range 200 {
		words += " urlaubs" + strings.Repeat("q", len(words)%17)
	}
	g := basesByID{"notes": b}.group()
	got := strings.Fields(explained(t, g, retrieval.Query{Text: words, Bases: refs("notes")}))
	if len(got) == 0 || len(got) > 300 {
		t.Errorf("%d terms are searched: %.300q", len(got), got)
	}
}
