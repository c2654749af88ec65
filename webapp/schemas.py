"""JSON Schemas of frozen dataclasses: what `pages.to_json` writes of them.

Each dataclass is a named schema; everything else stands where it is used.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ForwardRef, Literal, Union, get_args, get_origin, get_type_hints

Schema = dict[str, Any]

_PLAIN: dict[object, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
}


class Schemas:
    """Collects the schemas of dataclasses under names of their own."""

    def __init__(self) -> None:
        self.named: dict[str, Schema] = {}
        self._names: dict[type, str] = {}

    def of(self, kind: Any) -> Schema:
        """Return the schema of a type; that of a dataclass is a reference.

        What a type does not tell (any JSON) has the schema that takes everything.
        """
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            return {"$ref": f"#/components/schemas/{self._name(kind)}"}
        if isinstance(kind, type) and issubclass(kind, str):
            return _PLAIN[str]
        if kind in _PLAIN:
            return _PLAIN[kind]
        return self._composed(kind)

    def _composed(self, kind: Any) -> Schema:
        origin, parts = get_origin(kind), get_args(kind)
        if origin is Literal:
            return {"enum": list(parts)}
        if origin in (Union, types.UnionType):
            if any(_is_any_json(part) for part in parts):
                return {}
            return {"anyOf": [self.of(part) for part in parts]}
        if origin is tuple and parts and parts[-1] is not Ellipsis:
            return {
                "type": "array",
                "prefixItems": [self.of(part) for part in parts],
                "minItems": len(parts),
                "maxItems": len(parts),
            }
        if origin in (tuple, list, Sequence, frozenset) and parts:
            return {"type": "array", "items": self.of(parts[0])}
        if origin in (dict, Mapping):
            return {"type": "object", "additionalProperties": self.of(parts[1])}
        return {}

    def _name(self, kind: type) -> str:
        if kind not in self._names:
            place = kind.__module__.rpartition(".")[2]
            name = kind.__name__
            if name in self.named:
                name = f"{''.join(word.title() for word in place.split('_'))}{name}"
            self._names[kind] = name
            self.named[name] = {}
            self.named[name] = self._object(kind)
        return self._names[kind]

    def _object(self, kind: type) -> Schema:
        hints = get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        about = " ".join((kind.__doc__ or "").split("\n")[0].split())
        return {
            "type": "object",
            "description": about,
            "properties": {name: self.of(hints[name]) for name in names},
            "required": names,
        }


def _is_any_json(part: Any) -> bool:
    """Return whether a part of a union is the recursion of `ids.Json`."""
    return any(isinstance(inner, ForwardRef | str) for inner in get_args(part))
