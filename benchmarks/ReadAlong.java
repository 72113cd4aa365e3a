import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A consumer with its default settings that reads from the end of a topic, until it is ended, and says of which
 * partition it received something, and when.
 */
public class ReadAlong {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", "reads-with-java");
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<byte[], byte[]>(settings, bytes, bytes)) {
            consumer.subscribe(List.of(arguments[1]));
            while (true) {
                var records = consumer.poll(Duration.ofMillis(100));
                double now = System.currentTimeMillis() / 1000.0;
                for (var place : records.partitions()) {
                    System.out.printf("%d %.3f%n", place.partition(), now);
                }
                System.out.flush();
            }
        }
    }
}
