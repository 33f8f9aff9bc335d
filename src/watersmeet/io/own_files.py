"""Python files of a user that lie somewhere: a file is run, and registers connectors or functions."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from watersmeet.errors import SetupError, WatersmeetError
from watersmeet.io.connectors import registry
from watersmeet.model.catalog import FUNCTIONS_OF_ALL

# What was run so: no other process can import it by its name, so what it defines must travel by value.
LOADED: list[ModuleType] = []


def load_connectors(path: str | Path) -> list[str]:
    """Run a Python file and give the names of the connectors that it registered."""
    return _load(path, registry.registered, "connector", "watersmeet.register_connector(Connector(…))")


def load_functions(path: str | Path) -> list[str]:
    """Run a Python file and give the names of the functions and aggregates that it registered."""
    return _load(path, lambda: FUNCTIONS_OF_ALL, "function", "watersmeet.register_function('name', f)")


def _load(path: str | Path, registered: Callable[[], Mapping[str, object]], what: str, call: str) -> list[str]:
    if not Path(path).is_file():
        raise SetupError(f"there is no file {str(path)!r}", hint=f"give a Python file that calls register_{what}")
    before = dict(registered())
    module = _run(Path(path).resolve(), str(path))
    new = [name for name, one in registered().items() if before.get(name) is not one]
    if not new:
        raise SetupError(f"{str(path)!r} registered no {what}", hint=f"it calls {call}")
    LOADED.append(module)
    return new


def _run(path: Path, given: str) -> ModuleType:
    name = f"watersmeet_own_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SetupError(f"{given!r} is no Python file", hint="its name ends in .py")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up there
    sys.path.insert(0, str(path.parent))  # as of any script, for what it imports from beside it
    try:
        spec.loader.exec_module(module)
    except WatersmeetError as error:
        error.message = f"{given!r}{_line(error, path)}: {error.message}"
        raise
    except Exception as error:
        raise SetupError(f"{given!r} failed{_line(error, path)}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module


def _line(error: Exception, path: Path) -> str:
    if isinstance(error, SyntaxError):
        return f" in line {error.lineno}"
    at = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    return f" in line {at[-1]}" if at else ""
