package analysis

// maxStop is the length of the longest stop word in bytes.
const maxStop = 10

// isStop reports whether a lower-case word is a stop word: a word of Snowball's list for English,
// one that only frames a question, or a greeting, as in "hi, could you please tell me".
func isStop(word string) bool {
	switch word {
	case "i", "me", "my", "myself", "we", "us", "our", "ours", "ourselves", "you", "your", "yours", "yourself",
		"yourselves", "he", "him", "his", "himself", "she", "her", "hers", "herself", "it", "its", "itself",
		"they", "them", "their", "theirs", "themselves", "one", "ones", "what", "which", "who", "whom", "whose", "this",
		"that", "these", "those", "am", "is", "are", "was", "were", "be", "been", "being", "have", "has",
		"had", "having", "do", "does", "did", "doing", "done", "would", "should", "could", "can", "cannot",
		"may", "might", "must", "shall", "will", "ought",
		"i'm", "you're", "he's", "she's", "it's", "we're", "they're", "i've", "you've", "we've", "they've",
		"i'd", "you'd", "he'd", "she'd", "we'd", "they'd", "i'll", "you'll", "he'll", "she'll", "we'll",
		"they'll", "it'll", "isn't", "aren't", "wasn't", "weren't", "hasn't", "haven't", "hadn't", "doesn't", "don't",
		"didn't", "won't", "wouldn't", "shan't", "shouldn't", "can't", "couldn't", "mustn't", "let's",
		"that's", "who's", "what's", "here's", "there's", "when's", "where's", "why's", "how's",
		"a", "an", "the", "and", "but", "if", "or", "nor", "because", "as", "until", "while", "of", "at",
		"by", "for", "with", "about", "against", "between", "into", "through", "during", "before", "after",
		"above", "below", "to", "from", "up", "down", "in", "out", "on", "off", "over", "under", "again",
		"further", "then", "once", "here", "there", "when", "where", "why", "how", "all", "any", "both",
		"each", "few", "more", "most", "other", "some", "such", "no", "not", "only", "own", "same", "so",
		"than", "too", "very", "also", "just", "upon", "via", "per", "yet", "however", "therefore", "thus",
		"etc", "e.g", "i.e",
		"many", "much", "get", "gets", "got", "getting", "tell", "know", "want", "need", "like", "explain", "show":
		return true
	}
	return isSmallTalk(word)
}

// isSmallTalk reports whether a stop word is never a name, even in capitals.
func isSmallTalk(word string) bool {
	switch word {
	case "please", "help", "hi", "hello", "hey", "hiya", "howdy", "greetings", "thanks", "thank", "thx", "cheers", "sorry",
		"bye", "goodbye", "ok", "okay", "yes", "yeah", "yep", "nope", "sure", "alright", "lol", "hmm", "oh", "ah", "wow":
		return true
	}
	return false
}
