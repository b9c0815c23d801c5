package followup

// Short lists for languages in which the rule for unknown ones takes too many words for content:
// the commonest function words, and those that refer to what was said.
var (
	italianWords = lexicon{roles: map[roles]string{
		function: `io mi me tu ti noi ci voi vi si è sono sei ho hai ha hanno abbiamo essere avere fare può posso possono devo deve bisogna serve servono voglio vorrei c l d un del dello della dei degli delle al allo alla ai agli alle dal dalla dai nel nella nei nelle sul sulla che non più molto anche già ancora se come prima dopo cosa succede funziona vale uno`,
		refers:   `quello quella quelli quelle esso essa essi lui lei loro ciò ne lì là`,
		owns:     `suo sua suoi sue`,
		opens:    `e ed ma o oppure quindi allora poi invece`,
		asks:     `che cosa chi quale quali quanto quanta quanti quante quando dove perché come spiega esempio`,
		closes:   `grazie perfetto bene ok ciao va capito buongiorno`,
		relates:  `per con senza da di in su tra fra entro durante`,
		article:  `un una uno`, definite: `il lo la i gli le`,
		now: `anno mese settimana azienda ufficio`,
	}, special: map[special]string{thisWord: `questo questa questi queste quest`}}
	portugueseWords = lexicon{roles: map[roles]string{
		function: `eu me tu te você nós nos vocês vos se é são ser estar está tenho tem têm temos há foi posso pode podem devo deve preciso precisa quero um uma uns umas do da dos das ao à aos às no na nos nas num numa pelo pela pelos pelas não mais muito já ainda como antes depois faz acontece funciona vale`,
		refers:   `ele ela eles elas isto isso aquilo esse essa esses essas aquele aquela lhe lhes nele nela dele dela disso disto nisso ali lá`,
		owns:     `seu sua seus suas`,
		opens:    `e mas ou então depois também`,
		asks:     `que quê quem qual quais quanto quanta quantos quantas quando onde porque por como explica exemplo`,
		closes:   `obrigado obrigada perfeito bom ok olá tchau entendi`,
		relates:  `para com sem de em sobre entre até desde durante por`,
		article:  `um uma`, definite: `o a os as`,
		now: `ano mês semana empresa escritório`,
	}, special: map[special]string{thisWord: `este esta estes estas neste nesta`}}
	dutchWords = lexicon{roles: map[roles]string{
		function: `ik mij je jij u wij we ons jullie ben bent is zijn was waren heb hebt heeft hebben had kan kun kunnen mag mogen moet moeten wil willen wordt worden zal zullen ga gaat doe doet doen niet geen wel ook nog al te dan als er van zich eigenlijk gebeurt werkt geldt krijg krijgt`,
		refers:   `hij zij ze hem haar hen hun dit daar daarvoor daarvan daarmee daarbij daarna ervan ervoor ermee erbij hiervoor hiermee zoiets`,
		opens:    `en maar of dus`,
		asks:     `wat wie welke welk waar wanneer waarom hoe hoeveel hoelang leg voorbeeld`,
		closes:   `bedankt dank dankje oké ok prima hallo hoi begrepen goed`,
		relates:  `voor met zonder van in op aan bij naar tot over onder tussen tijdens om uit door`,
		article:  `een`, definite: `de het`,
		leads: `is was kan moet mag werkt geldt kost duurt heeft hoe wat wanneer waar waarom voor met van in op zonder`,
		now:   `jaar maand week bedrijf kantoor`,
	}, special: map[special]string{thisWord: `deze`, thatWord: `dat die`}}
	polishWords = lexicon{roles: map[roles]string{
		function: `ja mnie mi ty ci my nas nam wy się jest są był była było być mam masz ma mają mogę może można muszę musi trzeba należy chcę czy nie już jeszcze tylko bardzo że jeśli jak żeby potem również działa wynosi`,
		refers:   `on ona ono oni one go jego jej ich im nim nią nich to ten ta te tego tej tym tych temu tam ją je`,
		opens:    `a i oraz ale lub albo więc też także`,
		asks:     `co kto jaki jaka jakie jakich który która które ile kiedy gdzie skąd dlaczego czemu jak wyjaśnij przykład`,
		closes:   `dzięki dziękuję super dobrze ok cześć rozumiem świetnie`,
		relates:  `w we z ze na do od po dla bez przy przez o u za pod nad między podczas`,
	}}
	turkishWords = lexicon{roles: map[roles]string{
		function: `ben bana beni sen sana biz bize siz size mı mi mu mü mıyım miyim mıdır midir mısın misin var yok değil olur oluyor alınır sürer ödenir olarak olan olması gerek gerekir gerekiyor gerekli lazım eder ediyor edebilir yapılır yapmalıyım yapabilir alabilir bir çok daha en kadar gibi`,
		refers:   `o onu ona onun onlar onları onların ondan onda bunu buna bunun bunlar bundan bunda şu şunu orada oraya oradan aynısı aynı`,
		opens:    `peki ya ve ama veya yoksa ayrıca sonra`,
		asks:     `ne neyi neden niçin niye nasıl kim kime kimin hangi hangisi kaç nerede nereye nereden zaman açıkla örnek`,
		closes:   `teşekkürler teşekkür ederim sağol tamam harika merhaba anladım`,
		relates:  `için ile da de göre önce sonra üzerinde hakkında`,
		now:      `yıl ay hafta şirket ofis`,
	}, special: map[special]string{thisWord: `bu`}}
	finnishWords = lexicon{roles: map[roles]string{
		function: `minä minun minulle minulla saanko sinä me meidän te on ovat oli olla ole onko en ei ja että jos kun voi voinko voiko voivatko pitää pitääkö täytyy saa saako saavatko haluan vielä myös jo vain aina niin tapahtuu toimii kuuluu maksaa`,
		refers:   `se sen sitä siitä siihen siinä sillä siltä sille ne niitä niiden niistä hän hänen tämä tämän tätä tästä tuo tuon siellä sinne sieltä samoin`,
		opens:    `entä entäs ja mutta tai sitten`,
		asks:     `mikä mitä mitkä minkä mihin missä mistä milloin miksi miten kuka kenen kenelle keneltä montako paljonko kuinka paljon kauan kauanko monta mennessä selitä esimerkki`,
		closes:   `kiitos hyvä selvä ok hei moi hienoa`,
		relates:  `ennen jälkeen ilman kanssa varten aikana`,
	}}
	hungarianWords = lexicon{roles: map[roles]string{
		function: `én nekem engem te neked mi nekünk vagyok van vannak volt lesz lehet kell kellene szabad tudok tudom nem ne is már még csak nagyon meg ha hogy mint után előtt kapok jár nincs nincsenek történik működik kerül szükséges egy el ki be le fel tart`,
		refers:   `ő ők azt ezt annak ennek azok ezek azokat ezeket abban arra azzal attól arról erről ez ott oda onnan itt ugyanez ugyanaz`,
		opens:    `és de vagy akkor hát tehát`,
		asks:     `mi mit mik ki kit kinek milyen melyik mennyi mennyit mennyibe mennyiért mekkora hány hányan mikor meddig hol hová honnan miért hogyan magyarázd példa`,
		closes:   `köszönöm kösz köszi rendben jó ok szia értem szuper`,
		definite: `a az`, article: `egy`,
		relates: `nélkül alatt között miatt szerint`,
	}}
	vietnameseWords = lexicon{roles: map[roles]string{
		function: `tôi mình bạn em anh chị chúng ta là có không được bị phải cần muốn thể nên sẽ đã đang cũng rất nhiều ít hơn nhất các những một mỗi mà khi nếu thì để ra vào lên xuống lại rồi chưa cho của xin hãy nhé ạ à mất bao lâu dùng làm`,
		refers:   `nó đó này ấy kia họ đấy đây`,
		opens:    `và còn hay hoặc nhưng vậy thế`,
		asks:     `gì ai nào đâu sao nhiêu mấy giải thích ví dụ`,
		closes:   `cảm ơn cám tốt ok chào hiểu tuyệt`,
		relates:  `với trong ngoài trên dưới trước sau từ đến tại ở về theo bằng`,
	}}
	russianWords = lexicon{roles: map[roles]string{
		function: `я мне меня мной ты тебе вы вас вам мы нас нам есть был была было были быть будет могу можно может нужно надо должен должны не ни уже ещё еще только очень ли бы же что чтобы если мой моя мое моего моей работает делать получить стоит`,
		refers:   `он она оно они его её ее ей ему им их ним ней них этот эта эти этого этих этому тот та те того той там туда оттуда такой такая`,
		opens:    `а и но или тогда также потом`,
		asks:     `что кто кого кому какой какая какие какое каких который сколько когда где куда откуда почему зачем как чем объясни пример`,
		closes:   `спасибо хорошо отлично понятно ок привет ясно супер`,
		relates:  `в во на с со к ко у о об от до из за для без при по под над между через`,
		now:      `году месяце неделе компании офисе`,
	}, special: map[special]string{thisWord: `это этом этой`}}
	greekWords = lexicon{roles: map[roles]string{
		function: `εγώ μου με εσύ σου σε εμείς μας εσείς σας είμαι είναι ήταν έχω έχει έχουν έχουμε μπορώ μπορεί πρέπει θέλω θα να δεν μην πολύ ήδη ακόμα μόνο αν ότι πριν μετά όταν γίνεται κάνω ισχύει`,
		refers:   `αυτό αυτός αυτή αυτά αυτές αυτού αυτής αυτών εκείνο εκείνη εκεί`,
		opens:    `και κι αλλά ή τότε λοιπόν επίσης`,
		asks:     `τι ποιος ποια ποιο ποιον ποιες πόσο πόση πόσα πόσες πόσους πότε πού γιατί πώς εξήγησε παράδειγμα`,
		closes:   `ευχαριστώ εντάξει ωραία καλά οκ γεια κατάλαβα τέλεια`,
		definite: `ο η οι τα των τις τους το του της τον την τη`, article: `ένα ένας μια μία`,
		relates: `από για στο στη στην στον στα στις στους χωρίς μέχρι κατά ως`,
	}}
	hebrewWords = lexicon{roles: map[roles]string{
		function: `אני לי אותי אתה לך אנחנו לנו הייתי היה יש אין יכול יכולה אפשר צריך צריכה חייב רוצה מקבל מקבלים לא כן רק עוד כבר מאוד של את עם אם כי כמו לפני אחרי קורה עובד`,
		refers:   `הוא היא הם הן זה זאת זו אלה אותו אותה אותם שלו שלה שלהם בו בה שם לשם משם`,
		opens:    `ו או אבל אז וגם גם ומה וכמה ואיך ומתי והאם ואיפה ולמה ומי ואם`,
		asks:     `מה מי איזה איזו אילו כמה מתי איפה לאן למה מדוע איך האם הסבר דוגמה`,
		closes:   `תודה מצוין טוב אוקיי שלום הבנתי מעולה`,
		relates:  `על בלי עד בין תוך עבור לגבי`,
	}}
	arabicWords = lexicon{roles: map[roles]string{
		function: `أنا لي نحن لنا أنت لك كان كانت يكون يوجد هناك يمكن يمكنني أستطيع يجب علي أريد أحتاج لا لم لن ليس قد فقط جدا أن إن إذا قبل بعد عند كل بعض يحدث يعمل الذي التي`,
		refers:   `هو هي هم هذا هذه ذلك تلك هؤلاء له لها لهم به بها فيه فيها منه منها عليه عليها عنه عنها إليه إليها`,
		opens:    `و أو لكن ثم أيضا وماذا وما وكم وكيف ومتى وهل وأين ولماذا ومن وإذا`,
		asks:     `ما ماذا من أي أية كم متى أين لماذا كيف هل اشرح مثال`,
		closes:   `شكرا حسنا ممتاز جيد مرحبا فهمت رائع`,
		relates:  `في على إلى عن مع بدون حتى بين خلال لل`,
	}}
	// Korean words are found at the beginning of longer ones, as particles and endings follow.
	koreanWords = lexicon{roles: map[roles]string{
		function: `저는 제가 나는 내가 우리 수 것 있나 있습 있는 있어 없나 없습 없는 되나 되는 됩니 해야 하나 하면 할 합니 받을 받나 가능 인가요 입니까 까지 필요 좀 더 또한 모두 하고 싶어 주세요`,
		refers:   `그건 그게 그것 그거 그걸 그때 그곳 그분 이건 이게 이것 이거 이걸 거기 그 이 저`,
		opens:    `그럼 그러면 그리고 그런데 근데 하지만 그래서 또는`,
		asks:     `무엇 뭐 뭘 누구 누가 언제 어디 왜 어떻게 어떤 얼마 몇 설명 예시`,
		closes:   `감사 고마 네 좋아 알겠 안녕 완벽`,
		relates:  `위해 위한 대해 대한`,
	}}
	// Of Japanese, what is written in hiragana alone is grammar. These are those of its words with
	// another role.
	japaneseWords = lexicon{roles: map[roles]string{
		refers: `それ これ あれ その この あの そこ ここ あそこ そちら こちら 同様`,
		opens:  `では じゃあ でも また そして それで ところで しかし ちなみに`,
		asks:   `なに なぜ どう どこ どれ どの だれ いつ いくら いくつ 何 誰 何時 何日 説明`,
		closes: `ありがとう わかりま なるほど こんにちは すごい`,
	}}
)
