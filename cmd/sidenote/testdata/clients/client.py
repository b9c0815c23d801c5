"""Asks with the official SDK for Python, answers the calls of its tool, and prints what it was told.
With "text" it has no tool.

    python client.py BASE_URL whole|stream [text]
"""
import json
import sys

from openai import OpenAI

base_url, way, *rest = sys.argv[1:]
client = OpenAI(base_url=base_url, api_key="sk-test", max_retries=0, timeout=60)
messages = [
    {"role": "system", "content": "You help staff."},
    {"role": "user", "content": "How long is parental leave, and does it rain in Bern?"},
]
tools = [{
    "type": "function",
    "function": {"name": "weather", "strict": True, "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False,
    }},
}]
told = []
while True:
    asked = {"model": "gpt-4o", "messages": messages}
    if "text" not in rest:
        asked["tools"] = tools
    if way == "stream":
        with client.chat.completions.stream(stream_options={"include_usage": True}, **asked) as stream:
            for _ in stream:
                pass
            answer = stream.get_final_completion()
    else:
        answer = client.chat.completions.create(**asked)
    choice = answer.choices[0]
    calls = choice.message.tool_calls or []
    told.append({
        "text": choice.message.content or "",
        "calls": [{"name": c.function.name, "arguments": c.function.arguments} for c in calls],
        "finish": choice.finish_reason,
        "tokens": answer.usage.total_tokens,
    })
    if not calls:
        break
    messages.append(choice.message)  # as the SDK writes it
    for c in calls:
        messages.append({"role": "tool", "tool_call_id": c.id, "content": "It rains."})
json.dump(told, sys.stdout)
