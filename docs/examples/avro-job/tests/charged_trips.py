"""What the job promises."""

from importlib.resources import files

from tidemark import Bound, Contract, Field, Filter, JoinKind, Output, Side, Term, avro_pair

SCHEMAS = files("fleet").joinpath("schemas")
decode_trip, encode_trip = avro_pair(str(SCHEMAS / "trip.avsc"), registry=True)
decode_charge, encode_charge = avro_pair(str(SCHEMAS / "charge.avsc"), registry=True)

CONTRACT = Contract(
    name="charged_trips",
    kind=JoinKind.LEFT_OUTER,
    left=Side(
        topic="trips",
        id="trip_id",
        keys=("passenger",),
        time="ended_at",
        time_format="epoch-ms",
        watermark_delay_ms=60_000,
        fields=(
            Field("passenger", "rider.id"),
            Field("city", "rider.city", "string"),
            Field("fare", type="decimal(10,2)"),
            Field("kind", type="string"),
        ),
        filters=(Filter("kind", "!=", "TEST"),),
        decode="decode_trip",
        encode="encode_trip",
    ),
    right=Side(
        topic="charges",
        id="charge_id",
        keys=("rider",),
        time="charged_at",
        watermark_delay_ms=180_000,
        fields=(Field("amount", type="decimal(10,2)"), Field("state", type="string")),
        filters=(Filter("state", "=", "CAPTURED"),),
        decode="decode_charge",
        encode="encode_charge",
    ),
    bound=Bound(lower_ms=-600_000, upper_ms=0),
    condition=(Term(">=", left="fare", right="amount"),),
    where=(Term("!=", left="city", value="demo"),),
    output=Output("trip_id", "charge_id"),
)
