"""Account numbers, which leave the house without their middle."""

from pyspark.sql.functions import udf

SHOWN = 4
"""So many digits stay, at the end."""


def digits(account):
    """An account number without the blanks and dashes that people put into it."""
    return account.replace(" ", "").replace("-", "")


@udf("string")
def masked(account):
    """``****3000`` of ``DE89 3704 0044 0532 0130 00``; NULL of NULL."""
    return "*" * 4 + digits(account)[-SHOWN:] if account else None
