"""Where a key goes: the partition that Spark's ``repartition(n, key)`` gives a row, and Kafka's hash of a key.

Pure. ``HashPartitioning.partitionIdExpression`` is ``pmod(hash(key), n)``, and ``hash`` is ``Murmur3_x86_32`` with the
seed 42 (``hashUnsafeBytes``): four bytes at a time, then each byte that is left as a word of its own, signed. Kafka's
producer in Java has ``Utils.murmur2``.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_SEED = 42


def partition_of(text: str | None, partitions: int) -> int:
    """The number of the partition, from 0 on; a NULL has the hash of the seed alone."""
    hashed = _SEED if text is None else _hash(text.encode())
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return signed % partitions


def _hash(data: bytes) -> int:
    state, whole = _SEED, len(data) - len(data) % 4
    for at in range(0, whole, 4):
        state = _mixed(state, int.from_bytes(data[at : at + 4], "little"))
    for at in range(whole, len(data)):
        byte = data[at]
        state = _mixed(state, (byte - 256 if byte > 127 else byte) & _MASK)
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    return state ^ state >> 16


def _mixed(state: int, word: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    state ^= word * 0x1B873593 & _MASK
    state = (state << 13 | state >> 19) & _MASK
    return (state * 5 + 0xE6546B64) & _MASK


def murmur2(data: bytes) -> int:
    """The hash by which Kafka's Java producer chooses a partition, without a sign."""
    factor, state = 0x5BD1E995, 0x9747B28C ^ len(data)
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * factor & _MASK
        word = (word ^ word >> 24) * factor & _MASK
        state = state * factor & _MASK ^ word
    if rest := data[whole:]:
        state = (state ^ int.from_bytes(rest, "little")) * factor & _MASK
    state = (state ^ state >> 13) * factor & _MASK
    return state ^ state >> 15
