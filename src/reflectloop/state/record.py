"""Records of named fields. `dataclasses` would spend 30 ms of every start on making these classes."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, Self

_Values = dict[str, object]


class _Fields:  # noqa: PLW1641 - no record is a key
    """An object whose fields are its annotations, with their defaults; they are given by name."""

    _names: ClassVar[tuple[str, ...]] = ()
    _known: ClassVar[frozenset[str]] = frozenset()
    _constants: ClassVar[_Values] = {}
    _factories: ClassVar[dict[str, Callable[[], object]]] = {}

    def __init_subclass__(cls) -> None:
        cls._names = tuple(inspect.get_annotations(cls))
        cls._known = frozenset(cls._names)
        defaults = {name: cls.__dict__[name] for name in cls._names if name in cls.__dict__}
        made = {name: value for name, value in defaults.items() if isinstance(value, dataclasses.Field)}
        cls._factories = {
            name: typing.cast("Callable[[], object]", value.default_factory) for name, value in made.items()
        }
        cls._constants = {name: value for name, value in defaults.items() if name not in made}

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - type checkers read the fields
        if given.keys() != self._known:  # a line of the journal has every field
            given = self._completed(given)
        self.__dict__.update(given)

    @classmethod
    def taking(cls, values: dict[str, Any]) -> Self:
        """Return a record of the values in a dictionary, which belongs to the record if it has every field."""
        if values.keys() != cls._known:
            return cls(**values)
        made = cls.__new__(cls)
        object.__setattr__(made, "__dict__", values)
        return made

    def _completed(self, given: _Values) -> _Values:
        values = self._constants | given
        for name, make in self._factories.items():
            if name not in given:
                values[name] = make()
        if values.keys() != self._known:
            wrong = sorted(values.keys() ^ self._known)
            raise TypeError(f"{type(self).__name__}: {', '.join(wrong)}: unknown or missing")
        return values

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"

    def fields(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self._names}

    def replaced(self, **changes: Any) -> Self:  # noqa: ANN401
        """Return a copy with other values."""
        return type(self)(**self.__dict__ | changes)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, handler: Any) -> Any:  # noqa: ANN401 - no import of pydantic
        """Describe the record as a dataclass, for the published schema of `state.json`."""
        hints = typing.get_type_hints(cls)
        fields = [
            (name, hints[name], getattr(cls, name)) if hasattr(cls, name) else (name, hints[name])
            for name in cls._names
        ]
        made = dataclasses.make_dataclass(cls.__name__, fields, kw_only=True, namespace={"__doc__": cls.__doc__})
        return handler.generate_schema(made)


@typing.dataclass_transform(kw_only_default=True, field_specifiers=(dataclasses.field,))
class Record(_Fields):
    """A record whose fields can be changed."""


@typing.dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(dataclasses.field,))
class FrozenRecord(_Fields):
    """A record whose fields cannot be changed."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name} of {type(self).__name__} cannot be changed")
