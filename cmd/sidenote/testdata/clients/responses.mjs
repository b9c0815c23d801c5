// Asks by the Responses API with a client, which calls its own tool weather, and prints what it was told.
//
//	node responses.mjs BASE_URL whole|stream openai|parsed|agents|ai
import assert from "node:assert";
import { z } from "zod";

const [baseURL, way, client] = process.argv.slice(2);
Object.assign(process.env, { OPENAI_BASE_URL: baseURL, OPENAI_API_KEY: "sk-test" });
const streamed = way === "stream";
const [model, role] = ["gpt-5", "You help staff."];
const question = "How long is parental leave, and does it rain in Bern?";
const description = "Tells the weather in a city.";
const parameters = z.object({ city: z.string() });
const weather = async ({ city }) => `It rains in ${city}.`;
const citedIn = (output) => output.flatMap((i) => i.content ?? []).flatMap((c) => c.annotations ?? c.providerData?.annotations ?? []).map((a) => a.title);

const clients = {
  async openai() {
    const { default: OpenAI } = await import("openai");
    const { zodResponsesFunction } = await import("openai/helpers/zod");
    const sdk = new OpenAI({ maxRetries: 0, timeout: 60_000 });
    const tools = [zodResponsesFunction({ name: "weather", description, parameters })];
    const [input, calls] = [[{ role: "user", content: question }], []];
    for (let tokens = 0; ; ) {
      const request = { model, instructions: role, input, tools };
      const ask = async () => {
        if (!streamed) return sdk.responses.create(request);
        let text = "";
        const stream = sdk.responses.stream(request).on("response.output_text.delta", (e) => (text += e.delta));
        const answer = await stream.finalResponse();
        assert.equal(text, answer.output_text);
        return answer;
      };
      const answer = await ask();
      tokens += answer.usage.total_tokens;
      const called = answer.output.filter((i) => i.type === "function_call");
      if (called.length === 0) return { text: answer.output_text, calls, tokens, cited: citedIn(answer.output) };
      input.push(...answer.output); // as the SDK writes it
      for (const c of called) {
        calls.push(c);
        input.push({ type: "function_call_output", call_id: c.call_id, output: await weather(JSON.parse(c.arguments)) });
      }
    }
  },

  async parsed() {
    const { default: OpenAI } = await import("openai");
    const { zodTextFormat } = await import("openai/helpers/zod");
    const sdk = new OpenAI({ maxRetries: 0, timeout: 60_000 });
    const format = zodTextFormat(z.object({ weeks: z.int() }), "leave");
    const request = { model, instructions: role, input: question, text: { format } };
    const answer = await (streamed ? sdk.responses.stream(request).finalResponse() : sdk.responses.parse(request));
    return { text: `${answer.output_parsed.weeks} weeks`, calls: [], tokens: answer.usage.total_tokens, cited: citedIn(answer.output) };
  },

  async agents() {
    const { Agent, run, setTracingDisabled, tool } = await import("@openai/agents");
    setTracingDisabled(true);
    const agent = new Agent({ name: "staff", model, instructions: role, tools: [tool({ name: "weather", description, parameters, execute: weather })] });
    const result = await run(agent, question, { stream: streamed });
    if (streamed) {
      let text = "";
      for await (const delta of result.toTextStream()) text += delta;
      await result.completed;
      assert.equal(text, result.finalOutput);
    }
    const calls = result.newItems.filter((i) => i.type === "tool_call_item").map((i) => i.rawItem);
    return { text: result.finalOutput, calls, tokens: result.state.usage.totalTokens, cited: citedIn(result.rawResponses.at(-1).output) };
  },

  async ai() {
    const { generateText, isStepCount, streamText, tool } = await import("ai");
    const { openai } = await import("@ai-sdk/openai");
    const request = {
      model: openai(model), maxRetries: 0, stopWhen: isStepCount(5), system: role, prompt: question,
      tools: { weather: tool({ description, inputSchema: parameters, execute: weather }) },
    };
    const result = streamed ? streamText(request) : await generateText(request);
    if (streamed) {
      let text = "";
      for await (const delta of result.textStream) text += delta;
      assert.equal(text, await result.text);
    }
    const calls = (await result.steps).flatMap((s) => s.toolCalls).map((c) => ({ name: c.toolName, arguments: JSON.stringify(c.input) }));
    return { text: await result.text, calls, tokens: (await result.totalUsage).totalTokens, cited: (await result.sources).map((s) => s.title) };
  },
};

const { calls, ...told } = await clients[client]();
process.stdout.write(JSON.stringify([{ ...told, calls: calls.map((c) => ({ name: c.name, arguments: c.arguments })) }]));
