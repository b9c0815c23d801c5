"""Asks by the Messages API with a client, which calls its own tool, and prints what it was told.

    python messages.py BASE_URL whole|stream anthropic|runner|parsed|langchain|pydantic-ai|claude-code|claude-code-plain
"""
import asyncio
import json
import os
import shutil
import subprocess
import sys

base_url, way, client = sys.argv[1:]
os.environ |= {"ANTHROPIC_BASE_URL": base_url, "ANTHROPIC_API_KEY": "sk-test"}
streamed = way == "stream"
MODEL, ROLE = "claude-sonnet-5", "You help staff."
QUESTION = "How long is parental leave, and does it rain in Bern?"
THINKING = {"type": "adaptive"}


def weather(city: str) -> str:
    """Tells the weather in a city."""
    return f"It rains in {city}."


def call(name, arguments):
    return {"name": name, "arguments": json.dumps(arguments, separators=(",", ":"))}


def total(usage):
    return usage.input_tokens + (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0) + usage.output_tokens


def text_of(message):
    return "".join(b.text for b in message.content if b.type == "text")


def cited(message):
    return [c.title for b in message.content if b.type == "text" for c in b.citations or []]


def finish(stream):
    """Reads a stream of the SDK to its end and returns the message."""
    text = "".join(stream.text_stream)
    message = stream.get_final_message()
    assert text == text_of(message), text
    return message


def with_anthropic():
    from anthropic import Anthropic

    sdk = Anthropic(max_retries=0, timeout=60)
    tool = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
    request = {"model": MODEL, "system": ROLE, "tools": [tool], "thinking": THINKING}
    asked, calls, tokens = [{"role": "user", "content": QUESTION}], [], 0
    assert sdk.messages.count_tokens(messages=asked, **request).input_tokens == 120
    while True:
        if streamed:
            with sdk.messages.stream(messages=asked, max_tokens=2048, **request) as stream:
                answer = finish(stream)
        else:
            answer = sdk.messages.create(messages=asked, max_tokens=2048, **request)
        tokens += total(answer.usage)
        called = [b for b in answer.content if b.type == "tool_use"]
        assert answer.stop_reason == ("tool_use" if called else "end_turn"), answer.stop_reason
        if not called:
            return text_of(answer), calls, tokens, cited(answer)
        calls += [call(c.name, c.input) for c in called]
        asked += [
            {"role": "assistant", "content": answer.content},  # as the SDK writes it
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": c.id, "content": weather(**c.input)} for c in called]},
        ]


def with_runner():
    from anthropic import Anthropic, beta_tool

    runner = Anthropic(max_retries=0, timeout=60).beta.messages.tool_runner(
        model=MODEL, max_tokens=2048, system=[{"type": "text", "text": ROLE, "cache_control": {"type": "ephemeral"}}],
        messages=[{"role": "user", "content": [{"type": "text", "text": QUESTION}]}], tools=[beta_tool(weather)], thinking=THINKING, stream=streamed,
    )
    calls, tokens = [], 0
    for answer in runner:
        answer = finish(answer) if streamed else answer
        tokens += total(answer.usage)
        calls += [call(b.name, b.input) for b in answer.content if b.type == "tool_use"]
    return text_of(answer), calls, tokens, cited(answer)


def with_parsed():
    from anthropic import Anthropic
    from pydantic import BaseModel

    class Leave(BaseModel):
        weeks: int

    sdk = Anthropic(max_retries=0, timeout=60)
    request = {"model": MODEL, "max_tokens": 2048, "system": ROLE, "messages": [{"role": "user", "content": QUESTION}], "output_format": Leave}
    if streamed:
        with sdk.messages.stream(**request) as stream:
            answer = finish(stream)
    else:
        answer = sdk.messages.parse(**request)
    return f"{answer.parsed_output.weeks} weeks", [], total(answer.usage), cited(answer)


def with_langchain():
    from langchain_anthropic import ChatAnthropic
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import tool

    tools = {"weather": tool(weather)}
    model = ChatAnthropic(model=MODEL, max_tokens=2048, thinking=THINKING, max_retries=0).bind_tools(list(tools.values()))
    asked, calls, tokens = [("system", ROLE), ("human", QUESTION)], [], 0
    while True:
        answer = model.invoke(asked) if not streamed else None
        for chunk in model.stream(asked) if streamed else ():
            answer = chunk if answer is None else answer + chunk
        tokens += answer.usage_metadata["total_tokens"]
        if not answer.tool_calls:
            cites = [c["title"] for b in answer.content if b["type"] == "text" for c in b.get("citations") or []] if isinstance(answer.content, list) else []
            return answer.text, calls, tokens, cites
        asked.append(answer)
        for c in answer.tool_calls:
            calls.append(call(c["name"], c["args"]))
            asked.append(ToolMessage(tools[c["name"]].invoke(c["args"]), tool_call_id=c["id"]))


def with_pydantic_ai():
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel

    agent = Agent(AnthropicModel(MODEL), instructions=ROLE, tools=[weather], model_settings={"max_tokens": 2048, "anthropic_thinking": THINKING})

    async def run():
        if not streamed:
            result = await agent.run(QUESTION)
            return result, result.output
        async with agent.run_stream(QUESTION) as result:
            return result, "".join([d async for d in result.stream_text(delta=True)])

    result, text = asyncio.run(run())
    parts = [p for m in result.all_messages() for p in m.parts]
    calls = [call(p.tool_name, p.args_as_dict()) for p in parts if p.part_kind == "tool-call"]
    usage = result.usage() if callable(result.usage) else result.usage
    return text, calls, usage.total_tokens, None  # it does not read citations of search results


def with_claude_code(asked=QUESTION + " See {}"):
    """Lets Claude Code read a file, since it has no tool of the weather."""
    clients = os.environ["CLIENTS"]
    home, work = os.path.join(clients, "claude", "home"), os.path.join(clients, "claude", "work")
    for folder in (home, work):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
    file = os.path.join(work, "weather.txt")
    with open(file, "w") as f:
        f.write(weather("Bern"))
    out = subprocess.run([
        os.path.join(clients, "node_modules", ".bin", "claude"), "-p", asked.format(file), "--model", MODEL,
        "--output-format", "stream-json", "--verbose", "--allowedTools", "Read",
    ], cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | {
        "HOME": home, "CLAUDE_CONFIG_DIR": os.path.join(home, "config"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
    }).stdout
    events = [json.loads(line) for line in out.splitlines()]
    said = [b for e in events if e["type"] == "assistant" for b in e["message"]["content"]]
    calls = [call(b["name"], {k: os.path.basename(v) for k, v in b["input"].items()}) for b in said if b["type"] == "tool_use"]
    usage = events[-1]["usage"]
    tokens = sum(usage[k] for k in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"))
    text = "".join(b["text"] for b in said if b["type"] == "text")
    assert text.endswith(events[-1]["result"])  # which is the last block alone
    return text, calls, tokens, None


def with_claude_code_plain():
    return with_claude_code(QUESTION)


text, calls, tokens, titles = globals()["with_" + client.replace("-", "_")]()
json.dump([{"text": text, "calls": calls, "tokens": tokens, "cited": titles}], sys.stdout)
