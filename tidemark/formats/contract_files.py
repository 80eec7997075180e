"""A contract in a file of JSON, as ``tidemark contract --json`` prints it or as ``Contract.to_json`` makes it."""

from __future__ import annotations

import json
from pathlib import Path

from tidemark.errors import BrokenContract, UsageError
from tidemark.formats.chain import Chain, read_contract
from tidemark.formats.contract import Contract, printed_contract


def contract_of_file(path: Path) -> Contract | Chain:
    """The contract in a file; raises ``UsageError`` for what is none, ``BrokenContract`` for one with a defect."""
    try:
        return read_contract(printed_contract(json.loads(path.read_bytes())))
    except BrokenContract:
        raise
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{str(path)!r} is no contract",
            detail=str(error),
            hint="`tidemark contract PIPELINE --json` prints one; docs/reference/contract.md describes it",
        ) from error


def join_of_file(path: Path) -> Contract:
    """The contract of one join in a file; raises ``UsageError`` for a chain, too."""
    contract = contract_of_file(path)
    if isinstance(contract, Chain):
        raise UsageError(
            f"{str(path)!r} is the contract of a chain",
            detail="a single join is needed here",
            hint="a chain is run as a pipeline in Python, which has a function `build` of its sources",
        )
    return contract
