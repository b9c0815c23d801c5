// Asks by the Messages API with a client, which calls its own tool weather, and prints what it was told.
//
//	node messages.mjs BASE_URL whole|stream anthropic|runner|parsed|ai
import assert from "node:assert";
import { z } from "zod";

const [baseURL, way, client] = process.argv.slice(2);
Object.assign(process.env, { ANTHROPIC_BASE_URL: baseURL, ANTHROPIC_API_KEY: "sk-test" });
const streamed = way === "stream";
const [model, role] = ["claude-sonnet-5", "You help staff."];
const question = "How long is parental leave, and does it rain in Bern?";
const description = "Tells the weather in a city.";
const parameters = z.object({ city: z.string() });
const weather = async ({ city }) => `It rains in ${city}.`;
const thinking = { type: "adaptive" };
const asked = { model, max_tokens: 2048, system: role };
const total = (u) => u.input_tokens + u.cache_creation_input_tokens + u.cache_read_input_tokens + u.output_tokens;
const textOf = (message) => message.content.flatMap((b) => (b.type === "text" ? [b.text] : [])).join("");
const citedIn = (message) => message.content.flatMap((b) => b.citations ?? []).map((c) => c.title);
const callsIn = (message) => message.content.filter((b) => b.type === "tool_use").map((b) => ({ name: b.name, arguments: JSON.stringify(b.input) }));

const sdk = async () => new (await import("@anthropic-ai/sdk")).default({ maxRetries: 0, timeout: 60_000 });

// finish reads a stream of the SDK to its end and returns the message.
const finish = async (stream) => {
  let text = "";
  stream.on("text", (delta) => (text += delta));
  const message = await stream.finalMessage();
  assert.equal(text, textOf(message));
  return message;
};

const clients = {
  async anthropic() {
    const { messages: api } = await sdk();
    const tools = [{ name: "weather", input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } }];
    const [messages, calls] = [[{ role: "user", content: question }], []];
    const { input_tokens } = await api.countTokens({ model, system: role, messages, tools, thinking });
    assert.equal(input_tokens, 120);
    for (let tokens = 0; ; ) {
      const request = { ...asked, messages, tools, thinking };
      const answer = await (streamed ? finish(api.stream(request)) : api.create(request));
      tokens += total(answer.usage);
      calls.push(...callsIn(answer));
      const called = answer.content.filter((b) => b.type === "tool_use");
      assert.equal(answer.stop_reason, called.length > 0 ? "tool_use" : "end_turn");
      if (called.length === 0) return { text: textOf(answer), calls, tokens, cited: citedIn(answer) };
      const results = await Promise.all(called.map(async (c) => ({ type: "tool_result", tool_use_id: c.id, content: await weather(c.input) })));
      messages.push({ role: "assistant", content: answer.content }, { role: "user", content: results }); // as the SDK writes it
    }
  },

  async runner() {
    const { betaZodTool } = await import("@anthropic-ai/sdk/helpers/beta/zod");
    const runner = (await sdk()).beta.messages.toolRunner({
      ...asked, thinking, stream: streamed,
      system: [{ type: "text", text: role, cache_control: { type: "ephemeral" } }],
      messages: [{ role: "user", content: [{ type: "text", text: question }] }],
      tools: [betaZodTool({ name: "weather", description, inputSchema: parameters, run: weather })],
    });
    const [calls, state] = [[], { tokens: 0 }];
    for await (const one of runner) {
      state.answer = streamed ? await finish(one) : one;
      state.tokens += total(state.answer.usage);
      calls.push(...callsIn(state.answer));
    }
    return { text: textOf(state.answer), calls, tokens: state.tokens, cited: citedIn(state.answer) };
  },

  async parsed() {
    const { zodOutputFormat } = await import("@anthropic-ai/sdk/helpers/zod");
    const { messages: api } = await sdk();
    const request = { ...asked, messages: [{ role: "user", content: question }], output_config: { format: zodOutputFormat(z.object({ weeks: z.int() })) } };
    const answer = await (streamed ? finish(api.stream(request)) : api.parse(request));
    return { text: `${answer.parsed_output.weeks} weeks`, calls: [], tokens: total(answer.usage), cited: citedIn(answer) };
  },

  async ai() {
    const { generateText, isStepCount, streamText, tool } = await import("ai");
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    const request = {
      model: createAnthropic({ baseURL: `${baseURL}/v1` })(model), maxRetries: 0, maxOutputTokens: 2048, stopWhen: isStepCount(5), system: role, prompt: question,
      providerOptions: { anthropic: { thinking } },
      tools: { weather: tool({ description, inputSchema: parameters, execute: weather }) },
    };
    const result = streamed ? streamText(request) : await generateText(request);
    if (streamed) {
      let text = "";
      for await (const delta of result.textStream) text += delta;
      assert.equal(text, await result.text);
    }
    const calls = (await result.steps).flatMap((s) => s.toolCalls).map((c) => ({ name: c.toolName, arguments: JSON.stringify(c.input) }));
    return { text: await result.text, calls, tokens: (await result.totalUsage).totalTokens, cited: citedIn({ content: (await result.content).map((p) => p.providerMetadata?.anthropic ?? {}) }) };
  },
};

process.stdout.write(JSON.stringify([await clients[client]()]));
