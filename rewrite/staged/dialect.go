package staged

import "sidenote/rewrite/chat"

// A use says what becomes of a member of the client's request in the request of a stage.
type use byte

// The values of use.
const (
	everyStage  use = iota // every stage gets it unchanged
	noStage                // no stage gets it, or the builder adds its own
	lastStage              // the last stage only
	drafts                 // stages whose output can be the answer
	list                   // holds the messages
	system                 // holds the application's system text
	modelName              // names the model
	temperature            // is replaced by the stage's
	effort                 // asks the model to reason
	config                 // holds the effort and the format of the answer
)

// A dialect holds how the requests of stages are built over an API.
type dialect struct {
	uses map[string]use // of members whose use is not everyStage

	effort                  string // the member with the reasoning effort
	openEffort, closeEffort string // what is around the effort in it

	hottest  float64                             // the highest temperature
	messages func(b *builder, dst []byte) []byte // appends the list of messages
	system   func(b *builder, m *member)         // writes the member with the system text
	limit    func(b *builder) limit
	finish   func(b *builder) // adds what only this API needs
}

// A limit is the member that limits the output.
type limit struct {
	name     string
	theirs   [2]int // the limits that the client's request sets; 0 for none
	required bool
}

// dialects has one element for each API. It is never changed.
var dialects = [...]dialect{
	chat.Completions: {
		uses: map[string]use{
			"messages": list, "model": modelName, "temperature": temperature, "reasoning_effort": effort,
			"stream": lastStage, "stream_options": lastStage, "prediction": lastStage, "store": lastStage,
			"stop": drafts, "response_format": drafts, "verbosity": drafts,
			"max_tokens": noStage, "max_completion_tokens": noStage, "sidenote": noStage,
			"tools": noStage, "tool_choice": noStage, "parallel_tool_calls": noStage, "functions": noStage, "function_call": noStage,
		},
		effort:   "reasoning_effort",
		hottest:  2,
		messages: (*builder).listWithOperators,
		limit:    (*builder).completionLimit,
		finish:   func(*builder) {},
	},
	chat.Responses: {
		uses: map[string]use{
			"input": list, "instructions": system, "model": modelName, "temperature": temperature, "reasoning": effort,
			"stream": lastStage, "stream_options": lastStage, "store": lastStage, "include": lastStage,
			"text": drafts, "max_output_tokens": noStage, "sidenote": noStage,
			"tools": noStage, "tool_choice": noStage, "parallel_tool_calls": noStage,
		},
		effort: "reasoning", openEffort: `{"effort":`, closeEffort: `}`,
		hottest:  2,
		messages: (*builder).listWithOperators,
		system:   (*builder).instructions,
		limit: func(b *builder) limit {
			return limit{name: "max_output_tokens", theirs: [2]int{b.req.Limits.MaxOutputTokens.N}}
		},
		finish: func(b *builder) {
			if !b.call.Last {
				b.add("store", []byte("false"))
			}
		},
	},
	chat.Messages: {
		uses: map[string]use{
			"messages": list, "system": system, "model": modelName, "temperature": temperature, "thinking": effort, "output_config": config,
			"stream": lastStage, "diagnostics": lastStage,
			"stop_sequences": drafts, "output_format": drafts, "max_tokens": noStage, "sidenote": noStage,
			"tools": noStage, "tool_choice": noStage, "mcp_servers": noStage,
			"cache_control": noStage, // marks the end of a conversation, and a stage's has no other turn
		},
		effort: "output_config", openEffort: `{"effort":`, closeEffort: `}`,
		hottest:  1,
		messages: (*builder).listOfUser,
		system:   func(b *builder, _ *member) { b.addSystem() },
		limit: func(b *builder) limit {
			return limit{name: "max_tokens", theirs: [2]int{b.req.Limits.MaxTokens.N}, required: true}
		},
		finish: func(b *builder) {
			if !b.hasSystem {
				b.addSystem()
			}
		},
	},
}

// EffortParam returns the member of a request with the reasoning effort.
func EffortParam(api chat.API) string { return dialects[api].effort }
