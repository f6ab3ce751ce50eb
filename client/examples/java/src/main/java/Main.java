// Asks a server in Java, after `basalt load` of flights and airlines; pom.xml says how to run it, and makes the messages of
// basalt.v1. The plugin protoc-gen-grpc-java makes stubs of the services, too; one method needs none. A server with TLS and
// keys wants TlsChannelCredentials and the metadata `authorization: Bearer KEY`.

import basalt.v1.Column;
import basalt.v1.Format;
import basalt.v1.QueryResponse;
import basalt.v1.SqlRequest;
import basalt.v1.Value;
import io.grpc.CallOptions;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.MethodDescriptor;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import java.util.concurrent.TimeUnit;

public class Main {
    static final String QUESTION = "SELECT name, count(*) AS n FROM flights JOIN airlines USING (carrier) "
            + "WHERE distance > ? GROUP BY name ORDER BY n DESC LIMIT 3";
    static final MethodDescriptor<SqlRequest, QueryResponse> QUERY = MethodDescriptor.<SqlRequest, QueryResponse>newBuilder()
            .setType(MethodDescriptor.MethodType.SERVER_STREAMING)
            .setFullMethodName("basalt.v1.SqlService/Query")
            .setRequestMarshaller(ProtoUtils.marshaller(SqlRequest.getDefaultInstance()))
            .setResponseMarshaller(ProtoUtils.marshaller(QueryResponse.getDefaultInstance()))
            .build();

    public static void main(String[] arguments) {
        var channel = Grpc.newChannelBuilder(arguments[0], InsecureChannelCredentials.create()).build();
        try {
            var request = SqlRequest.newBuilder().setSql(QUESTION).setFormat(Format.FORMAT_COLUMNS)
                    .addParameters(Value.newBuilder().setInt(0)).build();
            var in10Seconds = CallOptions.DEFAULT.withDeadlineAfter(10, TimeUnit.SECONDS);
            var answer = ClientCalls.blockingServerStreamingCall(channel, QUERY, in10Seconds, request);
            boolean complete = false;
            while (answer.hasNext()) {
                QueryResponse message = answer.next();
                if (message.hasBatch()) print(message.getBatch().getColumns(0), message.getBatch().getColumns(1));
                complete |= message.hasTrailer();
            }
            // A stream that ends without its trailer is no answer.
            if (!complete) throw new IllegalStateException("the answer broke off");
        } finally {
            channel.shutdownNow();
        }
    }

    /** Packed columns: texts stand one behind the other, each with its length in bytes. */
    static void print(Column names, Column counts) {
        var texts = names.getTexts().getData();
        for (int row = 0, at = 0; row < counts.getInt64S().getValuesCount(); row++) {
            int end = at + names.getTexts().getLengths(row);
            System.out.println(texts.substring(at, end).toStringUtf8() + ": " + counts.getInt64S().getValues(row));
            at = end;
        }
    }
}
