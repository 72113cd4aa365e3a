"""YAML with the line of everything in it.

Invariant  A value that YAML would turn into a date stays the text the user wrote.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tidelog.pipelines.description.mistakes import Mistake, SpecError


class Given(NamedTuple):
    """A value and its line: a text, a number, a truth value, None, a list or a mapping of these."""

    value: Any
    line: int

    @property
    def plain(self) -> Any:
        """The value without lines."""
        if isinstance(self.value, dict):
            return {key: each.plain for key, each in self.value.items()}
        if isinstance(self.value, list):
            return [each.plain for each in self.value]
        return self.value


class _Loader(yaml.SafeLoader):
    """YAML's own scalars, without dates."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(path: Path) -> Given:
    """The file as a tree; a file that is not YAML is refused with the place of the trouble."""
    try:
        text = path.read_text(encoding="utf-8")
        loader = _Loader(text)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise SpecError(str(path), [Mistake(line, "not UTF-8")]) from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        what = f"not YAML: there is a character #x{error.character:04x}, which nobody can see"
        raise SpecError(str(path), [Mistake(line, what)]) from None
    mistakes: list[Mistake] = []
    try:
        node = loader.get_single_node()
        found = Given(None, 1) if node is None else _given(loader, node, mistakes)
    except RecursionError:
        raise SpecError(str(path), [Mistake(1, "not a tree: something is within itself")]) from None
    except yaml.MarkedYAMLError as error:
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        raise SpecError(str(path), [Mistake(line, f"not YAML: {error.problem}")]) from None
    finally:
        loader.dispose()
    if mistakes:
        raise SpecError(str(path), mistakes)
    return found


def _given(loader: _Loader, node: yaml.Node, mistakes: list[Mistake]) -> Given:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Given] = {}
        for key_node, value_node in node.value:
            key = str(loader.construct_object(key_node))
            at = key_node.start_mark.line + 1
            if key in found:
                mistakes.append(Mistake(at, f"{key} is given twice"))
            found[key] = Given(_given(loader, value_node, mistakes).value, at)
        return Given(found, line)
    if isinstance(node, yaml.SequenceNode):
        return Given([_given(loader, each, mistakes) for each in node.value], line)
    return Given(loader.construct_object(node), line)
