"""What Perfetto and Chrome's tracing page need of a trace in the Trace Event Format.

https://perfetto.dev/docs/getting-started/other-formats#json-trace-format names the fields; a file
that lacks one of them opens with nothing in it.
"""

from __future__ import annotations

from typing import Any

_NEEDED: dict[str, dict[str, type]] = {
    "i": {"name": str, "pid": int, "tid": int, "ts": int, "s": str, "args": dict},
    "X": {"name": str, "pid": int, "tid": int, "ts": int, "dur": int, "args": dict},
    "M": {"name": str, "pid": int, "tid": int, "args": dict},
}


def complaints_about(trace: dict[str, Any]) -> list[str]:
    """What is wrong with a trace; nothing if it can be read."""
    events = trace["traceEvents"]
    found = [each for event in events for each in _about(event)]
    lines: dict[tuple[int, int], int] = {}
    for event in sorted((each for each in events if each.get("ph") == "X"), key=_start):
        line = event["pid"], event["tid"]
        if event["ts"] < lines.get(line, 0):
            found.append(f"{event['name']} begins before the slice before it ends")
        lines[line] = event["ts"] + event["dur"]
    named = {(each["pid"], each["name"]) for each in events if each.get("ph") == "M"}
    processes = {each["pid"] for each in events if each.get("ph") != "M"}
    found += [
        f"process {each} has no name" for each in processes if (each, "process_name") not in named
    ]
    return found


def _about(event: dict[str, Any]) -> list[str]:
    kind = event.get("ph", "")
    if kind not in _NEEDED:
        return [f"phase {kind!r} is not known"]
    wrong = [
        f"{name} of {event.get('name')} is {event.get(name)!r}"
        for name, expected in _NEEDED[kind].items()
        if type(event.get(name)) is not expected
    ]
    if kind == "i" and event.get("s") not in ("g", "p", "t"):
        wrong.append(f"scope {event.get('s')!r} is not known")
    if kind == "M" and not isinstance(event.get("args", {}).get("name"), str):
        wrong.append("metadata without a name")
    if kind != "M" and (event.get("ts", 0) < 0 or event.get("dur", 1) < 1):
        wrong.append(f"{event.get('name')} has no time")
    return wrong


def _start(event: dict[str, Any]) -> int:
    return int(event["ts"])
