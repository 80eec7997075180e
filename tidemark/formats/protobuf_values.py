"""What a message of Protobuf says as a dictionary, and the message of such a dictionary, by the fields of its class.

Free of Kafka and Spark; of ``protobuf`` it needs only what generated classes have. A dictionary has all fields of the
class by their names in the ``.proto`` file: none is left out, so that a path of a contract is there in each record.
Maps are sorted by their keys, because a message has them in no order.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = {
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
"""Messages that are one value, or none."""
_BOOLEANS = {"true": True, "false": False}


def event_of(message: Any) -> dict[str, Any]:
    """All fields of a message; a field with presence that is not set is ``None``."""
    return {field.name: _value(message, field) for field in message.DESCRIPTOR.fields}


def _value(message: Any, field: Any) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    found = getattr(message, field.name)
    if (entry := _map_entry(field)) is not None:
        of = entry.fields_by_name["value"]
        return {_key_text(key): _single(found[key], of) for key in sorted(found)}
    return [_single(one, field) for one in found] if _is_repeated(field) else _single(found, field)


def _single(value: Any, field: Any) -> Any:
    if field.enum_type is not None:
        symbol = field.enum_type.values_by_number.get(value)
        return value if symbol is None else symbol.name
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name == _TIMESTAMP:
        return _time(value)
    return value.value if name in _WRAPPERS else event_of(value)


def _time(timestamp: Any) -> datetime | None:
    """A time in UTC, its nanoseconds cut to microseconds; ``None`` beyond the years 1 to 9999."""
    try:
        return _EPOCH + timedelta(seconds=timestamp.seconds, microseconds=timestamp.nanos // 1000)
    except OverflowError:
        return None


def fill(message: Any, event: Mapping[str, Any]) -> None:
    """Set the fields of an empty message as a dictionary says; what is ``None`` or missing is not set."""
    for field in message.DESCRIPTOR.fields:
        value = event.get(field.name)
        if value is None:
            continue
        if (entry := _map_entry(field)) is not None:
            _fill_map(getattr(message, field.name), entry, value)
        elif _is_repeated(field):
            entries = getattr(message, field.name)
            for one in value:
                if field.message_type is None:
                    entries.append(_scalar(one, field))
                else:
                    _fill_single(entries.add(), one)
        elif field.message_type is None:
            setattr(message, field.name, _scalar(value, field))
        else:
            _fill_single(getattr(message, field.name), value)


def _fill_map(entries: Any, entry: Any, value: Mapping[str, Any]) -> None:
    of_key, of_value = entry.fields_by_name["key"], entry.fields_by_name["value"]
    for text, one in value.items():
        key = _key(text, of_key)
        if of_value.message_type is None:
            entries[key] = _scalar(one, of_value)
        else:
            _fill_single(entries[key], one)


def _fill_single(message: Any, value: Any) -> None:
    """Set a message that is in a field: one that says nothing is set, too."""
    message.SetInParent()
    name = message.DESCRIPTOR.full_name
    if value is None:
        return
    if name == _TIMESTAMP:
        time = datetime.fromisoformat(value) if isinstance(value, str) else value
        since = (time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH
        message.seconds, rest = divmod(since, timedelta(seconds=1))
        message.nanos = rest // _MICROSECOND * 1000
    elif name in _WRAPPERS:
        message.value = value
    else:
        fill(message, value)


def _scalar(value: Any, field: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        return field.enum_type.values_by_name[value].number
    return value


def _key_text(key: Any) -> str:
    """The key of a map: text, as JSON has no other."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def _key(text: str, field: Any) -> Any:
    if field.cpp_type == field.CPPTYPE_STRING:
        return text
    return _BOOLEANS[text] if field.cpp_type == field.CPPTYPE_BOOL else int(text)


def _map_entry(field: Any) -> Any:
    """The message of a map's entries; ``None`` of any other field."""
    kind = field.message_type
    return kind if kind is not None and kind.GetOptions().map_entry else None


def _is_repeated(field: Any) -> bool:
    """Whether there may be several; newer versions of ``protobuf`` warn of the older attribute."""
    known = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED) if known is None else bool(known)
