"""What shows the known defects of Spark's stream-stream join: small joins, and traces written by hand.

Each file is a pipeline, run by its path with a trace of this folder;
``tidemark/oracle/spark/known_defects.py`` says which go
together, what SQL says of them, and which Spark versions differ. Never imported by tidemark; in a wheel they travel as
payload, like the bundled pipelines.

    tidemark run spark_bugs/same_batch_left_semi.py --trace spark_bugs/same_batch.jsonl
"""
