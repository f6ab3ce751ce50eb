// Asks a server in Node: node main.js 127.0.0.1:7700, after `basalt load flights ...` and `basalt load airlines ...`.
// A server with TLS and keys wants grpc.credentials.createSsl(ca) and the metadata `authorization: Bearer KEY`.

import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";
import { tableFromIPC } from "apache-arrow";

const PROTO = process.env.BASALT_PROTO ?? new URL("../../../proto", import.meta.url).pathname;
const definition = loader.loadSync(["basalt/v1/catalog.proto", "basalt/v1/sql.proto"], {
  includeDirs: [PROTO], keepCase: true, longs: String, enums: String, oneofs: true,
});
const { basalt: { v1 } } = grpc.loadPackageDefinition(definition);
const [address = "127.0.0.1:7700"] = process.argv.slice(2);
const credentials = grpc.credentials.createInsecure();
const catalog = new v1.CatalogService(address, credentials);
const statements = new v1.SqlService(address, credentials);
const in10Seconds = () => ({ deadline: Date.now() + 10_000 });

/** The rows of a statement, as Arrow has them. A stream that ends without its trailer is no answer. */
async function* rows(sql) {
  let complete = false;
  for await (const message of statements.Query({ sql, format: "FORMAT_ARROW_IPC" }, in10Seconds())) {
    if (message.kind === "arrow_ipc") yield* tableFromIPC(message.arrow_ipc);
    if (message.kind === "trailer") complete = true;
  }
  if (!complete) throw new Error("the answer broke off");
}

catalog.ListTables({}, in10Seconds(), async (error, answer) => {
  if (error) throw error;
  for (const table of answer.tables) console.log(`${table.name}: ${table.rows} rows`);
  const question = `SELECT name, count(*) AS flights FROM flights JOIN airlines USING (carrier)
    GROUP BY name ORDER BY flights DESC LIMIT 3`;
  for await (const row of rows(question)) console.log(`${row.name}: ${row.flights}`);
  catalog.close();
  statements.close();
});
