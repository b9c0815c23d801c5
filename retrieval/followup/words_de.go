package followup

var germanWords = lexicon{
	roles: map[roles]string{
		function: `ich mich mir du dich dir wir uns euch ihr ihre ihrem ihren ihrer mein meine meinem meinen meiner dein deine deinem deinen
			unser unsere unserem unseren unserer euer eure man sich sein bin bist ist sind war waren wird werden werde würde würden
			hab habe haben hat hatte hatten kann kannst können könnt könnte könnten muss muß musst müssen müsste darf darfst dürfen soll sollen
			sollte will willst wollen möchte mag mögen lassen lässt mache machen macht tun geht gehen brauche brauchst braucht brauchen
			bekomme bekommt bekommen kriege als an am alle allem allen aller alles bis da doch durch eben etwa einmal mal etwas hier
			hin im in ins ja je jede jedem jeden jeder jedes jetzt kein keine keinem keinen keiner nicht nichts noch nun nur ob ohne
			schon sehr selbst so um viel viele vom wieder weg zwar des bitte eigentlich immer genau möglichkeit möglichkeiten
			ander andere anderem anderen anderer anderes lange oft sonstige gelten gilt`,
		refers:   `er ihn ihm dies davon damit dafür dazu darin daran darauf dabei dagegen darüber dadurch danach davor daraus dahin dort solche solchem solchen solcher solches derselbe dasselbe dieselbe denselben demselben dieselben letztere letzteres ersteres genauso ebenso stattdessen`,
		owns:     `seine seinem seinen seiner deren dessen`,
		opens:    `und aber oder also dann sondern auch nur sogar trotzdem`,
		asks:     `was wer wem wen wie wo wann warum wieso weshalb welche welchem welchen welcher welches wieviel wozu womit woher wohin erklär erkläre erklären zeig zeige zeigen nenne beispiel beispiele mehr details genauer konkret weiter`,
		closes:   `danke dank super toll prima klasse perfekt okay ok gut verstanden geholfen hilfreich klappt geklappt hallo hi tschüss moin nein klar`,
		relates:  `für in im an am auf aus bei ohne mit nach von vom vor während seit zu zum zur unter über gegen ab bis durch trotz wegen laut außer`,
		clause:   `und oder aber wenn weil dass daß ob während bevor nachdem falls sobald als`,
		article:  `ein eine einem einen einer eines`,
		definite: `der die das den dem`,
		adds:     `auch ebenfalls`,
		chats:    `witz witze rätsel gedicht wetter hausaufgaben`,
		now:      `jahr monat woche tag quartal sommer winter herbst frühling wochenende firma unternehmen büro abteilung team land stadt zeit`,
	},
	special: map[special]string{
		itWord: `es`, thisWord: `diese diesem diesen dieser dieses jene jenem jenen jener jenes`, theWord: `der die das den dem`, sheWord: `sie ihnen`,
		thenWord: `dann`, elseWord: `sonst`, toWord: `zu dass ob wenn`, existsWord: `gibt gab`,
		likelyWord: `möglich nötig notwendig erlaubt sinnvoll sicher besser egal üblich normal wichtig`,
	},
}
