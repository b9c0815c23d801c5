"""Asks by the Responses API with a client, which calls its own tool weather, and prints what it was told.

    python responses.py BASE_URL whole|stream openai|parsed|agents|pydantic-ai|codex
"""
import asyncio
import json
import os
import shlex
import subprocess
import sys

base_url, way, client = sys.argv[1:]
os.environ |= {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "sk-test"}
streamed = way == "stream"
MODEL, ROLE = "gpt-5", "You help staff."
QUESTION = "How long is parental leave, and does it rain in Bern?"


def weather(city: str) -> str:
    """Tells the weather in a city."""
    return f"It rains in {city}."


def call(name, arguments):
    return {"name": name, "arguments": arguments}


def cited(response):
    return [a.title for i in response.output if i.type == "message" for c in i.content for a in c.annotations]


def with_openai():
    from openai import OpenAI

    sdk = OpenAI(max_retries=0, timeout=60)
    tool = {"type": "function", "name": "weather", "strict": True, "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False,
    }}
    asked, calls, tokens = [{"role": "user", "content": QUESTION}], [], 0
    while True:
        request = {"model": MODEL, "instructions": ROLE, "input": asked, "tools": [tool]}
        if streamed:
            with sdk.responses.stream(**request) as stream:
                text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
                answer = stream.get_final_response()
            assert text == answer.output_text, text
        else:
            answer = sdk.responses.create(**request)
        tokens += answer.usage.total_tokens
        called = [i for i in answer.output if i.type == "function_call"]
        if not called:
            return answer.output_text, calls, tokens, cited(answer)
        asked += answer.output  # as the SDK writes it
        for c in called:
            calls.append(call(c.name, c.arguments))
            asked.append({"type": "function_call_output", "call_id": c.call_id, "output": weather(**json.loads(c.arguments))})


def with_parsed():
    from openai import OpenAI
    from pydantic import BaseModel

    class Leave(BaseModel):
        weeks: int

    sdk = OpenAI(max_retries=0, timeout=60)
    request = {"model": MODEL, "instructions": ROLE, "input": QUESTION, "text_format": Leave}
    if streamed:
        with sdk.responses.stream(**request) as stream:
            stream.until_done()
            answer = stream.get_final_response()
    else:
        answer = sdk.responses.parse(**request)
    return f"{answer.output_parsed.weeks} weeks", [], answer.usage.total_tokens, cited(answer)


def with_agents():
    from agents import Agent, Runner, function_tool, set_tracing_disabled

    set_tracing_disabled(True)
    agent = Agent(name="staff", model=MODEL, instructions=ROLE, tools=[function_tool(weather)])

    async def run():
        if not streamed:
            return await Runner.run(agent, QUESTION)
        result = Runner.run_streamed(agent, QUESTION)
        text = "".join([
            e.data.delta async for e in result.stream_events()
            if e.type == "raw_response_event" and e.data.type == "response.output_text.delta"
        ])
        assert text == result.final_output, text
        return result

    result = asyncio.run(run())
    calls = [call(i.raw_item.name, i.raw_item.arguments) for i in result.new_items if i.type == "tool_call_item"]
    return result.final_output, calls, result.context_wrapper.usage.total_tokens, cited(result.raw_responses[-1])


def with_pydantic_ai():
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIResponsesModel

    agent = Agent(OpenAIResponsesModel(MODEL), instructions=ROLE, tools=[weather])

    async def run():
        if not streamed:
            result = await agent.run(QUESTION)
            return result, result.output
        async with agent.run_stream(QUESTION) as result:
            return result, "".join([d async for d in result.stream_text(delta=True)])

    result, text = asyncio.run(run())
    parts = [p for m in result.all_messages() for p in m.parts]
    calls = [call(p.tool_name, p.args) for p in parts if p.part_kind == "tool-call"]
    usage = result.usage() if callable(result.usage) else result.usage
    return text, calls, usage.total_tokens, [s.title for c in parts[-1].citations or [] for s in c.sources]


def with_codex():
    home = os.environ["CLIENTS"]
    os.environ["CODEX_HOME"], work = os.path.join(home, "codex"), os.path.join(home, "codex", "work")
    os.makedirs(work, exist_ok=True)
    provider = f'{{name="Sidenote", base_url="{base_url}", wire_api="responses", env_key="OPENAI_API_KEY", request_max_retries=0, stream_max_retries=0}}'
    out = subprocess.run([
        os.path.join(home, "node_modules", ".bin", "codex"), "exec", "--json", "--skip-git-repo-check", "--ephemeral",
        "-s", "danger-full-access", "-C", work, "-m", MODEL, "-c", "model_provider=sidenote", "-c", f"model_providers.sidenote={provider}", QUESTION,
    ], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout
    events = [json.loads(line) for line in out.splitlines()]
    items = [e["item"] for e in events if e["type"] == "item.completed"]
    text = "".join(i["text"] for i in items if i["type"] == "agent_message")
    calls = [call("exec_command", json.dumps({"cmd": shlex.split(i["command"])[-1]})) for i in items if i["type"] == "command_execution"]
    usage = events[-1]["usage"]
    return text, calls, usage["input_tokens"] + usage["output_tokens"], None


text, calls, tokens, titles = globals()["with_" + client.replace("-", "_")]()
json.dump([{"text": text, "calls": calls, "tokens": tokens, "cited": titles}], sys.stdout)
