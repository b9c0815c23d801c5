package followup

// The function words of English, German, French and Spanish are taken from Snowball's lists of
// stop words (snowballstem.org), without rare forms; contractions are cut at the apostrophe. The
// words that make a follow-up are demonstratives, personal pronouns, conjunctions and pronominal
// adverbs from grammars.
var englishWords = lexicon{
	roles: map[roles]string{
		function: `i me my myself we us our ours ourselves you your yours yourself am is are was were be been being
			have has had having do does did doing done would should could can cannot may might must shall will
			as if of off up down out again once here all any both each few most other some such no not only own
			than very just s t re ve ll d m don doesn didn isn aren wasn weren won wouldn shouldn couldn can hasn
			haven hadn let many much get gets got getting know want need like please help way ways thing things
			something anything everything kind option options alternative alternatives reason reasons still already
			really exactly actually maybe possible make mean means happen happens ever never`,
		refers:   `he him she her they them themselves itself hers theirs ones former latter aforementioned likewise`,
		owns:     `its his their`,
		opens:    `and but or so then also plus even only not`,
		asks:     `what which who whom whose where when why how explain show tell describe elaborate example examples details detail more further`,
		closes:   `thanks thank thx cheers ok okay great perfect awesome cool nice good works worked helped helpful understood sense bye goodbye sorry hi hello hey yes yep yeah sure alright lol wow haha super fine brilliant excellent wonderful amazing`,
		relates:  `for in on at with without from to by about under over after before during via per since until between regarding within through into of against above below`,
		leads:    `is was does did do has had can could will would should may might must why how what when where with for about by of after before on in from to like than if against without at into`,
		clause:   `and or but if when because while so unless until before after that which who since whenever although where`,
		article:  `a an`,
		definite: `the`,
		adds:     `too also either`,
		chats:    `joke jokes riddle poem haiku limerick weather homework today`,
		you:      `you`,
		now:      `year month week day morning afternoon evening night quarter time season summer winter spring autumn weekend company firm office team country city organisation organization department`,
	},
	special: map[special]string{
		itWord: `it`, thatWord: `that`, thisWord: `this these those`, thereWord: `there`, thenWord: `then well`, oneWord: `one`,
		sameWord: `same`, insteadWord: `instead`, elseWord: `else`, ofWord: `of`, aboutWord: `about`, toWord: `to if when`,
		likelyWord: `possible impossible necessary allowed safe ok okay better best worth common normal enough easy hard difficult recommended advisable important legal mandatory required true wise take takes`,
		existsWord: `is are was were be been isn aren exist exists`,
		whichWord:  `which another other first second third last next right each new old`,
	},
}
