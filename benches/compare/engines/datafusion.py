"""DataFusion: Arrow record batches in memory."""

import datafusion
import pyarrow as pa

from . import Engine


class DataFusion(Engine):
    title = "DataFusion, Arrow in memory"

    def __init__(self, options):
        config = datafusion.SessionConfig().with_target_partitions(1)
        self.context = datafusion.SessionContext(config)
        self.sizes = {}

    def version(self):
        return datafusion.__version__

    def load(self, table):
        batches = self.context.read_parquet(str(table.path)).collect()
        self.context.register_record_batches(table.name, [batches])
        # Batches share buffers of texts.
        held = pa.Table.from_batches(batches)
        self.sizes[table.name] = {name: held[name].get_total_buffer_size() for name in held.column_names}

    def column_bytes(self, table):
        return self.sizes[table.name]

    def query(self, prepared):
        frame = self.context.sql(prepared)
        return pa.Table.from_batches(frame.collect(), frame.schema())
