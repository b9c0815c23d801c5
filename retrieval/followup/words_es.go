package followup

var spanishWords = lexicon{
	roles: map[roles]string{
		function: `yo tú tu tus ti te me mi mis mí nos nosotros os se su sus suyo suya nuestro nuestra nuestros nuestras
			de del al que es son ser soy eres fue era sea está están estoy estar hay ha han he has haber había tiene tienen tengo tienes tener
			puedo puedes puede podemos pueden poder debo debe debes hago hace hacer hacen quiero necesito necesita no ya muy más si
			sí todo todos toda todas otro otra otros otras algo alguno alguna nada tanto mucho muchos poco antes donde manera forma posible`,
		refers:   `esto eso aquello él ella ellas ellos ello ahí allí mismo misma`,
		opens:    `y e pero o u entonces además también así pues luego ni solo sólo incluso`,
		asks:     `qué cómo como cuándo cuando cuánto cuánta cuántos cuántas dónde quién quiénes cuál cuáles explica explícame muéstrame dame ejemplo ejemplos detalles`,
		closes:   `gracias perfecto genial vale bien bueno hola adiós entendido ok okay claro estupendo`,
		relates:  `para en con sin por sobre desde hasta a tras según entre durante ante contra`,
		leads:    `cómo como no se me te ya cuándo quién si`,
		clause:   `y o pero si cuando que porque aunque mientras`,
		article:  `un una unos unas uno`,
		definite: `el la los las lo le les`,
		adds:     `también tampoco`,
		chats:    `chiste chistes adivinanza poema`,
		now:      `año mes semana día trimestre mañana tarde noche verano empresa oficina equipo país ciudad`,
	},
	special: map[special]string{
		thisWord: `este esta estos estas ese esa esos esas`, cliticWord: `lo la los las`, subjectWord: `cómo no se me te ya quién yo`, toWord: `que`,
	},
}
