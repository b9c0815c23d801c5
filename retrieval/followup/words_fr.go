package followup

var frenchWords = lexicon{
	roles: map[roles]string{
		function: `je j tu nous vous on me m te se s t toi moi soi mon ma mes ton ta tes son sa ses notre nos votre vos leur leurs
			est es sont suis sommes êtes était étaient sera seront serait soit être été a ai as ont avons avez avait avoir aura
			peut peux pouvez pouvons puis pourrait dois doit devez faut faire fait fais ne n pas plus très si que qu dont y en
			de d du des c l ni car tout tous toute toutes autre autres même encore déjà alors bien façon moyen chose choses possible`,
		refers:   `ils elle elles lui eux celui celle ceux celles cela ceci ça là`,
		opens:    `et mais ou donc alors puis aussi sinon ensuite même seulement`,
		asks:     `comment pourquoi quand combien quel quelle quels quelles qui quoi où explique expliquez montre montrez exemple exemples détails précisément`,
		closes:   `merci parfait super génial accord ok okay bonjour salut revoir compris oui non top cool`,
		relates:  `pour en dans avec sans par sur sous chez après avant depuis pendant à au aux selon vers entre contre`,
		leads:    `comment pour de d sans pas peut peux puis dois doit faut nous vous quand`,
		clause:   `et ou mais si quand que qui car parce lorsque`,
		article:  `un une`,
		definite: `le la les l`,
		adds:     `aussi également`,
		chats:    `blague blagues devinette poème météo`,
		now:      `année mois semaine jour trimestre matin soir entreprise société bureau équipe pays ville été`,
	},
	special: map[special]string{
		itWord: `il`, thisWord: `cet cette ces`, ceWord: `ce`, cliticWord: `le la les l en`, subjectWord: `je j tu on`,
		existsWord: `y faut`, toWord: `de d que qu`, likelyWord: `possible nécessaire obligatoire utile mieux normal important interdit permis`,
	},
}
