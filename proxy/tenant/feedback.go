package tenant

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/rewrite"
)

// FeedbackHeader is the name, in lower case, of the header of a chat request that scores an earlier
// answer, as in "01J8…; score=0.5".
const FeedbackHeader = "sidenote-feedback"

const feedbackParam = "Sidenote-Feedback"

// A Feedback is an application's score of an answer.
type Feedback struct {
	ID    string  // of the request that was answered
	Score float64 // -1 to 1
}

// ReadFeedbackHeader reads the header of that name. ok is false if there is none. The error is a
// *rewrite.OptionError.
func ReadFeedbackHeader(h *fasthttp.RequestHeader) (f Feedback, ok bool, err error) {
	for name, value := range h.All() {
		if !EqualHeaderName(name, FeedbackHeader) {
			continue
		}
		if ok {
			return f, ok, &rewrite.OptionError{Param: feedbackParam, Reason: "is repeated"}
		}
		ok = true
		id, score, found := strings.Cut(string(value), ";")
		number, named := strings.CutPrefix(strings.TrimSpace(score), "score=")
		if f.ID = strings.TrimSpace(id); !found || !named || f.ID == "" {
			return f, ok, &rewrite.OptionError{Param: feedbackParam, Reason: fmt.Sprintf("%q is not feedback; write it as in ID; score=0.5", Shortened(string(value)))}
		}
		if f.Score, err = parseScore(number); err != nil {
			return f, ok, &rewrite.OptionError{Param: feedbackParam, Reason: "score: " + err.Error()}
		}
	}
	return f, ok, nil
}

// ReadFeedback reads the body of a feedback request. The error is an *APIError or a
// *rewrite.OptionError.
func ReadFeedback(body []byte) (f Feedback, err error) {
	var in struct {
		ID    json.RawMessage `json:"id"`
		Score json.RawMessage `json:"score"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return f, &APIError{Reason: rewrite.ReasonNotJSON, Message: `The body is not a JSON object such as {"id": "01J8…", "score": 1}.`, Err: err}
	}
	switch {
	case in.ID == nil:
		return f, &rewrite.OptionError{Param: "id", Reason: "is missing; send the Sidenote-Id of the answer"}
	case json.Unmarshal(in.ID, &f.ID) != nil || f.ID == "":
		return f, &rewrite.OptionError{Param: "id", Reason: fmt.Sprintf("%s is not the Sidenote-Id of an answer", Shortened(string(in.ID)))}
	case in.Score == nil:
		return f, &rewrite.OptionError{Param: "score", Reason: "is missing; send a number from -1 to 1"}
	}
	if f.Score, err = parseScore(string(in.Score)); err != nil {
		return f, &rewrite.OptionError{Param: "score", Reason: err.Error()}
	}
	return f, nil
}

func parseScore(text string) (float64, error) {
	score, err := strconv.ParseFloat(text, 64)
	if err != nil || !(score >= -1 && score <= 1) {
		return 0, fmt.Errorf("%s is not a number from -1 to 1", Shortened(text))
	}
	return score, nil
}
