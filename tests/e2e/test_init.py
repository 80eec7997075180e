"""``tidemark init``: from a join in somebody's project to a test that passes, without a line written by hand."""

from __future__ import annotations

import pytest

from tests.e2e.test_contract_draft import STATEMENT
from tests.support.stranger import Stranger

SAMPLES = {
    "orders.json": '{"order_id": "o-17", "customer": "Ann", "ordered_at": "2026-03-01T12:00:00Z", "more": [1]}\n',
    "payments.json": '{"payment_id": "p-17", "customer": "Ann", "paid_at": "2026-03-01T12:00:09Z"}\n',
    "text.json": "no JSON\n",
    "other.json": '{"order_id": "o-17"}\n',
}
GIVEN = ("--sample", "orders=orders.json", "--sample", "payments=payments.json")


@pytest.fixture
def stranger(stack, tmp_path):
    return Stranger(tmp_path / "theirs", {"src/adteam/statement.py": STATEMENT, **SAMPLES})


@pytest.mark.parametrize("function", ["adteam.statement:pairs", "src/adteam/statement.py:pairs"])
def test_the_test_that_is_written_passes(function, stranger):
    made = stranger.run("init", function, "--name", "paid", "--no-ci", *GIVEN)

    assert made.returncode == 0, made.stderr
    assert sorted(path.name for path in (stranger.folder / "tests").iterdir()) == [
        "paid.jsonl", "paid.py", "test_paid.py",
    ]  # fmt: skip
    assert "next:" in made.stdout
    wanted = ("-k", "every_row") if ":pairs" in function and function.startswith("src") else ()
    done = stranger.run("-q", "-p", "no:cacheprovider", "tests", *wanted, module="pytest")
    assert done.returncode == 0, done.stdout + done.stderr
    again = stranger.run("init", function, "--name", "paid", *GIVEN)
    assert again.returncode == 2
    assert "is there already" in again.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--sample", "orders=orders.json"), "there is no sample of payments"),
        ((*GIVEN[:3], "payments=none.json"), "there is no sample 'none.json'"),
        ((*GIVEN[:3], "payments=text.json"), "has no record"),
        (("--sample", "orders=other.json", *GIVEN[2:]), "the sample of 'orders' is no event"),
        ((*GIVEN, "--id", "bills=id"), "the join has no topic 'bills'"),
        ((*GIVEN, "--sample", "nothing"), "cannot read --sample 'nothing'"),
    ],
)
def test_what_cannot_be_begun_is_refused_and_writes_nothing(options, says, stranger):
    done = stranger.run("init", "adteam.statement:pairs", *options)

    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert not (stranger.folder / "tests").exists() or not list((stranger.folder / "tests").iterdir())
    assert not (stranger.folder / ".github").exists()
