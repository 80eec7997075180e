"""Names of cities as the reports write them."""

from pyspark.sql.functions import udf
from pyspark.sql.types import StringType


@udf(StringType())
def city_name(city):
    """``Berlin`` of ``berlin ``; NULL of NULL."""
    return city.strip().title() if city is not None else None
