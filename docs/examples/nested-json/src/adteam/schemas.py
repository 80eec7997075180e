"""The records of our topics, as the services write them: JSON objects with times in milliseconds since the epoch."""

ORDER = """
    meta STRUCT<id: STRING, created_at: BIGINT, trace: STRING>,
    customer STRUCT<id: STRING, account: STRING>,
    totals STRUCT<amount: DECIMAL(12,2), currency: STRING>,
    status STRING,
    channel STRING
"""
PAYMENT = """
    meta STRUCT<id: STRING, created_at: BIGINT>,
    payer STRUCT<customer: STRING, paid_by: STRING>,
    amount DECIMAL(12,2),
    currency STRING,
    state STRING
"""
