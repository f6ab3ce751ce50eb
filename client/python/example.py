#!/usr/bin/env python3
"""Basalt from plain grpcio: nothing here but the stubs that generate.py makes from proto/.

    python3 example.py [ADDRESS]
"""

import datetime
import sys
import uuid

import grpc
from basalt.v1 import (
    catalog_pb2,
    catalog_pb2_grpc,
    filter_pb2,
    ingest_pb2,
    ingest_pb2_grpc,
    query_pb2,
    query_pb2_grpc,
    types_pb2,
)
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from pyroaring import BitMap64

TABLE = "python_rides"
CITIES = "python_cities"
UTC = datetime.timezone.utc

# Rows, as columns: None is null.
CITY = ["Oslo", "Bergen", "Oslo", "Oslo", "Bergen", "Tromsø", "Oslo", "Bergen"]
MINUTES = [12, 31, None, 7, 18, 25, 44, None]
FARE = [1250, 2990, 990, 850, 1800, 2475, 4120, 1500]  # hundredths
STARTED = [datetime.datetime(2024, 5, 17, hour, 30, tzinfo=UTC) for hour in range(6, 14)]

INHABITANTS = {"Oslo": 717_710, "Bergen": 291_940, "Tromsø": 78_745}


# Columns as messages. Values stand for every row, a bit of `validity` for each one that is there.


def validity(values):
    if None not in values:
        return b""
    bits = sum((value is not None) << row for row, value in enumerate(values))
    return bits.to_bytes((len(values) + 7) // 8, "little")


def texts(values):
    data = [(value or "").encode() for value in values]
    packed = types_pb2.Texts(data=b"".join(data), lengths=[len(text) for text in data])
    return types_pb2.Column(validity=validity(values), texts=packed)


def int32s(values):
    packed = types_pb2.Int32s(values=[value or 0 for value in values])
    return types_pb2.Column(validity=validity(values), int32s=packed)


def int64s(values):
    packed = types_pb2.Int64s(values=[value or 0 for value in values])
    return types_pb2.Column(validity=validity(values), int64s=packed)


def microseconds(time):
    return (time - datetime.datetime(1970, 1, 1, tzinfo=UTC)) // datetime.timedelta(microseconds=1)


def values_of(column, kind):
    """A column of an answer as a list."""
    packed = getattr(column, column.WhichOneof("values"))
    if isinstance(packed, types_pb2.Texts):
        values, at = [], 0
        for length in packed.lengths:
            values.append(packed.data[at : at + length].decode())
            at += length
    elif isinstance(packed, types_pb2.Int128s):
        data = packed.data
        values = [int.from_bytes(data[at : at + 16], "little", signed=True) for at in range(0, len(data), 16)]
    else:
        values = list(packed.values)
    if kind.kind == types_pb2.TYPE_KIND_DECIMAL:
        values = [f"{value / 10**kind.scale:.{kind.scale}f}" for value in values]
    if column.validity:
        there = int.from_bytes(column.validity, "little")
        values = [value if there >> row & 1 else None for row, value in enumerate(values)]
    return values


# Expressions and filters, as small functions.


def col(name):
    return filter_pb2.Expr(column=name)


def lit(**value):
    return filter_pb2.Expr(literal=types_pb2.Value(**value))


def aggregate(function, argument=None):
    return filter_pb2.Expr(aggregate=filter_pb2.Aggregate(function=function, argument=argument))


def compare(op, left, right):
    return filter_pb2.Filter(compare=filter_pb2.Compare(op=op, left=left, right=right))


def both(*filters):
    return filter_pb2.Filter(**{"and": filter_pb2.And(filters=filters)})


def item(name, expr):
    return query_pb2.SelectItem(expr=expr, name=name)


def field(name, kind, nullable=False, **decimal):
    return types_pb2.Field(name=name, type=types_pb2.DataType(kind=kind, **decimal), nullable=nullable)


def create(catalog, table, fields):
    catalog.DropTable(catalog_pb2.DropTableRequest(name=table, if_exists=True))
    catalog.CreateTable(catalog_pb2.CreateTableRequest(name=table, schema=types_pb2.Schema(fields=fields)))


def batch(rows, *columns):
    return types_pb2.RecordBatch(rows=rows, columns=columns)


def rides(batch_rows=5):
    """The rows of the rides, a few at a time."""
    for start in range(0, len(CITY), batch_rows):
        rows = slice(start, start + batch_rows)
        started = int64s([microseconds(time) for time in STARTED[rows]])
        yield batch(len(CITY[rows]), texts(CITY[rows]), int32s(MINUTES[rows]), int64s(FARE[rows]), started)


def write(ingest, table, request_id, batches):
    """One stream: Open, batches, Commit. The rows are there when Committed is.

    A long stream reads the acknowledgements as it goes, and keeps at most `Opened.window_bytes` in flight.
    """

    def requests():
        yield ingest_pb2.WriteRequest(open=ingest_pb2.Open(table=table, request_id=request_id))
        sequence = rows = 0
        for columns in batches:
            sequence += 1
            rows += columns.rows
            yield ingest_pb2.WriteRequest(batch=ingest_pb2.Batch(sequence=sequence, columns=columns))
        yield ingest_pb2.WriteRequest(commit=ingest_pb2.Commit(batches=sequence, rows=rows))

    for response in ingest.Write(requests()):
        if response.HasField("committed"):
            return response.committed
    raise RuntimeError("the stream ended without its Committed")


def query(queries, request):
    """The answer's rows. A stream without its trailer is incomplete."""
    schema, rows, complete = None, [], False
    for response in queries.Query(request):
        match response.WhichOneof("kind"):
            case "header":
                schema = response.header.schema
            case "batch":
                columns = [values_of(c, f.type) for c, f in zip(response.batch.columns, schema.fields, strict=True)]
                rows.extend(zip(*columns, strict=True))
            case "trailer":
                complete = response.trailer.complete
    if not complete:
        raise RuntimeError("the answer is incomplete")
    return rows


def main():
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7700"
    channel = grpc.insecure_channel(address)
    catalog = catalog_pb2_grpc.CatalogServiceStub(channel)
    ingest = ingest_pb2_grpc.IngestServiceStub(channel)
    queries = query_pb2_grpc.QueryServiceStub(channel)

    fields = [
        field("city", types_pb2.TYPE_KIND_UTF8),
        field("minutes", types_pb2.TYPE_KIND_INT16, nullable=True),
        field("fare", types_pb2.TYPE_KIND_DECIMAL, precision=8, scale=2),
        field("started", types_pb2.TYPE_KIND_TIMESTAMP),
    ]
    create(catalog, TABLE, fields)
    request_id = str(uuid.uuid4())
    committed = write(ingest, TABLE, request_id, rides())
    print(f"wrote {committed.rows} rows")
    again = write(ingest, TABLE, request_id, rides())
    print(f"wrote them again with the same request id: replayed = {again.replayed}")

    # select city, count(*), count(minutes), sum(fare), avg(minutes) from rides
    # where fare >= 9.90 and started >= '2024-05-17T07:00:00Z' group by city order by city
    where = both(
        compare(filter_pb2.COMPARE_OP_GE, col("fare"), lit(decimal=types_pb2.Decimal(unscaled=990, scale=2))),
        compare(filter_pb2.COMPARE_OP_GE, col("started"), lit(text="2024-05-17T07:00:00Z")),
    )
    request = query_pb2.QueryRequest(
        table=TABLE,
        select=[
            item("city", col("city")),
            item("rides", aggregate(filter_pb2.AGGREGATE_FUNCTION_COUNT)),
            item("timed", aggregate(filter_pb2.AGGREGATE_FUNCTION_COUNT, col("minutes"))),
            item("fares", aggregate(filter_pb2.AGGREGATE_FUNCTION_SUM, col("fare"))),
            item("minutes", aggregate(filter_pb2.AGGREGATE_FUNCTION_AVG, col("minutes"))),
        ],
        filter=where,
        group_by=[col("city")],
        order_by=[query_pb2.OrderBy(expr=col("city"))],
    )
    print("\nby city:")
    for row in query(queries, request):
        print("  ", *row)

    # The rows that a filter selects, as a set (SIP) that is a filter itself.
    selected = queries.Select(query_pb2.SelectRequest(table=TABLE, filter=where))
    print(f"\nselected {selected.cardinality} rows")
    within = filter_pb2.Filter(rows=filter_pb2.RowSet(scope=selected.scope, sip=selected.sip))
    longer = compare(filter_pb2.COMPARE_OP_GT, col("minutes"), lit(int=20))
    request = query_pb2.QueryRequest(table=TABLE, filter=both(within, longer))
    print("of them longer than 20 minutes:")
    for city, minutes, fare, started in query(queries, request):
        print("  ", city, minutes, fare, datetime.datetime.fromtimestamp(started / 1e6, UTC).isoformat())

    # The values of a column as a set. This encoding is a Roaring bitmap behind one byte, which says so.
    request = query_pb2.SelectRequest(table=TABLE, key="minutes", tag=types_pb2.SIP_TAG_ROARING)
    minutes = BitMap64.deserialize(queries.Select(request).sip[1:])
    print("\ndistinct minutes:", *minutes)

    # A semi-join: city in (select city from cities where inhabitants > 250000)
    fields = [field("city", types_pb2.TYPE_KIND_UTF8), field("inhabitants", types_pb2.TYPE_KIND_INT64)]
    create(catalog, CITIES, fields)
    names, inhabitants = texts(list(INHABITANTS)), int64s(list(INHABITANTS.values()))
    write(ingest, CITIES, str(uuid.uuid4()), [batch(len(INHABITANTS), names, inhabitants)])
    large = compare(filter_pb2.COMPARE_OP_GT, col("inhabitants"), lit(int=250_000))
    in_large = filter_pb2.Filter(
        semi_join=filter_pb2.SemiJoin(column="city", table=CITIES, key="city", filter=large)
    )
    count = item("rides", aggregate(filter_pb2.AGGREGATE_FUNCTION_COUNT))
    for name, where in ("in large cities", in_large), ("elsewhere", filter_pb2.Filter(**{"not": in_large})):
        request = query_pb2.QueryRequest(table=TABLE, select=[count], filter=where)
        print(f"rides {name}:", query(queries, request)[0][0])

    # Errors carry a reason from a closed list, and the place in the request.
    print("\na mistake:")
    wrong = compare(filter_pb2.COMPARE_OP_EQ, col("town"), lit(text="Oslo"))
    try:
        query(queries, query_pb2.QueryRequest(table=TABLE, filter=wrong))
    except grpc.RpcError as error:
        print("  ", error.code().name)
        for detail in rpc_status.from_call(error).details:
            for kind in error_details_pb2.ErrorInfo, error_details_pb2.BadRequest:
                if detail.Is(kind.DESCRIPTOR):
                    message = kind()
                    detail.Unpack(message)
                    if kind is error_details_pb2.ErrorInfo:
                        print("   reason:", message.reason)
                    else:
                        for violation in message.field_violations:
                            print("   place:", violation.field)

    for table in TABLE, CITIES:
        catalog.DropTable(catalog_pb2.DropTableRequest(name=table))


if __name__ == "__main__":
    main()
