"""A setting: one declaration that is at once its documentation, its check and its typed attribute.

Settings are declared as attributes of a `Settings` class. The attribute name with dots for
underscores is the key, so `retention_ms` is `retention.ms`. On the class the attribute is the
declaration; on an instance it is the value, typed after the default.

Invariant  Values of a `Settings` instance have passed their checks and never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum, IntEnum
from typing import Any, ClassVar, Final, Generic, NoReturn, Self, TypeVar, cast, overload

from tidelog.model.errors import ConfigError, InvariantBroken

T = TypeVar("T")

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1


class ConfigType(IntEnum):
    """Types by the number DescribeConfigs reports."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(Enum):
    """Where a broker setting may be changed while the node runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True)
class Limit:
    """What a value must satisfy, and the same in words that finish the sentence "must be …"."""

    words: str
    holds: Callable[[Any], bool]


def at_least(low: float) -> Limit:
    return Limit(f"at least {low}", lambda value: value >= low)


def between(low: float, high: float) -> Limit:
    return Limit(f"between {low} and {high}", lambda value: low <= value <= high)


def one_of(*choices: str) -> Limit:
    return Limit(f"one of {', '.join(choices)}", lambda value: value in choices)


def each_of(*choices: str) -> Limit:
    """For lists: every element is one of the choices, none twice."""
    return Limit(
        f"a list of {', '.join(choices)}, each at most once",
        lambda values: set(values) <= set(choices) and len(set(values)) == len(values),
    )


class Setting(Generic[T]):
    """One setting. `limit` applies to values that are not None."""

    __slots__ = ("default", "doc", "hidden", "limit", "name", "scope", "synonyms", "type")

    def __init__(
        self,
        type: ConfigType,
        default: T,
        doc: str,
        limit: Limit | None = None,
        *,
        scope: Scope = Scope.READ_ONLY,
        synonyms: tuple[str, ...] = (),
        hidden: bool = False,
    ) -> None:
        self.name = ""
        self.type = type
        self.default = default
        self.doc = doc
        self.limit = limit
        self.scope = scope
        self.synonyms = synonyms
        """Broker keys a topic setting falls back to, in order of precedence."""
        self.hidden = hidden
        """Whether DescribeConfigs leaves it out where nobody has set it."""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.name = attribute.replace("_", ".")

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        # Instances keep their values in __dict__, which wins over this descriptor.
        if instance is not None:
            raise InvariantBroken(f"{owner.__name__} was built without a value for {self.name}")
        return self

    def __repr__(self) -> str:
        return f"Setting({self.name})"

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def allowed(self) -> str:
        """The accepted values in words, e.g. "a whole number, at least 1"."""
        words = _TYPE_WORDS[self.type]
        if self.limit is None:
            return words
        if self.type in _SELF_EXPLAINING:
            return self.limit.words
        return f"{words}, {self.limit.words}"

    def parse(self, text: str) -> T:
        """The value behind its text form; ConfigError says what is allowed instead."""
        value = _PARSERS[self.type](text.strip())
        if value is _UNREADABLE or (self.limit is not None and not self.limit.holds(value)):
            shown = "[hidden]" if self.sensitive else text
            raise ConfigError(
                f"Invalid value {shown} for configuration {self.name}: must be {self.allowed}"
            )
        return cast(T, value)

    def reads(self, text: str) -> bool:
        """Whether a text stands for an allowed value; another implementation may have stored it."""
        try:
            self.parse(text)
        except ConfigError:
            return False
        return True

    def text(self, value: T) -> str | None:
        """The text form of a value, as DescribeConfigs shows it; None for an unset one."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        if isinstance(value, float):
            return repr(value).replace("e+", "E").replace("e", "E")
        return str(value)


class Settings:
    """A checked, frozen set of values with one typed attribute per declared setting."""

    _known: ClassVar[dict[str, Setting[Any]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._known = {
            setting.name: setting
            for base in reversed(cls.__mro__)
            for setting in vars(base).values()
            if isinstance(setting, Setting)
        }

    def __init__(self, values: Mapping[str, object]) -> None:
        """Take parsed values by key; the others have their defaults."""
        for name, setting in self._known.items():
            self.__dict__[name.replace(".", "_")] = values.get(name, setting.default)

    @classmethod
    def known(cls) -> dict[str, Setting[Any]]:
        """The declarations by key, in order of declaration."""
        return dict(cls._known)

    @classmethod
    def declaration(cls, name: str) -> Setting[Any]:
        """The declaration of a key; ConfigError names the nearest known key."""
        setting = cls._known.get(name)
        if setting is None:
            raise ConfigError(unknown_key(name, cls._known))
        return setting

    def value(self, name: str) -> object:
        """The value of a key."""
        return self.__dict__[self.declaration(name).name.replace(".", "_")]

    def items(self) -> Iterator[tuple[Setting[Any], object]]:
        """Every declaration with its value."""
        for setting in self._known.values():
            yield setting, self.value(setting.name)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash(tuple(value for _, value in self.items()))

    def __repr__(self) -> str:
        changed = (
            f"{setting.name}={'hidden' if setting.sensitive else setting.text(value)}"
            for setting, value in self.items()
            if value != setting.default
        )
        return f"{type(self).__name__}({', '.join(changed)})"


def unknown_key(name: str, known: Iterable[str], what: str = "setting") -> str:
    """The sentence that refuses an unknown key and names the nearest one."""
    nearest = get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"Unknown {what} {name}{hint}"


_UNREADABLE: Final = object()
_SELF_EXPLAINING: Final = (ConfigType.STRING, ConfigType.LIST, ConfigType.CLASS)
_TYPE_WORDS: Final[dict[ConfigType, str]] = {
    ConfigType.BOOLEAN: "true or false",
    ConfigType.STRING: "text",
    ConfigType.INT: "a whole number",
    ConfigType.SHORT: "a whole number",
    ConfigType.LONG: "a whole number",
    ConfigType.DOUBLE: "a number",
    ConfigType.LIST: "a comma-separated list",
    ConfigType.CLASS: "a class name",
    ConfigType.PASSWORD: "a secret",
}


def _boolean(text: str) -> object:
    return {"true": True, "false": False}.get(text.lower(), _UNREADABLE)


def _whole(bits: int) -> Callable[[str], object]:
    bound = 1 << (bits - 1)

    def read(text: str) -> object:
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
            return _UNREADABLE
        number = int(text)
        return number if -bound <= number < bound else _UNREADABLE

    return read


def _number(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return _UNREADABLE


def _list(text: str) -> object:
    return tuple(part.strip() for part in text.split(",")) if text else ()


_PARSERS: Final[dict[ConfigType, Callable[[str], object]]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: str,
    ConfigType.INT: _whole(32),
    ConfigType.SHORT: _whole(16),
    ConfigType.LONG: _whole(64),
    ConfigType.DOUBLE: _number,
    ConfigType.LIST: _list,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
}
