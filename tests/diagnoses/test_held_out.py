"""Each held-out mutant is found on a real stack, and leaves its evidence for ``python -m tests.diagnoses``."""

from __future__ import annotations

import pytest

from tests.diagnoses.held_out import HELD_OUT, PLACE
from tests.mutants.score import EVIDENCE
from tests.support.bundled import case_of, make_trace
from tidemark.formats.evidence import RunDirectory

pytestmark = [pytest.mark.mutants, pytest.mark.long]


@pytest.mark.parametrize("name", HELD_OUT)
def test_a_held_out_mutant_is_found(name, warm, tmp_path, request):
    one = HELD_OUT[name]
    broken = tmp_path / "mutant.py"
    broken.write_text(one.mutant.source(one.join))
    case = case_of(broken, make_trace(tmp_path / "trace.jsonl", one.generator), conf=one.mutant.conf)

    verdict = warm.run(case, tmp_path / "run")

    assert verdict.verdict == "INVALID", verdict
    run = RunDirectory(tmp_path / "run")
    request.node.user_properties.append((EVIDENCE, (PLACE, name, one.join, str(run.path))))
