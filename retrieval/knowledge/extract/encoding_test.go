package extract_test

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"

	"sidenote/retrieval/knowledge/extract"
)

const (
	english  = "It’s the company’s “policy” – always ask first.\n"
	french   = "Les salariés ont droit à cinq semaines de congés payés. La durée du télétravail est fixée à deux jours.\n"
	german   = "Die Größe des Büros genügt für fünf Gäste. Über die Kündigung entscheidet die Geschäftsführung.\n"
	russian  = "Каждый сотрудник имеет право на двадцать восемь дней отпуска в год.\n"
	greek    = "Κάθε εργαζόμενος δικαιούται είκοσι ημέρες άδεια το χρόνο.\n"
	japan    = "有給休暇は入社半年後に十日間付与されます。申請は社内システムから行ってください。\n"
	china    = "员工每年享有十五天带薪年假。请在系统中提交申请，并由主管批准。\n"
	taiwan   = "員工每年享有十五天帶薪年假。請在系統中提交申請，並由主管批准。\n"
	korea    = "직원은 매년 15일의 유급 휴가를 받을 수 있습니다. 시스템에서 신청하세요.\n"
	emphatic = "Grüße 𝄞\n"
	polish   = "Pracownik składa rozliczenie w ciągu dziesięciu dni roboczych. Opłata za hotel nie może przekroczyć trzystu złotych.\n"
	czech    = "Zaměstnanec předkládá vyúčtování do deseti pracovních dnů. Žádost schvaluje ředitel, výjimky jsou možné.\n"
	magyar   = "A dolgozó tíz munkanapon belül nyújtja be az elszámolást, a később érkező kérelmeket elutasítják. Fűtés, tűz.\n"
	turkish  = "Çalışan on iş günü içinde masraf beyanını sunar. Geç başvurular reddedilir; müdür onayı gereklidir. İzmir.\n"
	arabic   = "يقدم الموظف كشف المصاريف خلال عشرة أيام عمل. يتم رفض الطلبات المتأخرة.\n"
)

// The encoding of a file is detected.
func TestEncodings(t *testing.T) {
	utf16le := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	utf16be := unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	ascii := strings.Repeat("# Install\n\nRun the thing and be happy with it.\n\n", 400)
	f := func(name string, e encoding.Encoding, before, text string) {
		t.Helper()
		raw, err := e.NewEncoder().Bytes([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := extract.Decode(append([]byte(before), raw...))
		if err != nil || got != text {
			t.Errorf("%s: got %.200q, %v; want %.200q", name, got, err, text)
		}
	}
	f("UTF-8", encoding.Nop, "", emphatic+japan)
	f("UTF-8 with a mark", encoding.Nop, "\xef\xbb\xbf", emphatic)
	f("UTF-16LE with a mark", utf16le, "\xff\xfe", emphatic+japan)
	f("UTF-16BE with a mark", utf16be, "\xfe\xff", emphatic+japan)
	f("UTF-16LE", utf16le, "", german)
	f("UTF-16BE", utf16be, "", german+emphatic)
	f("UTF-16LE without Latin letters", utf16le, "", japan)
	f("UTF-16BE without Latin letters", utf16be, "", china+russian)
	f("a short Shift JIS", japanese.ShiftJIS, "", "名前,部署\n田中,総務部\n")
	f("a lone mark", encoding.Nop, "\xef\xbb\xbf", "")
	f("a lone mark of UTF-16", encoding.Nop, "\xff\xfe", "")
	f("a short Latin-1", charmap.ISO8859_1, "", "café")
	f("Latin-1", charmap.ISO8859_1, "", french)
	f("Windows-1252", charmap.Windows1252, "", english)
	f("Windows-1252, German", charmap.Windows1252, "", german)
	f("Windows-1252 far below", charmap.Windows1252, "", ascii+"au café\n")
	f("Windows-1251", charmap.Windows1251, "", russian)
	f("ISO-8859-2", charmap.ISO8859_2, "", polish)
	f("Windows-1250", charmap.Windows1250, "", polish)
	f("ISO-8859-2, Czech", charmap.ISO8859_2, "", czech)
	f("Windows-1250, Czech", charmap.Windows1250, "", czech)
	f("Windows-1250, Hungarian", charmap.Windows1250, "", magyar)
	f("Windows-1254", charmap.Windows1254, "", turkish)
	f("Windows-1256", charmap.Windows1256, "", arabic)
	f("Mac", charmap.Macintosh, "", french)
	f("Mac, German", charmap.Macintosh, "", german)
	f("Mac, English", charmap.Macintosh, "", english)
	f("a sign of Windows-1252", charmap.Windows1252, "", "© 2020 by us, 5 €\n")
	f("KOI8-R", charmap.KOI8R, "", russian)
	f("ISO-8859-7", charmap.ISO8859_7, "", greek)
	f("Shift JIS", japanese.ShiftJIS, "", japan)
	f("Shift JIS far below", japanese.ShiftJIS, "", ascii+japan)
	f("EUC-JP", japanese.EUCJP, "", japan)
	f("ISO-2022-JP", japanese.ISO2022JP, "", japan)
	f("GBK", simplifiedchinese.GBK, "", china)
	f("GB 18030", simplifiedchinese.GB18030, "", china+"𝄞")
	f("Big5", traditionalchinese.Big5, "", taiwan)
	f("EUC-KR", korean.EUCKR, "", korea)
}

// A file is listed as guessed if its bytes may well be another text.
func TestGuessed(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		documents, err := extract.Read(extract.Text, "x.txt", []byte(text))
		got := ""
		if guessed, ok := errors.AsType[*extract.Guessed](err); ok {
			got = guessed.Encoding
		} else if err != nil {
			t.Fatal(err)
		}
		if got != want || len(documents) != 1 {
			t.Errorf("%q: guessed %q, want %q; %v", text, got, want, documents)
		}
	}
	f("caf\xe9", "")
	f("podr\xf3\xbf s\xb3u\xbfbowa", "")
	f("It\x92s the company\x92s.", "")
	f("ki\xfei", "Windows 1254")
	f("\xff\xb5\xb9 \xa4\xfe", "Windows 1252")
}

// One invalid byte in UTF-8 costs that byte and no other.
func TestBadByte(t *testing.T) {
	const text = "Refunds of the caf\xe9 voucher € 20 take five days. Größe.\n"
	got, err := extract.Decode([]byte(text))
	if want := strings.Replace(text, "\xe9", "\ufffd", 1); err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// UTF-8 with a truncated character is still UTF-8.
func TestTornUTF8(t *testing.T) {
	got, err := extract.Decode([]byte(japan + "cut\xe5 here\r\n"))
	if want := japan + "cut\ufffd here\n"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// Binary data is not mistaken for text.
func TestNotText(t *testing.T) {
	for name, raw := range map[string]string{
		"zero bytes":          "a\x00b",
		"an odd UTF-16":       "\xff\xfe\x00",
		"a lone surrogate":    "\xff\xfe\x00\xd8",
		"an image":            "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x01\x00",
		"control characters":  "caf\xe9 \x01\x02\x03\xff",
		"undefined in 1252":   "caf\xe9 \x81\x8d",
		"even zeros":          strings.Repeat("\x00\x12\xe0\x34", 40),
		"a UTF-32 of letters": "a\x00\x00\x00b\x00\x00\x00",
	} {
		if got, err := extract.Decode([]byte(raw)); !errors.Is(err, extract.ErrNotText) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A page may declare its encoding, even a wrong one.
func TestHTMLEncodings(t *testing.T) {
	const page = `<html><head><meta charset="%s"></head><body><p>`
	sjis, err := japanese.ShiftJIS.NewEncoder().String(japan)
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string]string{
		"declared":         strings.Replace(page, "%s", "shift_jis", 1) + sjis,
		"undeclared":       "<html><body><p>" + sjis,
		"UTF-8":            strings.Replace(page, "%s", "utf-8", 1) + japan,
		"undeclared UTF-8": "<p>" + japan,
		"a lie":            strings.Replace(page, "%s", "utf-8", 1) + sjis,
	} {
		d, err := extract.Read(extract.HTML, "x.html", []byte(raw))
		if err != nil || d[0].Text != japan {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
}
