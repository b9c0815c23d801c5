package answer_test

import (
	"slices"
	"testing"

	"sidenote/proxy/answer"
)

// Data joins an event's data lines and keeps their offsets.
func TestData(t *testing.T) {
	for event, want := range map[string]string{
		"data: {}\n\n": " {}", "event: x\r\ndata:{}\r\n\r\n": "{}", "\xef\xbb\xbfdata: {}\n\n": " {}", "data: {}": " {}",
		"data: {\ndata:}\n\n": " {      }", "data: [1,\r\nid: 7\r\n: c\ndata: 2]\n\n": " [1," + "                   " + "2]",
		": comment\n\n": "", "\n": "", "": "", "\xef\xbb\xbf": "", "id: data: 1\n\n": "",
	} {
		data, from := answer.Data([]byte(event))
		if string(data) != want {
			t.Errorf("%q has %q, want %q", event, data, want)
		}
		for i, b := range data {
			if b != ' ' && event[from+i] != b {
				t.Errorf("%q: %q of the data stands elsewhere", event, b)
			}
		}
	}
}

// All yields the data of each event, also without empty lines between them and for a truncated
// event.
func TestAllData(t *testing.T) {
	for stream, want := range map[string][]string{
		"": nil, ": c\n\n": nil,
		"data: 1\n\ndata: [\ndata: 2]\n\nevent: x\ndata: 3": {" 1", " [       2]", " 3"},
		"\xef\xbb\xbfdata: {}\ndata: [DONE]\n":              {" {}", " [DONE]"},
		"data: {\"a\":\r\n\r\ndata: {}\r\n\r\n":             {" {\"a\":", " {}"},
	} {
		var got []string
		for data := range answer.All([]byte(stream)) {
			got = append(got, string(data))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q has %q, want %q", stream, got, want)
		}
		for range answer.All([]byte(stream)) {
			break
		}
	}
}
