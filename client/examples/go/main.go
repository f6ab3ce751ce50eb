// Asks a server in Go: go run . 127.0.0.1:7700, after `basalt load` of flights and airlines. The stubs come from `buf generate`
// (scripts/check-examples). A server with TLS and keys wants credentials.NewTLS and the metadata `authorization: Bearer KEY`.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"time"

	pb "basalt/v1"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const question = `SELECT name, count(*) AS n FROM flights JOIN airlines USING (carrier) GROUP BY name ORDER BY n DESC LIMIT 3`

// ask calls each with the answer's record batches. A stream that ends without its trailer is no answer.
func ask(ctx context.Context, client pb.SqlServiceClient, sql string, each func(arrow.RecordBatch)) error {
	stream, err := client.Query(ctx, &pb.SqlRequest{Sql: sql, Format: pb.Format_FORMAT_ARROW_IPC})
	if err != nil {
		return err
	}
	for {
		message, err := stream.Recv()
		if message.GetTrailer() != nil {
			return nil
		} else if err != nil {
			return fmt.Errorf("the answer broke off: %w", err)
		}
		if batch := message.GetArrowIpc(); batch != nil {
			reader, err := ipc.NewReader(bytes.NewReader(batch))
			if err != nil || !reader.Next() {
				return fmt.Errorf("no batch: %w", err)
			}
			each(reader.RecordBatch())
		}
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		err = ask(ctx, pb.NewSqlServiceClient(connection), question, func(rows arrow.RecordBatch) {
			for row := range int(rows.NumRows()) {
				fmt.Printf("%s: %s\n", rows.Column(0).ValueStr(row), rows.Column(1).ValueStr(row))
			}
		})
	}
	if err != nil {
		log.Fatal(err)
	}
}
