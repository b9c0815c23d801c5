// Asks with the official SDK for JavaScript, whose runner answers the calls of its tool, and prints
// what it was told.
//
//	node client.mjs BASE_URL whole|stream
import OpenAI from "openai";

const [baseURL, way] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "sk-test", maxRetries: 0, timeout: 60_000 });
const asked = {
  model: "gpt-4o",
  messages: [
    { role: "system", content: "You help staff." },
    { role: "user", content: "How long is parental leave, and does it rain in Bern?" },
  ],
  tools: [{
    type: "function",
    function: {
      name: "weather",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
      parse: JSON.parse,
      function: () => "It rains.",
    },
  }],
};
const runner = way === "stream"
  ? client.chat.completions.runTools({ ...asked, stream: true, stream_options: { include_usage: true } })
  : client.chat.completions.runTools(asked);
await runner.done();
const told = runner.allChatCompletions().map(({ choices: [{ message, finish_reason }], usage }) => ({
  text: message.content ?? "",
  calls: (message.tool_calls ?? []).map((c) => ({ name: c.function.name, arguments: c.function.arguments })),
  finish: finish_reason,
  tokens: usage.total_tokens,
}));
process.stdout.write(JSON.stringify(told));
