"""The job: trips and charges from Kafka, joined, into a Delta table. ``python -m fleet.job --help``."""

import argparse
import os

from pyspark.sql import SparkSession

from fleet.charged_trips import charged_trips


def session():
    """The session. ``FLEET_JARS`` names the jars of Delta and of Spark's Avro where no image has them in place."""
    builder = SparkSession.builder.appName("charged-trips")
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    builder = builder.config("spark.sql.catalog.spark_catalog", catalog)
    if jars := os.environ.get("FLEET_JARS"):
        builder = builder.config("spark.jars", jars)
    return builder.getOrCreate()


def source(spark, brokers, topic):
    """A topic from its beginning."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()


def main():
    """Run the query until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("brokers", "trips", "charges", "table", "checkpoint"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    spark = session()
    rows = charged_trips(source(spark, args.brokers, args.trips), source(spark, args.brokers, args.charges))
    writer = rows.writeStream.format("delta").option("checkpointLocation", args.checkpoint)
    writer.start(args.table).awaitTermination()


if __name__ == "__main__":
    main()
