// Asks with the official SDK for JavaScript, whose runner answers the calls of its tool, and prints
// what it was told. With "text" it has no tool.
//
//	node client.mjs BASE_URL whole|stream [text]
import OpenAI from "openai";

const [baseURL, way, text] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "sk-test", maxRetries: 0, timeout: 60_000 });
const asked = {
  model: "gpt-4o",
  messages: [
    { role: "system", content: "You help staff." },
    { role: "user", content: "How long is parental leave, and does it rain in Bern?" },
  ],
};
const tooled = {
  ...asked,
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
const streamed = { stream: true, stream_options: { include_usage: true } };
const all = async (runner) => {
  await runner.done();
  return runner.allChatCompletions();
};
const ask = {
  whole: async () => (text ? [await client.chat.completions.create(asked)] : all(client.chat.completions.runTools(tooled))),
  stream: () => all(text ? client.chat.completions.stream({ ...asked, ...streamed }) : client.chat.completions.runTools({ ...tooled, ...streamed })),
};
const told = (await ask[way]()).map(({ choices: [{ message, finish_reason }], usage }) => ({
  text: message.content ?? "",
  calls: (message.tool_calls ?? []).map((c) => ({ name: c.function.name, arguments: c.function.arguments })),
  finish: finish_reason,
  tokens: usage.total_tokens,
}));
process.stdout.write(JSON.stringify(told));
