"""Python files that steps name, looked at without running them.

Invariant  What a file imports is looked for where Spark's Python will look for it: in the packages
           that are installed and in the directory the command runs in. Only the file itself goes to
           the executors, not what lies beside it.
"""

from __future__ import annotations

import ast
import difflib
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from pathlib import Path

from tidelog.model.nearest import nearest
from tidelog.pipelines.description.reading import Reading
from tidelog.pipelines.description.spec import PythonStep


def check_step_file(reading: Reading, directory: Path, step: PythonStep) -> None:
    """The file is there, is Python, has the function, and imports what exists."""
    path = directory / step.file
    if not path.is_file():
        reading.wrong(step.line, f"there is no file {step.file} beside this one")
        return
    try:
        module = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        reading.wrong(step.line, f"{step.file}:{line}: {getattr(error, 'msg', error)}")
        return
    functions = [each.name for each in module.body if isinstance(each, ast.FunctionDef)]
    if step.function not in functions:
        reading.wrong(
            step.line,
            f"{step.file} has no function {step.function}; {nearest(step.function, functions)}",
        )
    for line, name in _imports(module):
        if (trouble := _import_trouble(name, path)) is not None:
            reading.wrong(step.line, f"{step.file}:{line}: {trouble}")


def _imports(module: ast.AST) -> Iterator[tuple[int, str]]:
    """The modules that are imported wherever it is, unless a failure is taken care of."""
    for node in ast.iter_child_nodes(module):
        match node:
            case ast.Try(handlers=[_, *_]) | ast.If():
                continue  # whether it comes to it is for Python to find out
            case ast.Import():
                yield from ((node.lineno, each.name) for each in node.names)
            case ast.ImportFrom():
                yield node.lineno, "." * node.level + (node.module or "")
            case _:
                yield from _imports(node)


def _import_trouble(name: str, path: Path) -> str | None:
    """Why the module cannot be imported; None if it can."""
    if name.startswith("."):
        return f"{name} is no package here: put what it needs into {path.name}"
    parts = name.split(".")
    locations: Sequence[str] | None = None
    for at, part in enumerate(parts):
        full = ".".join(parts[: at + 1])
        found = _find(full, locations)
        if found is None and full not in sys.modules:
            return _missing(full, part, locations, path)
        locations = [] if found is None else list(found.submodule_search_locations or [])
    return None


def _find(name: str, locations: Sequence[str] | None) -> ModuleSpec | None:
    if locations is not None:
        return PathFinder.find_spec(name, locations)
    for finder in (BuiltinImporter, FrozenImporter):
        if (found := finder.find_spec(name)) is not None:
            return found
    return PathFinder.find_spec(name, [str(Path.cwd()), *sys.path])


def _missing(name: str, part: str, locations: Sequence[str] | None, path: Path) -> str:
    if locations is None and (path.parent / f"{part}.py").exists():
        return (
            f"{name}.py beside it does not travel with it: put what it needs into {path.name}, or "
            "install it as a package"
        )
    there = {each.name for each in pkgutil.iter_modules(locations)}
    there |= sys.stdlib_module_names if locations is None else set()
    if close := difflib.get_close_matches(part, sorted(there), n=1, cutoff=0.75):
        meant = ".".join([*name.split(".")[:-1], close[0]])
        return f"there is no module {name}; did you mean {meant}?"
    return f"there is no module {name}: install it for {sys.executable}"
