package tools

import "time"

// A Policy says which tools are offered in chats, and limits their use. It is a value, and applies
// to chats in tools mode. All limits are per client request.
type Policy struct {
	Offer        []ToolName // without duplicates; never empty
	Bases        []Base     // of the policy, for descriptions
	XML          bool       // calls and results are tagged text, for models without function calling
	FirstSearch  bool       // also inject sources before the first round
	MaxRounds    int        // in the last round no tools are offered, so that the model answers
	MaxTokens    int        // of all results together
	Timeout      time.Duration
	HidePreamble bool // do not send text before a call to the client
	Trace        bool // add calls and results to the answer as a vendor field
	NoHeartbeat  bool // send no heartbeat between the rounds of a stream
}
