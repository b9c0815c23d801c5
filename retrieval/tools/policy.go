package tools

import "time"

// A Policy says which tools chats have, and how far a model may go with them. It is a value, in
// force where the mode of a chat is tools. All limits are of one request of a client.
type Policy struct {
	Offer        []ToolName // without duplicates; never empty
	Bases        []Base     // of the policy, as descriptions name them
	XML          bool       // calls and results are text with tags, for models without function calling
	FirstSearch  bool       // sources are injected up front as well
	MaxRounds    int        // in the last one the model has none of these tools, so that it answers
	MaxTokens    int        // of all results together
	Timeout      time.Duration
	HidePreamble bool // text before a call does not go to the client
	Trace        bool // the answer has calls and results as a vendor field
	NoHeartbeat  bool // nothing keeps a stream alive between rounds
}
