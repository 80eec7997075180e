"""Tables in Markdown: what is written is read back."""

from __future__ import annotations

from tidemark.reports.markdown import read_table, table


def test_a_heading_that_ends_in_a_colon_aligns_its_column_to_the_right():
    assert list(table(("join", "rows:"), [("inner", 12)])) == [
        "| join | rows |",
        "|---|---:|",
        "| inner | 12 |",
    ]


def test_a_table_of_a_document_is_read_back_also_with_bars_and_line_ends_in_its_cells():
    text = "\n".join(
        ["# Document", "", *table(("a", "b"), [("x | y", "two\nlines"), ("", "z")]), "", "- a | b"]
    )
    assert read_table(text) == [("a", "b"), ("x | y", "two lines"), ("", "z")]
