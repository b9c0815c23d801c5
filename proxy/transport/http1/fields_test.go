package http1_test

import (
	"strings"
	"testing"

	"sidenote/proxy/transport/http1"
)

// Parsing a line in one pass gives the same result as parsing it step by step.
func FuzzField(f *testing.F) {
	for _, seed := range []string{
		"Host: h\r\n", "X:1\n", "X-Y_z!: \t a\tb \r\nZ: 1\r\n", "X: 1\r\r\n", "X: 1\r", "X: 1", "X : 1\r\n", ": 1\r\n", "\r\n", "\n", "",
		"X: 1234567\x7f\r\n", "X: é 1234567890123456789\r\n", "X: 1234567\t12345678\x00\r\n", "X: \x80\xff\x1f\r\n", "X\r\n: 1\r\n", "X(: 1\r\n", "É: 1\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, block []byte) {
		name, value, next, ok := http1.FirstField(block)
		plainName, plainValue, plainNext, plainOK := http1.PlainField(block)
		if name != plainName || value != plainValue || next != plainNext || ok != plainOK {
			t.Fatalf("%q: got %q %q %d %v, want %q %q %d %v", block, name, value, next, ok, plainName, plainValue, plainNext, plainOK)
		}
	})
}

// Every byte is checked, at each position of the value.
func TestFieldControls(t *testing.T) {
	for at := range 20 {
		for c := range 256 {
			value := []byte(strings.Repeat("x", 20))
			value[at] = byte(c)
			block := []byte("X:" + string(value) + "\r\n")
			name, got, next, ok := http1.FirstField(block)
			plainName, want, plainNext, plainOK := http1.PlainField(block)
			if name != plainName || got != want || next != plainNext || ok != plainOK {
				t.Fatalf("%q: got %q %q %d %v, want %q %q %d %v", block, name, got, next, ok, plainName, want, plainNext, plainOK)
			}
		}
	}
}

func TestNames(t *testing.T) {
	type fate struct{ passes, own bool }
	for name, want := range map[string]fate{
		"te": {}, "upgrade": {}, "trailer": {}, "connection": {}, "keep-alive": {}, "proxy-connection": {}, "transfer-encoding": {},
		"proxy-authenticate": {}, "proxy-authorization": {}, "proxy-authentication-info": {},
		"sidenote-mode": {true, true}, "sidenote_mode": {true, true}, "sidenote-": {true, true},
		"sidenote": {true, false}, "sidenotes-mode": {true, false}, "host": {true, false}, "t": {true, false}, "ti": {true, false},
		"content-length": {true, false}, "keep_alive": {true, false}, "content-encoding": {true, false}, "content-digest": {true, false}, "content-md5": {true, false}, "repr-digest": {true, false}, "digest": {true, false}, "proxy-authenticatf": {true, false}, "x-sidenote-mode": {true, false},
	} {
		for _, spelt := range []string{name, strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:]} {
			if passes, own := http1.PassesAny(spelt); (fate{passes, own}) != want {
				t.Errorf("%s: passes %v, ours %v, want %+v", spelt, passes, own, want)
			}
		}
	}
}
