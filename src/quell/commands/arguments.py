"""Flags of a command: a dataclass in, the same dataclass out; what cannot be parsed is refused in one line."""

import dataclasses
import io
import json
import re
from contextlib import redirect_stderr, suppress
from typing import TypeVar

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from quell import registry
from quell.config import parse_value
from quell.errors import UsageError, did_you_mean, flag
from quell.registry import Plain
from quell.words import called_here

Form = TypeVar("Form")
UNSET = tyro.conf.arg(help_behavior_hint="")
"""Annotates a flag whose default is None: its text says what that means."""
NUMBERS = ConstructorRegistry()
WHOLE = r"(?:invalid literal for int|no type matching INT could be instantiated)"
REWORDED = {
    rf"Error parsing ([^:]+): {WHOLE}[^'\[]*\[?('[^']*').*": r"\1 takes a whole number, got \2",
    r"Error parsing ([^:]+): (?:no type .*)?could not convert string to float: (.*)": r"\1 takes a number, got \2",
    r"Error parsing ([^:]+): (?:Failed to parse key-value pairs!|not pairs)": (
        r"\1 takes names and their values, with spaces between them"
    ),
    r"Error parsing ([^:]+): Could not find valid parse for arguments: \[(.*)\]": (
        r"\1 takes whole numbers with spaces between them, got \2"
    ),
    r"invalid choice ('[^']*') for argument '([^']+)'. Expected one of \((.*?),?\)\.?": r"\2 \1: there are \3",
    r"Missing value for argument '([^']+)'.*": r"\1 needs a value",
    r"Missing from [^:]+: (\S+).*": r"\1 is missing",
    r"Unrecognized options: (.*)": r"not expected here: \1",
}
"""tyro's complaints -> ours."""


@NUMBERS.primitive_rule
def _int_rule(asked: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    """A flag that takes a whole number takes 1e6 and 1M too."""
    if asked.type is not int:
        return None
    return PrimitiveConstructorSpec(1, "INT", _whole, lambda value: isinstance(value, int), lambda value: [str(value)])


def _whole(words: list[str]) -> int:
    with suppress(ValueError):
        return registry.read_whole(words[0])
    return int(words[0])  # complains as tyro's own does


@NUMBERS.primitive_rule
def _table_rule(asked: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[dict[str, Plain]] | None:
    """A flag that takes a table takes names and values in turn, whatever the table holds already."""
    if asked.type != dict[str, Plain]:
        return None
    return PrimitiveConstructorSpec("*", "[NAME VALUE ...]", _table, lambda value: isinstance(value, dict), _words)


def _table(words: list[str]) -> dict[str, Plain]:
    if len(words) % 2 or not words:
        raise ValueError("not pairs")
    return {name: parse_value(value) for name, value in zip(words[::2], words[1::2], strict=True)}


def _words(table: dict[str, Plain]) -> list[str]:
    return [word for name, value in table.items() for word in (name, json.dumps(value))]


def take(arguments: list[str], flag: str) -> tuple[str | None, list[str]]:
    """The value of a flag before the real parsing ("" if none follows, None without the flag), and the other words."""
    for i, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name == flag:
            rest = arguments[i + 1 :] if equals else arguments[i + 2 :]
            return value if equals else "".join(arguments[i + 1 : i + 2]), arguments[:i] + rest
    return None, arguments


def parse(form: type[Form], arguments: list[str], *, prog: str, description: str | None = None) -> Form:
    """The arguments as an instance of `form`, whose fields are the flags; one that it does not have is refused."""
    known = [item.name for item in dataclasses.fields(form)]  # type: ignore[arg-type]
    for word in arguments:
        given = word.partition("=")[0]
        name = given.removeprefix("--").replace("-", "_")
        if word.startswith("--") and not {name, name.removeprefix("no_")} & {"", "help", *known}:
            answer = called_here(name, known, flag, flags=True)
            hint = f": {answer}" if answer else f"{did_you_mean(name, known, flag)}; `{prog} --help` lists them"
            raise UsageError(f"there is no option {given}{hint}")
    return checked(filled(form, arguments, prog, description))


def filled(form: type[Form], arguments: list[str], prog: str, description: str | None) -> Form:
    """The same without looking at the flags' names first."""
    said, how = io.StringIO(), (tyro.conf.DisallowNone,)
    try:
        with redirect_stderr(said):
            return tyro.cli(form, args=arguments, prog=prog, description=description, config=how, registry=NUMBERS)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UsageError(f"{_complaint(said.getvalue())}; `{prog} --help` explains") from None


def checked(form: Form) -> Form:
    """The same form, whose numbers lie within the bounds that its fields declare."""
    for name, hint in registry.hints(type(form)).items():
        if wrong := registry.complaint(value := getattr(form, name), hint):
            raise UsageError(f"{flag(name)} {value} {wrong}")
    return form


def _complaint(text: str) -> str:
    """The first part of what tyro says, without its frame: lines, and ASCII under a title where they cannot be had."""
    framed = "│" in text
    lines = [line.strip("│| ") for line in text.splitlines() if line[:1] not in "╭╰"]
    parts = re.split(r"\n[─-]{5,}\n", "\n".join(lines).strip())
    said = " ".join(parts[0 if framed or len(parts) == 1 else 1].split())
    for pattern, words in REWORDED.items():
        said = re.sub(pattern, words, said)
    return said
