"""What shows the known defects of Spark's stream-stream join: small joins, and traces written by hand.

Each file is a pipeline, run by its path with a trace of this folder; ``tidemark/oracle/defects.py`` says which go
together, what SQL says of them, and which Spark versions differ. Never imported by tidemark; in a wheel they travel as
payload, like the bundled pipelines.

    tidemark run defects/same_batch_left_semi.py --trace defects/same_batch.jsonl
"""
