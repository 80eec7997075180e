"""Message classes of Protobuf that are made at run time: no compiler is needed, and no generated file kept."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2

PROTO = """
syntax = "proto3";
package shop;
// message Hidden { }
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum State { NEW = 0; PAID = 1; LOST = 7; }
message Event {
  message Who { string name = 1; repeated string tags = 2; }
  string id = 1;
  optional int64 key = 2;
  Who who = 3;
  google.protobuf.Timestamp at = 4;
  int64 big = 5;
  double price = 6;
  float ratio = 7;
  bool paid = 8;
  bytes raw = 9;
  State state = 10;
  repeated sint32 many = 11;
  map<string, int64> counts = 12;
  map<bool, Who> friends = 13;
  google.protobuf.StringValue note = 14;
  google.protobuf.Int64Value number = 15;
  oneof how { string card = 16; uint64 cash = 17; }
  repeated google.protobuf.Timestamp times = 18;
}
message /* the second */ Payment { string id = 1; message Line { int32 cents = 1; } Line line = 2; }
"""
"""The file of the messages, as a producer registers it."""
_TYPE = descriptor_pb2.FieldDescriptorProto
_SINGLE, _MANY = _TYPE.LABEL_OPTIONAL, _TYPE.LABEL_REPEATED
_MESSAGES = {
    "Event": (
        ("id", 1, "STRING"), ("key", 2, "INT64"), ("who", 3, ".shop.Event.Who"),
        ("at", 4, ".google.protobuf.Timestamp"), ("big", 5, "INT64"), ("price", 6, "DOUBLE"), ("ratio", 7, "FLOAT"),
        ("paid", 8, "BOOL"), ("raw", 9, "BYTES"), ("state", 10, "enum"), ("many", 11, "SINT32*"),
        ("counts", 12, ".shop.Event.CountsEntry*"), ("friends", 13, ".shop.Event.FriendsEntry*"),
        ("note", 14, ".google.protobuf.StringValue"), ("number", 15, ".google.protobuf.Int64Value"),
        ("card", 16, "STRING"), ("cash", 17, "UINT64"), ("times", 18, ".google.protobuf.Timestamp*"),
    ),
    "Event.CountsEntry": (("key", 1, "STRING"), ("value", 2, "INT64")),
    "Event.FriendsEntry": (("key", 1, "BOOL"), ("value", 2, ".shop.Event.Who")),
    "Event.Who": (("name", 1, "STRING"), ("tags", 2, "STRING*")),
    "Payment": (("id", 1, "STRING"), ("line", 2, ".shop.Payment.Line")),
    "Payment.Line": (("cents", 1, "INT32"),),
}  # fmt: skip


def file_descriptor(package: str = "shop") -> descriptor_pb2.FileDescriptorProto:
    """The descriptor of the file: what protoc would write of :data:`PROTO`, maps before the nested message."""
    made = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    made.dependency.extend((timestamp_pb2.DESCRIPTOR.name, wrappers_pb2.DESCRIPTOR.name))
    states = made.enum_type.add(name="State")
    for name, number in (("NEW", 0), ("PAID", 1), ("LOST", 7)):
        states.value.add(name=name, number=number)
    known: dict[str, Any] = {}
    for path, fields in _MESSAGES.items():
        outer, _, name = path.rpartition(".")
        known[path] = known[outer].nested_type.add(name=name) if outer else made.message_type.add(name=name)
        known[path].options.map_entry = name.endswith("Entry")
        for field, number, kind in fields:
            _add(known[path], field, number, kind.replace(".shop.", f".{package}."), package)
    event = known["Event"]
    event.oneof_decl.add(name="how")
    event.oneof_decl.add(name="_key")
    for field in event.field:
        if field.name in ("card", "cash"):
            field.oneof_index = 0
        if field.name == "key":
            field.oneof_index, field.proto3_optional = 1, True
    return made


def _add(message: Any, name: str, number: int, kind: str, package: str) -> None:
    field = message.field.add(name=name, number=number, label=_MANY if kind.endswith("*") else _SINGLE)
    kind = kind.rstrip("*")
    if kind == "enum":
        field.type, field.type_name = _TYPE.TYPE_ENUM, f".{package}.State"
    elif kind.startswith("."):
        field.type, field.type_name = _TYPE.TYPE_MESSAGE, kind
    else:
        field.type = getattr(_TYPE, f"TYPE_{kind}")


def message_class(file: descriptor_pb2.FileDescriptorProto, name: str) -> Any:
    """The class of a message, in a pool of its own."""
    pool = descriptor_pool.DescriptorPool()
    for needed in (timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(needed.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{name}"))
