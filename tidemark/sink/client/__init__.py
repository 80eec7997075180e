"""The client program: the sink's public function, and the checks that run before a query starts.

In here: ``exactly_once_writer``, which turns a streaming data frame into a writer of this sink. It runs in the program
that starts the query, classic or Spark Connect. It may use PySpark's API and the session, and it may run small Spark
jobs. It opens no connection to Kafka: brokers may be reachable from the executors only.
"""
