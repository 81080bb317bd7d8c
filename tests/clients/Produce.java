import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces a record for each line of standard input, the line as its key, as the Java client does as it comes. Prints where each
 * came to lie: {"line":N,"partition":N,"offset":N}.
 */
public final class Produce {
    public static void main(String[] arguments) throws Exception {
        var settings = Map.<String, Object>of(
            "bootstrap.servers", arguments[0],
            "key.serializer", StringSerializer.class,
            "value.serializer", StringSerializer.class);
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).lines().toList();
        try (var producer = new KafkaProducer<String, String>(settings)) {
            for (int line = 0; line < lines.size(); line++) {
                var sent = producer.send(new ProducerRecord<>(arguments[1], lines.get(line), "x"));
                var metadata = sent.get();
                System.out.printf("{\"line\":%d,\"partition\":%d,\"offset\":%d}%n", line, metadata.partition(), metadata.offset());
            }
        }
    }
}
